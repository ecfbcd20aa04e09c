"""The query language: pure text in, a tree of conditions out. No I/O."""
