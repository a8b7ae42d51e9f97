"""The Agent Client Protocol: its messages, and the agent that several providers derive from."""
