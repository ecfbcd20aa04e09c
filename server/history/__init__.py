"""The history: what a note said before this server changed it.

It never looks at the vault and knows nothing of markdown: callers bring bytes and etags.
"""
