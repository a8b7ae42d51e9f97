"""Limits of the machine that sandboxes share: disk, memory, uids and processes."""
