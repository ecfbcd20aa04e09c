"""What `vault-mcp doctor` looks at: every part of a set-up, without changing any of it."""
