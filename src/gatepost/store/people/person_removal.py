"""Rows of the store about a person themselves: their identities, rights, rooms, secrets and logins. Small tables: they
are removed in one transaction, after everything that is found by the identities."""

import re
from typing import Any

from gatepost.store.people import users
from gatepost.store.people.identities import IDENTITIES
from gatepost.store.people.passkeys import PASSKEYS
from gatepost.store.people.person_scope import FORGOTTEN, PersonScope, make_marks
from gatepost.store.people.users import USERS
from gatepost.store.port import Db
from gatepost.store.rights.acl import ACL
from gatepost.store.rooms import routes
from gatepost.store.rooms.direct_rooms import DIRECT_ROOMS
from gatepost.store.rooms.engagements import STICKY_CHOICES
from gatepost.store.rooms.threads import THREAD_MARKS
from gatepost.store.web.links import LINK_VISITORS

# (what, table, column): rows that are theirs
_OWN = (
    ("roles", "user_roles", "user_id"),
    ("memberships", "group_members", "user_id"),
    ("memberships", "memberships", "child"),
    ("access_rows", "acl", "principal"),
    ("logins", "logins", "user_id"),
    ("logins", "passwords", "user_id"),
    ("logins", "known_browsers", "user_id"),
    ("logins", "api_tokens", "maker"),
    ("logins", "passkeys", "user_id"),
    ("pairing_codes", "pairing_codes", "person"),
    ("pairing_codes", "pairing_guesses", "sender"),
    ("invitations", "newcomers", "sender"),
    ("pairing_codes", "tokens", "identity"),
    ("logins", "link_visitors", "identity"),
    ("secrets", "secrets", "user_id"),
    ("votes", "request_votes", "person"),
    ("cards", "request_cards", "person"),
    ("direct_rooms", "direct_rooms", "user_id"),
    ("direct_rooms", "direct_room_readers", "identity"),
    ("memories", "memories", "speaker"),
    ("memories", "memories", "person"),
    ("choices", "sticky_choices", "sender"),
    ("choices", "thread_marks", "person"),
    ("identities", "identities", "person"),
    ("identities", "identities", "identity"),
    ("identities", "users", "id"),
)
# Columns that say who did something, in rows that stay.
NAMED = (
    ("acl", "granted_by"),
    ("budgets", "set_by"),
    ("egress_rules", "created_by"),
    ("channel_instances", "created_by"),
    ("entrances", "created_by"),
    ("connector_tools", "accepted_by"),
    ("grants", "added_by"),
    ("group_members", "added_by"),
    ("identities", "paired_by"),
    ("instructions", "written_by"),
    ("memberships", "added_by"),
    ("memories", "ended_by"),
    ("newcomers", "decided_by"),
    ("newcomers", "invited_by"),
    ("pairing_codes", "created_by"),
    ("pairing_codes", "used_by"),
    ("pinned_rules", "added_by"),
    ("replays", "created_by"),
    ("room_pins", "pinned_by"),
    ("routes", "created_by"),
    ("secret_bindings", "created_by"),
    ("session_notes", "pinned_by"),
    ("skills", "agreed_by"),
    ("switches", "turned_by"),
    ("tasks", "created_by"),
    ("threads", "named_by"),
    ("tokens", "created_by"),
    ("trusted_setups", "trusted_by"),
    ("user_roles", "granted_by"),
    ("web_hosts", "created_by"),
    ("web_routes", "created_by"),
    ("watchers", "added_by"),
)
_BY_NAME = ("budgets", "spending")  # their `name` is a person where `kind` is user
_BY_ROOM = (
    ("rooms", "rooms"),
    ("destinations", "destinations"),
    ("tasks", "tasks"),
    ("engagements", "engagements"),
    ("rooms", "threads"),
)
_CONDITION = re.compile(r'(?:[^\s"]|"[^"]*")+')  # of a route's match
_PATTERN_SIGNS = frozenset("*?[]|")  # a name with one may stand for others, too
_TASKS = "created_by IN ({0}) OR id IN (SELECT task_id FROM task_origins WHERE person IN ({0}))"  # theirs, in any room


def count(db: Db, scope: PersonScope) -> dict[str, int]:
    """How many rows of each kind."""
    found: dict[str, int] = {}
    marks = make_marks(scope.names)
    for what, table, column in _OWN:
        _add(found, what, db.row(f"SELECT COUNT(*) FROM {table} WHERE {column} IN ({marks})", scope.names))
    for table in _BY_NAME:
        sql = f"SELECT COUNT(*) FROM {table} WHERE kind = 'user' AND name IN ({marks})"
        _add(found, "budgets", db.row(sql, scope.names))
    theirs = f"SELECT COUNT(*) FROM tasks WHERE {_TASKS.format(marks)}"
    _add(found, "tasks", db.row(theirs, (*scope.names, *scope.names)))
    for what, table in _BY_ROOM:
        for room in scope.rooms:
            _add(found, what, db.row(f"SELECT COUNT(*) FROM {table} WHERE instance = ? AND address = ?", room))
    found["routes"] = len(list_own_routes(db, scope))
    for _, address in scope.rooms:
        _add(found, "pinned rules", db.row("SELECT COUNT(*) FROM pinned_rules WHERE address = ?", (address,)))
    return found


def _add(found: dict[str, int], what: str, row: tuple[int, ...] | None) -> None:
    found[what] = found.get(what, 0) + (int(row[0]) if row else 0)


def list_called(db: Db, names: tuple[str, ...]) -> list[str]:
    """List how people call the person."""
    known = (users.get(db, each) for each in names)
    return [user.name for user in known if user is not None and user.name]


