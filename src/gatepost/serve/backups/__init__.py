"""Backups: what is in one, the folder that keeps them, how one is put back, and the proof that it can be."""
