"""Groups: the agents and their folders, the files in these that people write, and the names by which they give work to
each other."""

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from gatepost.core.record_changes import get_given, make_change
from gatepost.core.record_fields import ShownAs, argument, option, shown
from gatepost.flow.reports import GroupFile, GroupFileText, PromptCost, WrittenGroupFile
from gatepost.serve.control.declaration import OperationArgs, declares, list_fields
from gatepost.store.messages.destinations import Destination
from gatepost.store.rooms.routes import Route
from gatepost.store.sessions.groups import Group, GroupSettings
from gatepost.store.sessions.sessions import Session

READ, WRITE = "groups.read", "groups.write"
LARGEST_GIVEN = 3_000_000  # bytes of a file that somebody gives an agent: a request holds no more
READ_FILES, WRITE_FILES = "files.read", "files.write"  # besides, for the files that are no instructions
Folder = Annotated[str, argument("The group's place.", scope=True, examples=("acme/eng",))]


if TYPE_CHECKING:
    GroupChange = GroupSettings
else:
    GroupChange = make_change(GroupSettings)

GroupFilePath = Annotated[
    str,
    argument("Its place in the agent's folder.", examples=("AGENTS.md", "skills/release/SKILL.md")),
    Meta(max_length=500),
]


class GroupView(Group, frozen=True, kw_only=True):
    tier: Annotated[int, shown("Tier", ShownAs.NUMBER)]


class GroupRest(Struct, frozen=True, kw_only=True):
    """A rest that holds for a group. `folder`: its own, or that of the group above it which was put to rest."""

    folder: str
    reason: str
    by: str
    since_at: int


class GroupDetails(GroupView, frozen=True, kw_only=True):
    """A group with what leads to it, where it may send, and what it has going on. `gateway`: that has its folder, of
    several with folders of their own. `moves_to`: the one that it is on its way to. `rest`:
    null while it works."""

    routes: list[Route]
    destinations: list[Destination]
    sessions: list[Session]
    gateway: str
    moves_to: str
    rest: GroupRest | None = None


class SetGroupResult(GroupView, frozen=True, kw_only=True):
    notes: list[str]


class GroupRemoval(Struct, frozen=True, kw_only=True):
    folder: str
    closed: int
    kept: str  # the group's own files
    removed: dict[str, int]
    left: list[str]  # what could not be removed


@declares("group.add", right=WRITE)
class AddGroupArgs(OperationArgs[GroupView], frozen=True):
    """Add a group, with AGENTS.md, work.md and skills/ in its folder. FOLDER is its place, like acme/eng."""

    folder: Folder
    name: Annotated[str, option("How people call it (default: the last part of FOLDER).")] = ""
    provider: Annotated[
        str,
        option("The agent that drives it (default: that of the nearest group above with one, else sessions.provider)."),
    ] = ""


@declares("group.list", right=READ, reads=True)
class ListGroupsArgs(OperationArgs[list[GroupView]], frozen=True):
    """All groups, by folder."""


@declares("group.show", right=READ, reads=True)
class ShowGroupArgs(OperationArgs[GroupDetails], frozen=True):
    """One group: what holds for it, its files, routes and live sessions."""

    folder: Folder


@declares("group.set", right=WRITE)
class SetGroupArgs(OperationArgs[SetGroupResult], frozen=True):
    """Change the settings of a group. Sandboxes that are awake take it up when they start anew."""

    folder: Folder
    values: Annotated[GroupChange, argument("The settings that change.", metavar="KEY=VALUE…")]

    def get_scope(self) -> str:
        """The right is needed at the root for `sandbox`, `mounts` and `options`: they open the machine."""
        given = get_given(self.values)
        return "" if any(each.spec.at_root for each in list_fields(GroupChange) if each.name in given) else self.folder


class GroupRestAnswer(Struct, frozen=True, kw_only=True):
    """`changed`: it was otherwise before. `rest`: what holds now, perhaps because of a group above it."""

    folder: str
    changed: bool
    rest: GroupRest | None


@declares("group.rest", right=WRITE)
class RestGroupArgs(OperationArgs[GroupRestAnswer], frozen=True):
    """Put an agent to rest, and those below it: it ends what it is at, and begins nothing more, its tasks included.

    Messages are accepted and kept, and each room is told so once. It holds over restarts until somebody wakes it.
    """

    folder: Folder
    reason: Annotated[str, option("For whoever looks at it later; rooms are not told.")] = ""


