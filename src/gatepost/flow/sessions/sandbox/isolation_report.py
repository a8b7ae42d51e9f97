"""The isolation of a sandbox, as commands and the API tell it."""

from msgspec import Struct


class SandboxIsolation(Struct, frozen=True):
    kind: str  # '' if no sandbox works
    isolated: bool
    trouble: str = ""  # why none works, with the way out
