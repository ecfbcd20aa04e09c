"""What `make dist` builds: the wheel, the wheelhouse, the bundle for desktop clients, their checksums."""
