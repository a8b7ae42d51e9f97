"""Upgrades: a new version beside the old one, tried on a copy, switched to in one step."""
