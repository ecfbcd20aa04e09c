"""The catalog: every operation, declared once, served by every door."""
