"""The doors: protocol in, operation call, protocol out. Nothing below knows of them."""
