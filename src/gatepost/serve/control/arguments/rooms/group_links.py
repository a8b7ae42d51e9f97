"""Names by which the agent of a group gives work to that of another one."""

from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import argument
from gatepost.serve.control.arguments.rooms.groups import WRITE, Folder
from gatepost.serve.control.declaration import OperationArgs, declares


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
