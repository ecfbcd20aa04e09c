"""obsidian-vault-mcp: an Obsidian vault for AI agents, over MCP."""

__version__ = "0.1.0"
