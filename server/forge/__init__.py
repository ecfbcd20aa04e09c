"""Where published texts go: repositories of code, reached by their own programs."""
