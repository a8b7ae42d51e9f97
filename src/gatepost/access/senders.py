"""Rights to speak: a sender's in a group, and whether a room's policy lets them in. Unsure means no."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from gatepost.access import acl
from gatepost.store.people.users import SenderRoles, UserRole
from gatepost.store.rights.acl import AclRow
from gatepost.store.rooms.rooms import RoomPolicy

Rights = Literal["owner", "admin", "member", "guest"]
COMMANDING: frozenset[Rights] = frozenset({"owner", "admin"})
PROGRAMS = ("bot", "webhook")  # what stands before the id of a sender that is one


class SenderVerdict(Struct, frozen=True):
    allowed: bool
    reason: str = ""


ALLOWED = SenderVerdict(True)
ASKS_FIRST = "unknown_sender_request_approval"
UNTRUSTED = SenderVerdict(False, "untrusted_sender")
SHUT_OUT = SenderVerdict(False, "denied_by_the_access_list")


def rights_of(sender_roles: SenderRoles, folder: str) -> Rights:
    """Return what a sender is in a group. A role on a folder holds for all below it; a membership for that group
    alone."""
    held = {role for role, where in sender_roles.roles if _covers(where, folder)}
    if UserRole.OWNER in held:
        return "owner"
    if UserRole.ADMIN in held:
        return "admin"
    return "member" if folder in sender_roles.member_of else "guest"


def rights_by_acl(rights: Rights, rows: Iterable[AclRow], who: frozenset[str], folder: str) -> Rights | None:
    """Return rights as rows of the access list change them: `admin` and `interact` raise them, a denial of `interact`
    shuts the sender out (None). An owner stays one."""
    if rights == "owner":
        return rights
    rows = tuple(rows)
    if acl.authorize(rows, who, "interact", folder) is False:
        return None
    if acl.authorize([row for row in rows if row.action in ("*", "admin")], who, "admin", folder):
        return "admin"
    return "member" if rights == "guest" and acl.authorize(rows, who, "interact", folder) else rights


def _covers(where: str, folder: str) -> bool:
    return where == "" or folder == where or folder.startswith(where + "/")


def check_sender(policy: RoomPolicy, rights: Rights, folder: str = "") -> SenderVerdict:
    """Return whether a room's policy lets this sender reach that group. `root` is for owners, whatever a room says."""
    if folder == "root" and rights != "owner":
        return SenderVerdict(False, "root_is_for_owners")
    if rights != "guest" or policy == RoomPolicy.PUBLIC:
        return ALLOWED
    if policy == RoomPolicy.REQUEST_APPROVAL:
        return SenderVerdict(False, ASKS_FIRST)
    return SenderVerdict(False, "unknown_sender_strict")


def may_decide_about(rights: Rights | None, folder: str) -> bool:
    """Return True if somebody decides what a group asks. Requests of root are for owners alone."""
    return rights == "owner" if folder == "root" else rights in COMMANDING


def is_program(sender: str) -> bool:
    """Return True if a channel says that a bot or a webhook wrote it: `discord:bot/7`, `slack:T1/bot/B2`. Such a sender
    has rights like anybody, but who talks to it must not go on by itself."""
    return sender.rpartition("/")[0].replace(":", "/").rpartition("/")[2] in PROGRAMS
