"""Granting: rules, rows and memberships are judged in the transaction that writes them, by the facts of that moment. A
row that its giver cannot give and a membership that closes a circle never get in.
"""

from collections.abc import Sequence

from gatepost.access import acl as judged
from gatepost.access import choices, grants
from gatepost.access.choices import Permission
from gatepost.access.subjects import Subject
from gatepost.core.errors import Invalid, NotFound, Refused
from gatepost.messages import address as addresses
from gatepost.store.port import Db, LockKind
from gatepost.store.rights import acl
from gatepost.store.rights.acl import AclEffect, AclRow, GrantRow
from gatepost.store.sessions import groups

MOST_REWRITTEN = 200  # rules of a group: everybody's writes wait while they are given their order


def add_rule(db: Db, folder: str, text: str, by: str, now: int) -> tuple[int, bool]:
    """Return the number of the rule, and False if it held already. One that others behind it outweigh is put behind
    them."""
    if why := grants.find_syntax_error(text):
        raise Invalid("rule", why)
    if groups.get(db, folder) is None:
        raise NotFound("group", folder, "`gatepost group list` shows them")
    db.lock(LockKind.RULES)
    new, rows = grants.parse(text), acl.list_rules(db, folder)
    rules = [grants.parse(row.text) for row in rows]
    same = [row for row, rule in zip(rows, rules, strict=True) if grants.is_same(rule, new)]
    if grants.holds_already(rules, new):
        return same[-1].id, False
    for written in {row.text for row in same}:
        acl.remove_rule(db, folder, written)
    return acl.add_rule(db, folder, text, by, now), True


def set_permission(
    db: Db, folder: str, subject: Subject, permission: Permission, by: str, now: int, room: str = ""
) -> list[str]:
    """Say whether a group's agent may do this: yes, after asking, or no. `room`: only there. Return the group's rules
    about it."""
    if groups.get(db, folder) is None:
        raise NotFound("group", folder, "`gatepost group list` shows them")
    db.lock(LockKind.RULES)
    rows = acl.list_rules(db, folder)
    if len(rows) > MOST_REWRITTEN:
        raise Invalid("permission", f"{folder} has more than {MOST_REWRITTEN} rules; add or remove single ones")
    rules = [grants.parse(row.text) for row in rows]
    general = choices.find_general(rules)
    if permission is Permission.YES and general is not None and not room:
        raise Invalid("permission", f"the rule `{general.text}` is about everything; remove it first")
    if room:
        check_ruled_room(subject, room)
        texts = choices.put_room_answer(rules, subject, permission, room)
    else:
        texts = choices.put_answer(rules, subject, permission)
    left: dict[str, list[GrantRow]] = {}
    for row in rows:  # the same rule may stand there twice
        left.setdefault(row.text, []).append(row)
    acl.replace_rules(
        db, folder, [left[text].pop(0) if left.get(text) else GrantRow(0, folder, text, by, now) for text in texts]
    )
    return [text for text in texts if grants.parse(text).subject is subject]


def check_ruled_room(subject: Subject, room: str) -> None:
    """A rule is about one room by its address, and no character of that may say more."""
    if subject not in choices.IN_ROOMS:
        raise Invalid("room", "only what it writes or sends has a room; leave this empty")
    addresses.parse(room, "room")
    if any(each in room for each in "*,()!= ") or room.split() != [room]:
        raise Invalid("room", f"{room[:80]!r} cannot stand in a rule; write the exact rule")


def add_row(db: Db, new: AclRow, now: int) -> AclRow:
    """The row as it stands now. Said twice, it is there once."""
    (added,) = add_rows(db, [new], now)
    return added


def add_rows(db: Db, added: Sequence[AclRow], now: int) -> list[AclRow]:
    """Add several rows of one giver, who is judged once by the rows that there were."""
    members = acl.list_members(db)
    valid = judged.list_valid_rows(acl.list_rows(db), members)
    for new in added:
        _check_row(new)
        if why := judged.find_refusal_reason(valid, members, new.granted_by, new):
            raise Refused(new.granted_by, "grant", str(new), why)
    return [acl.put(db, new, now) for new in added]


def _check_row(new: AclRow) -> None:
    space, _, rest = new.principal.partition(":")
    if new.principal.split() != [new.principal] or not ((space and rest) or new.principal == acl.ANYWHERE):
        raise Invalid("principal", f"{new.principal!r}; write folder:acme/eng, role:ops, telegram:user/9 or a pattern")
    kind, _, name = new.action.partition(":")
    named = kind in ("mcp", "op") and name and (name == "*" or "*" not in name)
    if not named and new.action not in ("*", "admin", "interact"):
        raise Invalid("action", f"{new.action!r}; there are: mcp:<tool>, mcp:*, op:<right>, op:*, interact, admin, *")
    if (wrong := judged.find_syntax_error(new)) is not None:
        raise Invalid(*wrong)


def replace_opposite(db: Db, new: AclRow, now: int) -> AclRow:
    """Add a row, and remove those that say the opposite of the same principal anywhere that the new one covers."""
    row = add_row(db, new, now)
    for each in acl.list_rows(db):
        same = (each.principal, each.action) == (new.principal, new.action) and not (each.params or each.predicate)
        if same and each.effect is not new.effect and judged.covers_scope(new.scope, each.scope):
            acl.remove(db, each.id)
    return row


def remove_block(db: Db, principal: str, scope: str) -> AclRow | None:
    """Take back what shuts somebody out there; None if nothing does."""
    for each in acl.list_rows(db):
        same = (each.principal, each.action, each.scope) == (principal, "interact", scope)
        if same and each.effect is AclEffect.DENY and not (each.params or each.predicate):
            return acl.remove(db, each.id)
    return None


def add_member(db: Db, child: str, parent: str, by: str, now: int) -> bool:
    """False if it was one already."""
    if not parent.startswith("role:") or parent == "role:" or not child or "*" in child + parent:
        raise Invalid("role", f"{parent!r}: principals become members of a role, such as role:ops")
    if judged.makes_cycle(child, parent, acl.list_members(db)):
        raise Invalid("role", f"{child} would become a member of itself")
    return acl.add_member(db, child, parent, by, now)
