"""One body, every door."""
