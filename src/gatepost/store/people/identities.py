"""Identities: how platforms call one person. The person is a row of `users`, by the id of their first identity. An
identity without a row here is its own person.

Roles, memberships and budgets are rows of the person: pairing moves them there, and they stay when the identity is
unpaired. Rows of the access list, secrets and direct rooms name an identity, and count for all of the person's.
"""

from msgspec import Struct

from gatepost.messages.inbound import is_untrusted
from gatepost.store.engine.table import Table
from gatepost.store.money import budgets
from gatepost.store.people import users
from gatepost.store.port import Db, LockKind, inline_read


class PairedIdentity(Struct, frozen=True):
    identity: str
    person: str
    paired_at: int
    paired_by: str


IDENTITIES = Table("identities", PairedIdentity)


@inline_read
def get(db: Db, identity: str) -> PairedIdentity | None:
    return IDENTITIES.get(db, "WHERE identity = ?", identity)


@inline_read
def get_person(db: Db, identity: str) -> str:
    """Return whose identity it is."""
    row = db.row("SELECT person FROM identities WHERE identity = ?", (identity,))
    return str(row[0]) if row else identity


@inline_read
def list_names(db: Db, identity: str) -> tuple[str, ...]:
    """List all identities of the person who has this one, their first one first."""
    rows = db.rows(
        "SELECT person, identity FROM identities"
        " WHERE person = COALESCE((SELECT person FROM identities WHERE identity = ?), ?) ORDER BY paired_at, identity",
        (identity, identity),
    )
    return (str(rows[0][0]), *(str(row[1]) for row in rows)) if rows else (identity,)


def add(db: Db, identity: str, person: str, by: str, now: int) -> bool:
    """Bind an identity to a person who is known. They get what it holds. False if it is paired, has identities of its
    own, or is one that no platform proves."""
    if is_untrusted(identity) or is_untrusted(person):
        return False
    if identity == person or get(db, person) is not None or len(list_names(db, identity)) > 1:
        return False
    users.add(db, person, "", now)
    IDENTITIES.insert(db, identity=identity, person=person, paired_at=now, paired_by=by)
    _move_rights(db, identity, person)
    _move_budgets(db, identity, person, now)
    _move_requests(db, identity, person)
    return True


def remove(db: Db, identity: str) -> PairedIdentity | None:
    """None if it is not paired."""
    row = db.row(f"DELETE FROM identities WHERE identity = ? RETURNING {IDENTITIES.columns}", (identity,))
    return IDENTITIES.parse(row) if row else None


def _move_rights(db: Db, identity: str, person: str) -> None:
    db.run(
        "INSERT INTO user_roles (user_id, role, folder, granted_by, granted_at)"
        " SELECT ?, role, folder, granted_by, granted_at FROM user_roles WHERE user_id = ?"
        " ON CONFLICT (user_id, role, folder) DO NOTHING",
        (person, identity),
    )
    db.run("DELETE FROM user_roles WHERE user_id = ?", (identity,))
    db.run(
        "INSERT INTO group_members (user_id, folder, added_by, added_at)"
        " SELECT ?, folder, added_by, added_at FROM group_members WHERE user_id = ?"
        " ON CONFLICT (user_id, folder) DO NOTHING",
        (person, identity),
    )
    db.run("DELETE FROM group_members WHERE user_id = ?", (identity,))
    db.run(
        "INSERT INTO memberships (child, parent, added_by, added_at)"
        " SELECT ?, parent, added_by, added_at FROM memberships WHERE child = ? ON CONFLICT (child, parent) DO NOTHING",
        (person, identity),
    )
    db.run("DELETE FROM memberships WHERE child = ?", (identity,))


def _move_budgets(db: Db, identity: str, person: str, now: int) -> None:
    """Move the budgets of an identity to its person. The smaller of two limits counts; spending and reservations add
    up."""
    db.lock(LockKind.MONEY)
    db.run(
        "INSERT INTO budgets (kind, name, period, micro, set_by, set_at)"
        " SELECT kind, ?, period, micro, set_by, set_at FROM budgets WHERE kind = 'user' AND name = ?"
        " ON CONFLICT (kind, name, period) DO UPDATE SET"
        " micro = CASE WHEN excluded.micro < budgets.micro THEN excluded.micro ELSE budgets.micro END",
        (person, identity),
    )
    db.run("DELETE FROM budgets WHERE kind = 'user' AND name = ?", (identity,))
    db.run(
        "INSERT INTO spending (kind, name, period, starts_at, spent, reserved)"
        " SELECT kind, ?, period, starts_at, spent, reserved FROM spending WHERE kind = 'user' AND name = ?"
        " ON CONFLICT (kind, name, period, starts_at) DO UPDATE SET spent = spending.spent + excluded.spent,"
        " reserved = spending.reserved + excluded.reserved",
        (person, identity),
    )
    db.run("DELETE FROM spending WHERE kind = 'user' AND name = ?", (identity,))
    db.run("UPDATE reservations SET user_id = ? WHERE user_id = ?", (person, identity))
    budgets.count_person_anew(db, person, now)


def _move_requests(db: Db, identity: str, person: str) -> None:
    """Move the cards and votes of an identity to its person. If both voted, one vote is left."""
    db.run("UPDATE request_cards SET person = ? WHERE person = ?", (person, identity))
    db.run(
        "INSERT INTO request_votes (request_id, person, voted_at)"
        " SELECT request_id, ?, voted_at FROM request_votes WHERE person = ?"
        " ON CONFLICT (request_id, person) DO NOTHING",
        (person, identity),
    )
    db.run("DELETE FROM request_votes WHERE person = ?", (identity,))
