"""The scanner: keeps the index in step with the disk by looking, because inotify can't."""
