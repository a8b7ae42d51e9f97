"""Files of a group as people see them: AGENTS.md and the skills."""

from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import ShownAs, shown


class GroupFile(Struct, frozen=True):
    path: Annotated[str, shown("File", ShownAs.CODE)]
    size: Annotated[int, shown("Bytes", ShownAs.NUMBER, head="bytes")]
    changed_at: Annotated[int, shown("Changed", ShownAs.MOMENT, head="changed")]


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
