"""The vault: the only room that touches the folder the notes live in.

Plain synchronous code. Callers run it in `Workers`, because any call here may hang with the mount.
"""