@declares("group.wake", right=WRITE)
class WakeGroupArgs(OperationArgs[GroupRestAnswer], frozen=True):
    """Let an agent that was put to rest go on: what was kept waiting is worked on, in its order.

    Tasks that were due meanwhile do what each of them does about missed runs.
    """

    folder: Folder


@declares("group.rm", right=WRITE)
class RemoveGroupArgs(OperationArgs[GroupRemoval], frozen=True):
    """Remove a group with its routes, tasks, sessions, secrets, their folders and media. Its own folder stays, and
    its messages in the ledger."""

    folder: Folder


@declares("group.files", right=READ, needs_home=True)
class ListGroupFilesArgs(OperationArgs[list[GroupFile]], frozen=True):
    """List the files of a group's folder: AGENTS.md, those of its skills, and what else its agent works with.

    The others are shown to people who have the right `files.read` there, too. Names with a dot in front are left out.
    """

    folder: Folder


@declares("group.read_file", right=READ, needs_home=True)
class ReadGroupFileArgs(OperationArgs[GroupFileText], frozen=True):
    """Read a text in a group's folder. `version` names what was read, for who changes it."""

    folder: Folder
    path: GroupFilePath


@declares("group.find_file", right=READ_FILES, needs_home=True)
class FindGroupFileArgs(OperationArgs[GroupFile], frozen=True):
    """Find a file in a group's folder: how large it is, and when it was changed. Its page has it to download."""

    folder: Folder
    path: GroupFilePath


@declares("group.write_file", right=WRITE)
class WriteGroupFileArgs(OperationArgs[WrittenGroupFile], frozen=True):
    """Write a text in a group's folder, whole. Agents that are awake take AGENTS.md and skills up after their turn.

    It is refused if the file is not the version that was read: the agent or somebody else has changed it meanwhile.
    """

    folder: Folder
    path: GroupFilePath
    content: Annotated[
        str, option("The new text, whole.", metavar="FILE", cli="A file with the new text, whole.", secret=True)
    ]
    version: Annotated[str, option("The version that was read; '' for a new file.")] = ""


@declares("group.give_file", right=WRITE_FILES)
class GiveFileArgs(OperationArgs[WrittenGroupFile], frozen=True):
    """Give an agent a file. It finds it in its folder, by its name.

    A file of that name that is there already stays as it is: give this one another name.
    """

    folder: Folder
    data: Annotated[
        bytes,
        option("The file, at most 3 MB. Larger ones can be sent in the chat.", metavar="FILE", secret=True),
        Meta(max_length=LARGEST_GIVEN),
    ]
    path: Annotated[
        str, option("How the agent finds it.", examples=("report.pdf", "notes/2026.txt")), Meta(max_length=500)
    ] = ""


class GroupLink(Struct, frozen=True):
    folder: str
    name: str
    group: str


class _LinkArgs(OperationArgs[GroupLink], frozen=True):
    folder: Folder
    name: Annotated[str, argument("The name of the other group for its agent.", examples=("helpdesk",))]


@declares("group.link", right=WRITE)
class LinkGroupArgs(_LinkArgs, frozen=True):
    """Let the agent of FOLDER give work to the agent of GROUP, which it calls NAME. It reaches no others but itself,
    its parent and the groups below it. The work is done with the rights of GROUP. In another world the right is needed
    at the root."""

    group: Annotated[str, argument("The group that does the work.", examples=("acme/ops",))]

    def get_scope(self) -> str:
        """The world of both; one group alone does not open another's."""
        worlds = {self.folder.partition("/")[0], self.group.partition("/")[0]}
        return worlds.pop() if len(worlds) == 1 else ""


@declares("group.unlink", right=WRITE)
class UnlinkGroupArgs(_LinkArgs, frozen=True):
    """Take back what `group link` gave."""


@declares("prompt.show", right=READ, needs_home=True)
class ShowPromptArgs(OperationArgs[PromptCost], frozen=True):
    """Show what a turn of an agent costs before a word is said, by part: its files, skills and rules, and each tool.

    Tokens are estimated from bytes. Additions of the agent's own program are not counted.
    """

    folder: Annotated[
        str, argument("The agent: its group's place.", metavar="AGENT", scope=True, examples=("acme/eng",))
    ]
