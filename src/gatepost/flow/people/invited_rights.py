"""Rights that an invitation gives: rows of the access list in the name of the inviter.

They never exceed those of the inviter. That is judged when the invitation is made and again when it is accepted, and
the rows end when the inviter loses what they gave. A role would not: nobody looks at who gave it.
"""

from collections.abc import Iterator

from gatepost.access import acl as judged
from gatepost.access.operation_rights import OperationRights
from gatepost.flow import grant_changes
from gatepost.flow.intake.routing import MADE_BY
from gatepost.store.port import Db
from gatepost.store.rights import acl
from gatepost.store.rights.acl import AclRow
from gatepost.store.rights.tokens import InvitedRights

OPERATOR = "operator"  # of this machine
INVITE = "op:tokens.write"
COSTS = ("overview.read", "budgets.read")
MANAGING = (
    *COSTS,
    "groups.read",
    "groups.write",
    "files.read",
    "files.write",
    "sessions.read",
    "sessions.write",
    "tasks.read",
    "tasks.write",
    "memory.read",
    "memory.write",
    "rules.read",
    "rules.write",
)
ADMIN = "admin"
ACTIONS = {
    InvitedRights.TALK: (),
    InvitedRights.COSTS: tuple(f"op:{each}" for each in COSTS),
    InvitedRights.MANAGE: (ADMIN, *(f"op:{each}" for each in MANAGING)),
}
NOT_YOURS = "nobody gives more than they may do and pass on themselves"


def is_person(inviter: str) -> bool:
    """Return False for the operator and for agents, whose invitations let people talk alone."""
    return ":" in inviter and not inviter.startswith(MADE_BY)


def find_excess(db: Db, inviter: str, folder: str, rights: InvitedRights) -> str:
    """Return why the inviter cannot give these rights now, '' if they can."""
    if inviter == OPERATOR:
        return ""
    if not is_person(inviter):
        return "" if rights is InvitedRights.TALK else NOT_YOURS
    rows, members = acl.list_rows(db), acl.list_members(db)
    own = OperationRights(inviter, rows, members)
    if not own.allows(INVITE, folder):
        return "they may not invite anybody there"
    if own.is_operator:
        return ""
    valid = judged.list_valid_rows(rows, members)
    wanted = _list_rows("somebody:new", inviter, folder, rights)
    return next((NOT_YOURS for each in wanted if judged.find_refusal_reason(valid, members, inviter, each)), "")


def give(db: Db, person: str, inviter: str, folder: str, rights: InvitedRights, now: int) -> None:
    """Raises Refused for what the inviter cannot give."""
    grant_changes.add_rows(db, [*_list_rows(person, inviter, folder, rights)], now)


def _list_rows(person: str, inviter: str, folder: str, rights: InvitedRights) -> Iterator[AclRow]:
    by = acl.OPERATOR if inviter == OPERATOR else inviter
    for each in ACTIONS[rights]:
        yield AclRow(id=0, principal=person, action=each, scope=f"{folder}/**", granted_by=by)
