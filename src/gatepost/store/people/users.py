"""People, by their first identity on a platform, with their roles and memberships."""

from enum import StrEnum
from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import ShownAs, shown
from gatepost.store.engine.table import Table
from gatepost.store.port import Db, inline_read


class UserRole(StrEnum):
    OWNER = "owner"
    ADMIN = "admin"


class User(Struct, frozen=True):
    id: Annotated[str, shown("Id", ShownAs.CODE)]
    name: Annotated[str, shown("Name")]
    created_at: Annotated[int, shown("Known since", ShownAs.MOMENT, head="known since")]
    language: Annotated[str, shown("Language")] = ""  # of our own texts; '': as their browser asks for, else English


USERS = Table("users", User)
_IS_PERSON = "NOT EXISTS (SELECT 1 FROM identities i WHERE i.identity = users.id)"


class SenderRoles(Struct, frozen=True):
    """Facts of a sender: whether they are known, and what they are where."""

    known: bool
    roles: tuple[tuple[UserRole, str], ...] = ()  # (role, folder), '' is everywhere
    member_of: tuple[str, ...] = ()


def add(db: Db, user_id: str, name: str, now: int) -> None:
    USERS.insert(db, "ON CONFLICT (id) DO NOTHING", id=user_id, name=name, created_at=now)


def set_name(db: Db, user_id: str, name: str) -> bool:
    """False if nobody is known by that id."""
    return bool(db.run("UPDATE users SET name = ? WHERE id = ?", (name, user_id)))


def set_language(db: Db, user_id: str, language: str) -> bool:
    """False if nobody is known by that id."""
    return bool(db.run("UPDATE users SET language = ? WHERE id = ?", (language, user_id)))


def find_language(db: Db, instance: str, address: str) -> str:
    """Return the language of the only person who reads a direct room; '' if they chose none, or the room is no such
    one."""
    rows = db.rows(
        "SELECT DISTINCT u.language FROM direct_room_readers r LEFT JOIN identities i ON i.identity = r.identity"
        " JOIN users u ON u.id = COALESCE(i.person, r.identity) WHERE r.instance = ? AND r.address = ? LIMIT 2",
        (instance, address),
    )
    return str(rows[0][0]) if len(rows) == 1 else ""


@inline_read
def get(db: Db, user_id: str) -> User | None:
    return USERS.get(db, "WHERE id = ?", user_id)


def list_all(db: Db) -> list[User]:
    """Each person once."""
    return USERS.list(db, f"WHERE {_IS_PERSON} ORDER BY id")


def list_first(db: Db, most: int) -> list[User]:
    return USERS.list(db, f"WHERE {_IS_PERSON} ORDER BY id LIMIT ?", most)


@inline_read
def get_roles(db: Db, identity: str) -> SenderRoles:
    """Return the roles of the person who has this identity. It is one query, because it runs with every message that
    comes in."""
    rows = db.rows(
        "WITH own (person) AS (SELECT COALESCE((SELECT person FROM identities WHERE identity = ?), ?)),"
        " names (id) AS (SELECT person FROM own UNION SELECT i.identity FROM identities i JOIN own o"
        " ON o.person = i.person)"
        " SELECT 'user', '' FROM users WHERE id IN (SELECT id FROM names)"
        " UNION SELECT role, folder FROM user_roles WHERE user_id IN (SELECT id FROM names)"
        " UNION SELECT 'member', folder FROM group_members WHERE user_id IN (SELECT id FROM names) ORDER BY 1, 2",
        (identity, identity),
    )
    if not rows:
        return SenderRoles(known=False)
    roles = tuple((UserRole(what), where) for what, where in rows if what not in ("user", "member"))
    return SenderRoles(True, roles, tuple(where for what, where in rows if what == "member"))


def add_role(db: Db, user_id: str, role: UserRole, folder: str, by: str, now: int) -> bool:
    """False if they had it."""
    return bool(
        db.run(
            "INSERT INTO user_roles (user_id, role, folder, granted_by, granted_at) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (user_id, role, folder) DO NOTHING",
            (user_id, role, folder, by, now),
        )
    )


def add_member(db: Db, user_id: str, folder: str, by: str, now: int) -> bool:
    return bool(
        db.run(
            "INSERT INTO group_members (user_id, folder, added_by, added_at) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (user_id, folder) DO NOTHING",
            (user_id, folder, by, now),
        )
    )


@inline_read
def find_member_origin(db: Db, user_id: str, folder: str) -> str:
    """Return who or what made the person a member; '': they are none."""
    row = db.row("SELECT added_by FROM group_members WHERE user_id = ? AND folder = ?", (user_id, folder))
    return str(row[0]) if row else ""


def list_owners(db: Db) -> list[str]:
    """Each person once, the first one first."""
    held = ((person, role) for person, role, folder in list_role_holders(db) if not folder)
    return list(dict.fromkeys(person for person, role in held if role is UserRole.OWNER))


def list_role_holders_by(db: Db, origin: str) -> list[str]:
    """Return the people whose role was given by something whose name begins so."""
    rows = db.rows(
        "SELECT DISTINCT COALESCE(i.person, r.user_id) FROM user_roles r LEFT JOIN identities i"
        " ON i.identity = r.user_id WHERE SUBSTR(r.granted_by, 1, CAST(? AS INTEGER)) = ? ORDER BY 1",
        (len(origin), origin),
    )
    return [str(row[0]) for row in rows]


def list_role_holders(db: Db) -> list[tuple[str, UserRole, str]]:
    """(person, role, folder) of everybody who has one; '' is everywhere."""
    rows = db.rows(
        "SELECT COALESCE(i.person, r.user_id), r.role, r.folder FROM user_roles r"
        " LEFT JOIN identities i ON i.identity = r.user_id ORDER BY r.granted_at, r.user_id"
    )
    return [(row[0], UserRole(row[1]), row[2]) for row in rows]
