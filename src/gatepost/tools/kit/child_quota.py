"""How many children an agent may give its group, by whichever tool."""

from gatepost.core.errors import Refused
from gatepost.core.settings import setting
from gatepost.store.people import newcomers
from gatepost.store.port import Db, LockKind
from gatepost.store.rights import tokens
from gatepost.store.sessions import groups
from gatepost.tools.call import ToolCall

MAX_CHILDREN = setting(
    "tools.max_children",
    10,
    help="How many direct children an agent may give its group: 0 none, -1 any number;"
    " `gatepost group set FOLDER options.max_children=N` for one group.",
)


def check_quota(db: Db, call: ToolCall, parent: str, more: int = 1) -> None:
    """Refuse so many further children. Those that invitations may still make count, too."""
    db.lock(LockKind.QUOTA, "newcomers", parent)
    group = groups.get(db, parent)
    said = group.options.get("max_children") if group else None
    most = int(said) if isinstance(said, int) or (isinstance(said, str) and said.lstrip("-").isdecimal()) else None
    most = call.deps.config[MAX_CHILDREN] if most is None else most
    there = sum(1 for each in groups.list_all(db) if each.folder.rpartition("/")[0] == parent)
    there += tokens.count_group_uses(db, parent, call.now) + newcomers.count_admitted_below(db, parent)
    if 0 <= most < there + more:
        raise Refused(call.caller.folder, call.tool, parent, f"it has {there} children, and {most} are allowed")
