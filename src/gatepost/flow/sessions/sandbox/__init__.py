"""Plans of sandboxes: what a session's agent is, sees and may take."""
