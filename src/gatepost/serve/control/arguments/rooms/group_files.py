"""Files of a group that people write: its AGENTS.md and its skills."""

from typing import Annotated

from msgspec import Meta

from gatepost.core.record_fields import argument, option
from gatepost.flow.reports import GroupFile, GroupFileText, WrittenGroupFile
from gatepost.serve.control.arguments.rooms.groups import READ, WRITE, Folder
from gatepost.serve.control.declaration import OperationArgs, declares

FilePath = Annotated[
    str,
    argument("AGENTS.md, or a file below skills/.", examples=("AGENTS.md", "skills/release/SKILL.md")),
    Meta(max_length=500),
]


@declares("group.files", right=READ, needs_home=True)
class ListGroupFilesArgs(OperationArgs[list[GroupFile]], frozen=True):
    """List what people may read and change here of a group's folder: AGENTS.md and skills/."""

    folder: Folder


@declares("group.read_file", right=READ, needs_home=True)
class ReadGroupFileArgs(OperationArgs[GroupFileText], frozen=True):
    """Read AGENTS.md or a file of a skill. `version` names what was read, for who changes it."""

    folder: Folder
    path: FilePath


@declares("group.write_file", right=WRITE)
class WriteGroupFileArgs(OperationArgs[WrittenGroupFile], frozen=True):
    """Write AGENTS.md or a file of a skill, whole. Agents that are awake take it up after their turn.

    It is refused if the file is not the version that was read: the agent or somebody else has changed it meanwhile.
    """

    folder: Folder
    path: FilePath
    content: Annotated[
        str, option("The new text, whole.", metavar="FILE", cli="A file with the new text, whole.", secret=True)
    ]
    version: Annotated[str, option("The version that was read; '' for a new file.")] = ""
