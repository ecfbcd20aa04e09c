"""What administrators can do over HTTP, as plain handlers: who is one is decided before they are called."""
