"""Backups of STATE_DIR: what can't be built anew from the vault, in one file that was read again."""
