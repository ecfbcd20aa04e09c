// The TypeScript clients against a running server; one JSON object in, one out.
//
//   node client.mjs '{"url": "http://…/mcp", "sdk": "v1" | "v2", "era": "session" | "modern",
//                     "token": "…", "calls": [{"name": "…", "arguments": {…}}],
//                     "resource": "vault://…", "prompt": {"name": "…", "arguments": {…}}}'
//
// Tools are listed before they are called: a client checks results only against schemas it knows.

import * as v2 from "@modelcontextprotocol/client";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const { url, sdk, era, token, calls = [], resource, prompt } = JSON.parse(process.argv[2]);
const [Client, Transport] =
  sdk === "v1" ? [ClientV1, TransportV1] : [v2.Client, v2.StreamableHTTPClientTransport];
const mode = era === "modern" ? { pin: "2026-07-28" } : "legacy";
const headers = token ? { Authorization: `Bearer ${token}` } : {};

const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } });
const transport = new Transport(new URL(url), { requestInit: { headers } });
await client.connect(transport);

const said = {
  version: client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion,
  server: client.getServerVersion(),
  instructions: client.getInstructions(),
  tools: (await client.listTools()).tools,
  results: [],
};
for (const call of calls) {
  try {
    said.results.push({ result: await client.callTool(call) });
  } catch (error) {
    said.results.push({ error: { code: error.code, message: error.message, data: error.data } });
  }
}
if (resource) {
  said.resources = (await client.listResources()).resources;
  said.templates = (await client.listResourceTemplates()).resourceTemplates;
  said.read = await client.readResource({ uri: resource });
  said.missing = await client
    .readResource({ uri: resource + ".missing" })
    .catch((error) => ({ code: error.code, data: error.data }));
  said.completed = await client.complete({
    ref: { type: "ref/resource", uri: said.templates[0].uriTemplate },
    argument: { name: "path", value: "" },
  });
}
if (prompt) {
  said.prompts = (await client.listPrompts()).prompts;
  said.prompt = await client.getPrompt(prompt);
}
if (era === "session") await transport.terminateSession();
await client.close();
console.log(JSON.stringify(said));
