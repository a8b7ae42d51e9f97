"""Memories of agents: entries with their source, who may be told of each, and how they are found."""
