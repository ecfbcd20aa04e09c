"""A loopback emulator of the Google Drive v3 API, for a real `rclone mount gdrive:`.

Two listeners, both on 127.0.0.1:
  --port   an HTTPS_PROXY: rclone CONNECTs to www.googleapis.com through it and we
           terminate TLS ourselves (certificate from our own CA, rclone --ca-cert ca.pem).
           the REAL rclone drive backend runs (pacer, ChangeNotify, Put/Update/Move,
           trash, duplicates, Google docs), no Google account, no internet.
  --admin  plain JSON over HTTP: play "another device", set latency, inject faults, read counters.

Listings may lag behind writes (/consistency) and come in any order (/shuffle), as Drive's do.

Standard library only (mkca.sh calls openssl once). Not emulated: shared drives. Untyped on purpose:
it passes Drive's own JSON around.
"""
# mypy: ignore-errors

import argparse
import asyncio
import base64
import collections
import contextlib
import datetime
import hashlib
import json
import os
import pathlib
import random
import re
import ssl
import sys
import time
import urllib.parse

FOLDER = "application/vnd.google-apps.folder"
GDOC = "application/vnd.google-apps.document"


def now_iso(t=None):
    t = time.time() if t is None else t
    return (
        datetime.datetime.fromtimestamp(t, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.")
        + f"{int((t % 1) * 1000):03d}Z"
    )


def ms(t):
    """Drive keeps milliseconds: 2026-01-01T00:00:00.123456789Z -> .123Z"""
    if not t:
        return t
    m = re.match(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)$", t)
    if not m:
        return t
    base = datetime.datetime.fromisoformat(
        m.group(1) + ("+00:00" if m.group(3) == "Z" else m.group(3))
    ).astimezone(datetime.UTC)
    return base.strftime("%Y-%m-%dT%H:%M:%S.") + ((m.group(2) or "") + "000")[:3] + "Z"


class Drive:
    def __init__(self):
        self.files = {}
        self.children = collections.defaultdict(dict)
        self.changes = []
        self.n = 0
        self.root = "rootFOLDERid"
        self.files[self.root] = {
            "id": self.root,
            "name": "My Drive",
            "mimeType": FOLDER,
            "parents": [],
            "trashed": False,
            "modifiedTime": now_iso(),
            "createdTime": now_iso(),
        }
        self.quota = 15 << 30
        self.lag = 0.0
        self.past = collections.defaultdict(list)

    def remember(self, fid):
        """Keep what a file is now: listings show it for `lag` seconds after the change that follows."""
        if self.lag:
            f = self.files.get(fid)
            was = None if f is None else {**f, "parents": list(f["parents"])}
            self.past[fid].append((time.monotonic(), was))

    def listed(self):
        """The files as a listing shows them: those that changed a moment ago as they were before."""
        shown = dict(self.files)
        horizon = time.monotonic() - self.lag
        for fid, states in list(self.past.items()):
            states[:] = [state for state in states if state[0] > horizon]
            if not states:
                del self.past[fid]
            elif states[0][1] is None:
                shown.pop(fid, None)
            else:
                shown[fid] = states[0][1]
        return shown

    def newid(self):
        self.n += 1
        return f"1F{self.n:06d}abcdefghijklmnopqrst"

    def log_change(self, fid, removed=False):
        self.changes.append((fid, removed))

    def add(self, name, parents, mime, content=None, mtime=None, fid=None):
        fid = fid or self.newid()
        self.remember(fid)
        f = {
            "id": fid,
            "name": name,
            "mimeType": mime,
            "parents": list(parents),
            "trashed": False,
            "modifiedTime": ms(mtime) or now_iso(),
            "createdTime": now_iso(),
            "version": 1,
            "revisions": 1,
        }
        self.files[fid] = f
        for p in f["parents"]:
            self.children[p][fid] = f
        if content is not None:
            self.set_content(f, content)
        self.log_change(fid)
        return f

    def set_content(self, f, content):
        f["_c"] = content
        f["size"] = str(len(content))
        f["md5Checksum"] = hashlib.md5(content).hexdigest()

    def reparent(self, f, add, rem):
        # A file has one parent: who adds one to a file of their own moves it there from wherever it is.
        for p in f["parents"] if add else rem:
            self.children[p].pop(f["id"], None)
        f["parents"] = list(add[-1:]) or [p for p in f["parents"] if p not in rem]
        for p in f["parents"]:
            self.children[p][f["id"]] = f

    def delete(self, fid):
        for c in list(self.children.get(fid, {})):
            self.delete(c)
        self.remember(fid)
        f = self.files.pop(fid)
        for p in f["parents"]:
            self.children[p].pop(fid, None)
        self.changes.append((fid, True))

    def resolve(self, path, create=False):
        cur = self.root
        for part in [p for p in path.split("/") if p]:
            nxt = [f for f in self.children[cur].values() if f["name"] == part and not f["trashed"]]
            if not nxt:
                if not create:
                    return None
                nxt = [self.add(part, [cur], FOLDER)]
            cur = nxt[0]["id"]
        return cur

    def trashed(self, f):
        """In the trash itself, or below a folder that is."""
        above = (self.files.get(p) for p in f["parents"])
        return f["trashed"] or any(folder is None or self.trashed(folder) for folder in above)

    def pub(self, f):
        d = {k: v for k, v in f.items() if not k.startswith("_")}
        d["version"] = str(d.get("version", 1))
        d["trashed"] = self.trashed(f)
        d["webViewLink"] = "https://drive.google.com/x/" + f["id"]
        if f["mimeType"] == GDOC:
            d.pop("size", None)
            d.pop("md5Checksum", None)
            d["exportLinks"] = {
                m: "https://www.googleapis.com/drive/v3/files/{}/export?mimeType={}".format(
                    f["id"], urllib.parse.quote(m)
                )
                for m in (
                    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
                    "text/plain",
                    "text/markdown",
                    "application/pdf",
                )
            }
        return d

    # ---- q= language -------------------------------------------------------
    TOK = re.compile(
        r"\s*(?:(\()|(\))|'((?:\\.|[^'\\])*)'|(and|or|not|in)\b|(!=|>=|<=|=|<|>)|([A-Za-z_][A-Za-z0-9_]*))"
    )

    def search(self, q):
        toks = []
        i = 0
        while i < len(q):
            m = self.TOK.match(q, i)
            if not m:
                if q[i:].strip() == "":
                    break
                raise ValueError(f"bad query at {q[i:]!r}")
            i = m.end()
            if m.group(1):
                toks.append(("(",))
            elif m.group(2):
                toks.append((")",))
            elif m.group(3) is not None:
                toks.append(("s", re.sub(r"\\(.)", r"\1", m.group(3))))
            elif m.group(4):
                toks.append((m.group(4),))
            elif m.group(5):
                toks.append(("op", m.group(5)))
            else:
                toks.append(("id", m.group(6)))
        pos = 0

        def either(a, b):
            return lambda f: a(f) or b(f)

        def both(a, b):
            return lambda f: a(f) and b(f)

        def expr():
            nonlocal pos
            left = term()
            while pos < len(toks) and toks[pos][0] == "or":
                pos += 1
                r = term()
                left = either(left, r)
            return left

        def term():
            nonlocal pos
            left = fac()
            while pos < len(toks) and toks[pos][0] == "and":
                pos += 1
                r = fac()
                left = both(left, r)
            return left

        def fac():
            nonlocal pos
            t = toks[pos]
            if t[0] == "not":
                pos += 1
                x = fac()
                return lambda f: not x(f)
            if t[0] == "(":
                pos += 1
                e = expr()
                assert toks[pos][0] == ")"
                pos += 1
                return e
            if t[0] == "s":  # 'ID' in parents
                assert toks[pos + 1][0] == "in" and toks[pos + 2] == ("id", "parents")
                pos += 3
                return lambda f, v=t[1]: (
                    v in f["parents"] or (v == "root" and self.root in f["parents"])
                )
            k, op, v = t[1], toks[pos + 1][1], toks[pos + 2][1]
            pos += 3
            if k == "trashed":
                return lambda f: self.trashed(f) == (v == "true")
            if k == "name":
                return lambda f: (f["name"].lower() == v.lower()) == (op == "=")
            if k == "mimeType":
                return lambda f: (f["mimeType"] == v) == (op == "=")
            if k == "modifiedTime":
                return lambda f: eval(f"a{op}b", {}, {"a": f["modifiedTime"][:19], "b": v})
            return lambda f: False

        pred = expr() if toks else (lambda f: True)
        par = re.findall(r"'([^']*)' in parents", q)
        if self.past:
            cand = self.listed().values()
        elif par:
            seen = {}
            for p in par:
                seen.update(self.children.get(self.root if p == "root" else p, {}))
            cand = seen.values()
        else:
            cand = self.files.values()
        return [f for f in cand if f["id"] != self.root and pred(f)]


class Server:
    def __init__(self, a):
        self.d = Drive()
        self.a = a
        self.calm()
        self.count = collections.Counter()
        self.bytes = collections.Counter()
        self.trace = collections.deque(maxlen=5000)
        self.inflight = 0
        self.maxinflight = 0
        self.tlast = time.monotonic()
        self.ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ctx.load_cert_chain(a.cert, a.key)
        self.ctx.set_alpn_protocols(["http/1.1"])
        self.rng = random.Random(7)

    def calm(self):
        """No faults, and the latencies of the command line."""
        a = self.a
        self.lat = {
            "list": a.list_ms,
            "get": a.get_ms,
            "media": a.media_ms,
            "upload": a.upload_ms,
            "patch": a.patch_ms,
            "delete": a.patch_ms,
            "changes": a.changes_ms,
            "about": a.get_ms,
        }
        self.jitter = a.jitter
        self.qps = a.qps
        self.tokens = float(a.qps or 0)
        self.faults = []
        self.d.lag = 0.0
        self.shuffle = None
        self.uploads = {}

    # ---- http plumbing -----------------------------------------------------
    async def read_req(self, r):
        line = await r.readline()
        if not line:
            return None
        m, t, _ = line.decode("latin1").split(" ", 2)
        h = {}
        while True:
            line = await r.readline()
            if line in (b"\r\n", b"\n", b""):
                break
            k, v = line.decode("latin1").split(":", 1)
            h[k.strip().lower()] = v.strip()
        body = b""
        if m == "CONNECT":
            return m, t, h, body
        if h.get("transfer-encoding", "").lower() == "chunked":
            parts = []
            while True:
                n = int((await r.readline()).split(b";")[0], 16)
                if n == 0:
                    while (await r.readline()) not in (b"\r\n", b"\n", b""):
                        pass
                    break
                parts.append(await r.readexactly(n))
                await r.readexactly(2)
            body = b"".join(parts)
        elif "content-length" in h:
            body = await r.readexactly(int(h["content-length"]))
        return m, t, h, body

    def send(self, w, code, body=b"", ctype="application/json; charset=UTF-8", extra=()):
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
        h = [
            f"HTTP/1.1 {code} X",
            "Content-Type: " + ctype,
            f"Content-Length: {len(body)}",
            *list(extra),
        ]
        if code == 204:
            h = ["HTTP/1.1 204 No Content"]
            body = b""
        w.write("\r\n".join(h).encode() + b"\r\n\r\n" + body)

    async def client(self, r, w):
        try:
            req = await self.read_req(r)
            if req is None:
                return
            if req[0] != "CONNECT":
                self.send(w, 400, {"error": "proxy only"})
                await w.drain()
                return
            if self.a.verbose:
                print("CONNECT", req[1], file=sys.stderr)
            w.write(b"HTTP/1.1 200 Connection Established\r\n\r\n")
            await w.drain()
            await w.start_tls(self.ctx)
            while True:
                req = await self.read_req(r)
                if req is None:
                    return
                self.inflight += 1
                self.maxinflight = max(self.maxinflight, self.inflight)
                try:
                    ok = await self.handle(w, *req)
                finally:
                    self.inflight -= 1
                await w.drain()
                if ok is False:
                    return
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError, BrokenPipeError):
            pass
        finally:
            with contextlib.suppress(Exception):
                w.close()

    def err(self, w, code, reason, msg=None):
        self.send(
            w,
            code,
            {
                "error": {
                    "code": code,
                    "message": msg or reason,
                    "errors": [
                        {"domain": "usageLimits", "reason": reason, "message": msg or reason}
                    ],
                }
            },
        )

    def classify(self, m, p, q):
        if p.startswith("/upload/"):
            return "upload"
        if p.startswith("/drive/v3/changes"):
            return "changes"
        if p.startswith("/drive/v3/about"):
            return "about"
        if p == "/drive/v3/files" and m == "GET":
            return "list"
        if p.endswith("/export") or q.get("alt") == "media":
            return "media"
        if m == "GET":
            return "get"
        if m == "DELETE":
            return "delete"
        return "patch"

    async def handle(self, w, m, target, h, body):
        u = urllib.parse.urlsplit(target)
        q = dict(urllib.parse.parse_qsl(u.query))
        p = urllib.parse.unquote(u.path)
        kind = self.classify(m, p, q)
        self.count[kind] += 1
        self.count["total"] += 1
        t0 = time.time()
        self.trace.append((round(t0, 3), kind, m, p, q.get("q", "")[:200]))
        if self.a.verbose:
            print("{:.3f} {} {} {} {}".format(t0, kind, m, p, q.get("q", "")), file=sys.stderr)
        for f in list(self.faults):
            if (
                f["kind"] in (kind, "*")
                and (
                    not f.get("match")
                    or f["match"] in target
                    or f["match"] in body[:4000].decode("latin1")
                )
                and self.rng.random() < f.get("rate", 1.0)
            ):
                if f.get("times") is not None:
                    f["times"] -= 1
                    if f["times"] <= 0:
                        self.faults.remove(f)
                self.count["fault_" + f["do"]] += 1
                if f["do"] == "hang":
                    while f in self.faults and f.get("times") is None:
                        await asyncio.sleep(0.05)
                    if f.get("times") is None:
                        break
                    await asyncio.sleep(f.get("secs", 3600))
                elif f["do"] == "drop":
                    return False
                elif f["do"] == "delay":
                    await asyncio.sleep(f["secs"])
                elif f["do"] == "partial":  # headers + half body then drop
                    w.write(b"HTTP/1.1 200 X\r\nContent-Length: 1000000\r\n\r\nhalf")
                    await w.drain()
                    return False
                else:
                    self.err(w, f["code"], f["reason"], f.get("msg"))
                    return None
        if self.qps:
            n = time.monotonic()
            self.tokens = min(self.qps * 10, self.tokens + (n - self.tlast) * self.qps)
            self.tlast = n
            if self.tokens < 1:
                self.count["ratelimited"] += 1
                self.err(w, 403, "userRateLimitExceeded", "User Rate Limit Exceeded")
                return None
            self.tokens -= 1
        ms = self.lat.get(kind, 0)
        if ms:
            await asyncio.sleep(max(0, ms * (1 + self.jitter * (2 * self.rng.random() - 1))) / 1000)
        return self.route(w, m, p, q, h, body, kind)

    def route(self, w, m, p, q, h, body, kind):
        d = self.d
        if kind == "about":
            used = (
                sum(int(f.get("size", 0)) for f in d.files.values()) if len(d.files) < 3000 else 0
            )
            return self.send(
                w,
                200,
                {
                    "storageQuota": {
                        "limit": str(d.quota),
                        "usage": str(used),
                        "usageInDrive": str(used),
                        "usageInDriveTrash": "0",
                    },
                    "user": {"permissionId": "1"},
                    "exportFormats": {
                        GDOC: [
                            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
                            "text/plain",
                            "text/markdown",
                            "application/pdf",
                        ]
                    },
                    "importFormats": {},
                },
            )
        if kind == "changes":
            if p.endswith("startPageToken"):
                return self.send(w, 200, {"startPageToken": str(len(d.changes))})
            s = int(q["pageToken"])
            out = []
            seen = set()
            for fid, _removed in d.changes[s:]:
                if fid in seen:
                    continue
                seen.add(fid)
                f = d.files.get(fid)
                out.append(
                    {"fileId": fid, "removed": f is None, **({"file": d.pub(f)} if f else {})}
                )
            return self.send(w, 200, {"newStartPageToken": str(len(d.changes)), "changes": out})
        if kind == "list":
            fs = d.search(q.get("q", ""))
            ps = int(q.get("pageSize", 100))
            off, _, order = q.get("pageToken", "0").partition("/")
            off = int(off)
            if self.shuffle is not None:
                # The pages of one listing are in one order, every listing in its own.
                order = order or str(self.shuffle.random())
                fs.sort(key=lambda f: f["id"])
                random.Random(order).shuffle(fs)
            r = {"files": [d.pub(f) for f in fs[off : off + ps]], "incompleteSearch": False}
            if off + ps < len(fs):
                r["nextPageToken"] = f"{off + ps}/{order}" if order else str(off + ps)
            return self.send(w, 200, r)
        if "upload_id" in q:
            return self.take_chunk(w, q, h, body)
        mm = re.match(r"^(?:/upload)?/drive/v3/files(?:/([^/]+))?(/.*)?$", p)
        if not mm:
            return self.err(w, 404, "notFound", "no route " + p)
        fid, sub = mm.group(1), mm.group(2)
        if fid == "root":
            fid = d.root
        f = d.files.get(fid) if fid else None
        if fid and f is None:
            return self.err(w, 404, "notFound", f"File not found: {fid}.")
        if kind == "media":
            c = f.get("_c", b"")
            if sub == "/export":
                c = b"# exported google doc\n" + c
            self.bytes["down"] += len(c)
            rg = h.get("range")
            if rg and len(c):
                a, b = re.match(r"bytes=(\d+)-(\d*)", rg).groups()
                a = int(a)
                b = min(int(b) if b else len(c) - 1, len(c) - 1)
                if a >= len(c):
                    return self.send(w, 416, b"", extra=[f"Content-Range: bytes */{len(c)}"])
                return self.send(
                    w,
                    206,
                    c[a : b + 1],
                    f["mimeType"],
                    [f"Content-Range: bytes {a}-{b}/{len(c)}"],
                )
            return self.send(w, 200, c, f["mimeType"])
        if kind == "get":
            return self.send(w, 200, d.pub(f))
        if kind == "delete":
            d.delete(fid)
            return self.send(w, 204)
        meta, content = {}, None
        if kind == "upload":
            ct = h.get("content-type", "")
            if q.get("uploadType") == "resumable":
                return self.begin_upload(w, m, fid, body)
            if "multipart" in ct:
                b = re.search(r'boundary="?([^";]+)', ct).group(1).encode()
                parts = body.split(b"--" + b)[1:-1]
                pp = [x[2:].split(b"\r\n\r\n", 1) for x in parts]
                meta = json.loads(pp[0][1])
                content = pp[1][1][:-2]
            else:
                return self.err(w, 501, "notImplemented", "neither multipart nor resumable")
            self.bytes["up"] += len(content)
        elif body:
            meta = json.loads(body)
        return self.change(w, m, q, f, sub, meta, content)

    # ---- resumable uploads: a session, then chunks that say where they belong --------------
    def begin_upload(self, w, m, fid, body):
        number = str(len(self.uploads) + 1)
        meta = json.loads(body) if body else {}
        self.uploads[number] = {"m": m, "fid": fid, "meta": meta, "data": bytearray()}
        at = "https://www.googleapis.com/upload/drive/v3/files?uploadType=resumable&upload_id="
        return self.send(w, 200, b"", extra=[f"Location: {at}{number}"])

    def take_chunk(self, w, q, h, body):
        session = self.uploads.get(q.get("upload_id"))
        if session is None:
            return self.err(w, 404, "notFound", "no such upload")
        self.bytes["up"] += len(body)
        data = session["data"]
        where = re.match(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)", h.get("content-range", ""))
        first, _, total = where.groups() if where else ("0", None, str(len(body)))
        if first is not None:
            if int(first) > len(data):
                return self.err(w, 400, "badRequest", "a chunk is missing")
            # A chunk whose answer was lost comes again.
            data[int(first) :] = body
        self.count["chunks"] += 1
        if total == "*" or len(data) < int(total):
            extra = [f"Range: bytes=0-{len(data) - 1}"] if data else []
            return self.send(w, 308, b"", extra=extra)
        del self.uploads[q["upload_id"]]
        f = self.d.files.get(session["fid"]) if session["fid"] else None
        if session["fid"] and f is None:
            return self.err(w, 404, "notFound", "File not found")
        return self.change(w, session["m"], q, f, None, session["meta"], bytes(data))

    def change(self, w, m, q, f, sub, meta, content):
        """Make, copy or change a file; its content only if there is one."""
        d = self.d
        if m == "POST" and sub == "/copy":
            n = d.add(
                meta.get("name", f["name"]),
                meta.get("parents", f["parents"]),
                f["mimeType"],
                f.get("_c"),
                meta.get("modifiedTime"),
            )
            return self.send(w, 200, d.pub(n))
        if m == "POST":
            n = d.add(
                meta.get("name", "Untitled"),
                meta.get("parents") or [d.root],
                meta.get("mimeType", "application/octet-stream"),
                content if meta.get("mimeType") != FOLDER else None,
                meta.get("modifiedTime"),
            )
            return self.send(w, 200, d.pub(n))
        if m == "PATCH":
            fid = f["id"]
            d.remember(fid)
            for k in ("name", "mimeType", "modifiedTime", "trashed"):
                if k in meta:
                    f[k] = ms(meta[k]) if k == "modifiedTime" else meta[k]
            if content is not None:
                d.set_content(f, content)
                f["revisions"] = f.get("revisions", 1) + 1
                if "modifiedTime" not in meta:
                    f["modifiedTime"] = now_iso()
            d.reparent(
                f,
                [x for x in q.get("addParents", "").split(",") if x],
                [x for x in q.get("removeParents", "").split(",") if x],
            )
            f["version"] += 1
            d.log_change(fid)
            return self.send(w, 200, d.pub(f))
        return self.err(w, 405, "bad", m)

    # ---- admin -------------------------------------------------------------
    async def admin(self, r, w):
        try:
            while True:
                req = await self.read_req(r)
                if req is None:
                    return
                _m, t, _h, body = req
                u = urllib.parse.urlsplit(t)
                q = dict(urllib.parse.parse_qsl(u.query, keep_blank_values=True))
                try:
                    res = self.adm(u.path, q, body)
                except Exception as e:
                    self.send(w, 500, {"error": repr(e)})
                    await w.drain()
                    continue
                if isinstance(res, bytes):
                    self.send(w, 200, res, "application/octet-stream")
                else:
                    self.send(w, 200, res)
                await w.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            w.close()

    def adm(self, p, q, body):
        d = self.d

        def byp(path):
            fid = d.resolve(path)
            return d.files[fid] if fid else None

        if p == "/put":  # another device writes a file
            par, _, leaf = q["path"].rpartition("/")
            pid = d.resolve(par, True)
            f = byp(q["path"]) if not q.get("dup") else None
            if f:
                d.remember(f["id"])
                d.set_content(f, body)
                f["modifiedTime"] = q.get("mtime") or now_iso()
                f["version"] += 1
                f["revisions"] += 1
                d.log_change(f["id"])
            else:
                f = d.add(leaf, [pid], "text/markdown", body, q.get("mtime"))
            return d.pub(f)
        if p == "/gdoc":
            par, _, leaf = q["path"].rpartition("/")
            return d.pub(d.add(leaf, [d.resolve(par, True)], GDOC, body))
        if p == "/get":
            f = byp(q["path"])
            return f.get("_c", b"") if f else {"missing": True}
        if p == "/stat":
            f = byp(q["path"])
            return d.pub(f) if f else {"missing": True}
        if p == "/mkdir":
            return {"id": d.resolve(q["path"], True)}
        if p == "/mv":
            f = byp(q["path"])
            par, _, leaf = q["to"].rpartition("/")
            d.remember(f["id"])
            old = list(f["parents"])
            new = d.resolve(par, True)
            d.reparent(f, [x for x in [new] if x not in old], [x for x in old if x != new])
            f["name"] = leaf
            d.log_change(f["id"])
            return d.pub(f)
        if p == "/rm":
            d.delete(byp(q["path"])["id"])
            return {}
        if p == "/trash":
            f = byp(q["path"])
            d.remember(f["id"])
            f["trashed"] = True
            d.log_change(f["id"])
            return d.pub(f)
        if p == "/ls":
            fid = d.resolve(q.get("path", ""))
            return [d.pub(f) for f in d.children[fid].values()] if fid else []
        if p == "/tree":
            out = []

            def rec(fid, pre):
                for f in sorted(d.children[fid].values(), key=lambda f: f["name"]):
                    out.append(
                        (
                            pre + f["name"],
                            f["mimeType"] == FOLDER,
                            f.get("size"),
                            f["modifiedTime"],
                            d.trashed(f),
                            f["id"],
                            f.get("revisions"),
                        )
                    )
                    if f["mimeType"] == FOLDER:
                        rec(f["id"], pre + f["name"] + "/")

            rec(d.resolve(q.get("path", "")), "")
            return out
        if p == "/dump":  # every file that is not in the trash, with its content
            start = d.resolve(q.get("path", ""))
            return list(self.dump(start, "")) if start else []
        if p == "/load":  # bulk load a local directory as the vault
            base = q["dir"]
            pre = q.get("path", "")
            n = 0
            ids = {}
            for dp, _dn, fn in os.walk(base):
                rel = os.path.relpath(dp, base)
                rel = "" if rel == "." else rel
                ids[rel] = d.resolve((pre + "/" + rel).strip("/"), True)
                for x in fn:
                    fp = os.path.join(dp, x)
                    st = os.stat(fp)
                    d.add(
                        x,
                        [ids[rel]],
                        "text/markdown",
                        pathlib.Path(fp).read_bytes(),
                        now_iso(st.st_mtime),
                    )
                    n += 1
            d.changes.clear()
            return {"loaded": n}
        if p == "/reset":
            self.d = Drive()
            self.count.clear()
            self.calm()
            return {}
        if p == "/calm":
            self.calm()
            return {}
        if p == "/latency":
            for k, v in q.items():
                if k == "all":
                    self.lat = {x: float(v) for x in self.lat}
                elif k == "jitter":
                    self.jitter = float(v)
                elif k == "qps":
                    self.qps = float(v)
                    self.tokens = self.qps
                else:
                    self.lat[k] = float(v)
            return dict(self.lat, jitter=self.jitter, qps=self.qps)
        if p == "/consistency":  # listings show changes only after so many seconds
            d.lag = float(q["secs"])
            if not d.lag:
                d.past.clear()
            return {"secs": d.lag}
        if p == "/shuffle":  # listings come in an order of their own, by a seed; none: as they are
            self.shuffle = random.Random(q["seed"]) if q.get("seed") else None
            return {}
        if p == "/fault":
            if q.get("clear"):
                self.faults = []
                return []
            f = dict(q)
            for k in ("code", "times"):
                if k in f:
                    f[k] = int(f[k])
            for k in ("secs", "rate"):
                if k in f:
                    f[k] = float(f[k])
            self.faults.append(f)
            return self.faults
        if p == "/stats":
            r = dict(
                self.count,
                inflight=self.inflight,
                maxinflight=self.maxinflight,
                files=len(d.files),
                **{"bytes_" + k: v for k, v in self.bytes.items()},
            )
            if q.get("zero"):
                self.count.clear()
                self.maxinflight = 0
                self.bytes.clear()
            return r
        if p == "/trace":
            r = list(self.trace)[-int(q.get("n", 50)) :]
            if q.get("zero"):
                self.trace.clear()
            return r
        raise KeyError(p)

    def dump(self, folder, above):
        for f in list(self.d.children[folder].values()):
            if f["trashed"]:
                continue
            if f["mimeType"] == FOLDER:
                yield from self.dump(f["id"], above + f["name"] + "/")
            else:
                yield above + f["name"], base64.b64encode(f.get("_c", b"")).decode()


