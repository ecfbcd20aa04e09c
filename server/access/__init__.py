"""Who may do what: callers, path rules, limits. The one decision is `decision.Access`."""
