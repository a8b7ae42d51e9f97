"""The host's end of a runner: its frames, and what becomes of its results."""