async def main():
    ap = argparse.ArgumentParser()
    here = os.path.dirname(os.path.abspath(__file__))
    ap.add_argument("--port", type=int, default=18443)
    ap.add_argument("--admin", type=int, default=18444)
    ap.add_argument("--cert", default=here + "/server.pem")
    ap.add_argument("--key", default=here + "/server.key")
    for k, v in {
        "list": 150,
        "get": 80,
        "media": 120,
        "upload": 250,
        "patch": 150,
        "changes": 100,
    }.items():
        ap.add_argument(f"--{k}-ms", type=float, default=v)
    ap.add_argument("--jitter", type=float, default=0.3)
    ap.add_argument("--qps", type=float, default=0)
    ap.add_argument("--load")
    ap.add_argument("-v", "--verbose", action="store_true")
    a = ap.parse_args()
    s = Server(a)
    if a.load:
        print(s.adm("/load", {"dir": a.load, "path": "vault"}, b""), flush=True)
    a1 = await asyncio.start_server(s.client, "127.0.0.1", a.port, limit=1 << 20, backlog=512)
    a2 = await asyncio.start_server(s.admin, "127.0.0.1", a.admin, limit=1 << 24)
    print(f"fakedrive proxy :{a.port} admin :{a.admin}", flush=True)
    await asyncio.gather(a1.serve_forever(), a2.serve_forever())


if __name__ == "__main__":
    asyncio.run(main())
