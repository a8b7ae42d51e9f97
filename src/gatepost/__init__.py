"""Gatepost: a self-hosted gateway between chat platforms and sandboxed AI agents.

This file stays empty of imports: it is loaded by every command, every bridge and inside every sandbox.
"""

__version__ = "0.2.0"