def list_own_routes(db: Db, scope: PersonScope) -> list[int]:
    """List the routes that can hold for nobody else: all conditions of one must hold, and one names an identity or a
    room of the person."""
    exact = (("sender", scope.names), ("chat_jid", [address for _, address in scope.rooms]))
    own = {f"{key}={word}" for key, words in exact for word in words if not _PATTERN_SIGNS & {*word}}
    rows = db.rows("SELECT id, match FROM routes ORDER BY seq, id")
    return [int(row[0]) for row in rows if own & {each.replace('"', "") for each in _CONDITION.findall(row[1])}]


def list_named_routes(db: Db, scope: PersonScope) -> list[int]:
    """List the other routes that name the person or a room of theirs: rules of the operator, who decides about them."""
    own = {*list_own_routes(db, scope)}
    words = [re.escape(each) for each in (*scope.names, *(address for _, address in scope.rooms))]
    named = re.compile(rf"(?<![\w/:])(?:{'|'.join(words)})(?![\w/])")
    rows = db.rows("SELECT id, match, target FROM routes ORDER BY seq, id")
    return [int(row[0]) for row in rows if row[0] not in own and named.search(f"{row[1]} {row[2]}")]


# An export of each table: (table, columns, by which column a row is the person's). No hashes, and nothing sealed.
_EXPORTED = (
    ("users", USERS.columns, "id"),
    ("identities", IDENTITIES.columns, "person"),
    ("user_roles", "user_id, role, folder, granted_by, granted_at", "user_id"),
    ("group_members", "user_id, folder, added_by, added_at", "user_id"),
    ("memberships", "child, parent, added_by, added_at", "child"),
    ("acl", ACL.columns, "principal"),
    ("budgets", "kind, name, period, micro, set_by, set_at", "name"),
    ("spending", "kind, name, period, starts_at, spent", "name"),
    ("costs", "id, at, folder, user_id, session_id, turn_id, model, input, output, micro", "user_id"),
    ("secrets", "user_id, name, origin, created_at, updated_at, used_at", "user_id"),
    ("direct_rooms", DIRECT_ROOMS.columns, "user_id"),
    ("sticky_choices", STICKY_CHOICES.columns, "sender"),
    ("thread_marks", THREAD_MARKS.columns, "person"),
    ("tasks", "id, folder, instance, address, prompt, text, schedule, state, created_by, created_at", "created_by"),
    ("newcomers", "sender, name, instance, address, parent, state, folder, asked_at", "sender"),
    ("logins", "user_id, kind, way, device, peer, created_at, last_seen_at, expires_at", "user_id"),
    ("passwords", "user_id, changed_at", "user_id"),
    ("link_visitors", LINK_VISITORS.columns, "identity"),
    ("passkeys", PASSKEYS.columns, "user_id"),
    ("request_votes", "request_id, person, voted_at", "person"),
    ("memories", "id, folder, text, about, scope, trust, created_at, expires_at, ended_at", "speaker"),
)


def list_rows(db: Db, scope: PersonScope) -> dict[str, list[dict[str, Any]]]:
    """For an export: the rows of each table, by the names of their columns. Times are microseconds, UTC."""
    found: dict[str, list[dict[str, Any]]] = {}
    for table, columns, column in _EXPORTED:
        names = columns.split(", ")
        rows = db.rows(f"SELECT {columns} FROM {table} WHERE {column} IN ({make_marks(scope.names)})", scope.names)
        found[table] = [dict(zip(names, row, strict=True)) for row in rows]
    return found


def remove(db: Db, scope: PersonScope) -> None:
    marks = make_marks(scope.names)
    for route_id in list_own_routes(db, scope):
        routes.remove(db, route_id)
    db.run(f"DELETE FROM tasks WHERE {_TASKS.format(marks)}", (*scope.names, *scope.names))
    db.run(f"UPDATE session_notes SET pinned = '' WHERE pinned_by IN ({marks})", scope.names)
    db.run(f"DELETE FROM threads WHERE named_by IN ({marks})", scope.names)  # their words
    for table, column in NAMED:
        db.run(f"UPDATE {table} SET {column} = ? WHERE {column} IN ({marks})", (FORGOTTEN, *scope.names))
    db.run(f"UPDATE reservations SET user_id = '' WHERE user_id IN ({marks})", scope.names)
    for table in _BY_NAME:
        db.run(f"DELETE FROM {table} WHERE kind = 'user' AND name IN ({marks})", scope.names)
    scopes = [f"user:{each}" for each in scope.names]
    db.run(f"DELETE FROM secrets WHERE scope IN ({make_marks(scopes)})", scopes)
    db.run(  # others who read the same room are not alone there from now on
        "INSERT INTO direct_room_readers (instance, address, identity) SELECT DISTINCT instance, address, ?"
        f" FROM direct_room_readers WHERE identity IN ({marks}) AND EXISTS (SELECT 1 FROM direct_room_readers o"
        " WHERE o.instance = direct_room_readers.instance AND o.address = direct_room_readers.address"
        f" AND o.identity NOT IN ({marks})) ON CONFLICT DO NOTHING",
        (FORGOTTEN, *scope.names, *scope.names),
    )
    for _, table, column in _OWN:
        db.run(f"DELETE FROM {table} WHERE {column} IN ({marks})", scope.names)
    for _, table in _BY_ROOM:
        for room in scope.rooms:
            db.run(f"DELETE FROM {table} WHERE instance = ? AND address = ?", room)
    for _, address in scope.rooms:
        db.run("DELETE FROM pinned_rules WHERE address = ?", (address,))
