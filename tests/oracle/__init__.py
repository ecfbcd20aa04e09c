"""Search against an oracle: an obvious, slow implementation over the raw files."""
