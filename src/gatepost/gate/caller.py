"""The caller of a tool: its group is known by which socket it came through, never by what it says."""

from gatepost.tools.call import Caller

__all__ = ["Caller"]
