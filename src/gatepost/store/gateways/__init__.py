"""Gateways that share a store, and the groups that move between them."""
