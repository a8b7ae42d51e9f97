"""Files of a group as people see them: AGENTS.md and the skills."""

from msgspec import Struct


class GroupFile(Struct, frozen=True):
    path: str
    size: int
    changed_at: int


class GroupFileText(Struct, frozen=True):
    """`version` names this text."""

    folder: str
    path: str
    text: str
    version: str


class WrittenGroupFile(Struct, frozen=True):
    folder: str
    path: str
    version: str
    size: int
