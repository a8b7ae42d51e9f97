"""Groups: one agent each, named by its folder in the tree."""

import json
from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field

from gatepost.store.engine.table import Table
from gatepost.store.gateways import group_places
from gatepost.store.messages import inbox
from gatepost.store.port import Db, inline_read
from gatepost.store.rooms import watchers

SETTABLE = ("name", "provider", "model", "sandbox", "open", "window_messages", "window_chars")


class Group(Struct, frozen=True):
    folder: str
    name: str
    provider: str
    model: str
    sandbox: str
    options: dict[str, Any]
    open: bool
    window_messages: int | None
    window_chars: int | None
    created_at: int
    limits: dict[str, int] = field(default_factory=dict)  # those of its own
    mounts: tuple[str, ...] = ()  # host folders that its sandboxes see: source:target[:rw]


GROUPS = Table("groups", Group)


def add(db: Db, folder: str, name: str, provider: str, now: int) -> bool:
    """False if it was there already."""
    once = "ON CONFLICT (folder) DO NOTHING RETURNING folder"
    row = GROUPS.insert(db, once, folder=folder, name=name, provider=provider, open=False, created_at=now)
    if row is not None and db.gateway:
        group_places.claim(db, folder, db.gateway, now)
    return row is not None


@inline_read
def get(db: Db, folder: str) -> Group | None:
    return GROUPS.get(db, "WHERE folder = ?", folder)


def list_all(db: Db) -> list[Group]:
    return GROUPS.list(db, "ORDER BY folder")


@inline_read
def find_deepest(db: Db, folders: Sequence[str]) -> str | None:
    """The longest of these names that a group has."""
    marks = ", ".join("?" * len(folders))
    found = [str(row[0]) for row in db.rows(f"SELECT folder FROM groups WHERE folder IN ({marks})", tuple(folders))]
    return max(found, key=len, default=None)


def list_ancestors(db: Db, folder: str) -> list[Group]:
    """The groups over one, the nearest first."""
    found = []
    while folder := folder.rpartition("/")[0]:
        group = get(db, folder)
        if group is not None:
            found.append(group)
    return found


def set_limits(db: Db, folder: str, values: dict[str, int | None]) -> None:
    """Some of its limits; None: as the groups above it."""
    group = get(db, folder)
    if group is not None:
        limits = {name: value for name, value in {**group.limits, **values}.items() if value is not None}
        db.run("UPDATE groups SET limits = ? WHERE folder = ?", (json.dumps(limits), folder))


def set_mounts(db: Db, folder: str, mounts: tuple[str, ...]) -> None:
    db.run("UPDATE groups SET mounts = ? WHERE folder = ?", (json.dumps(mounts), folder))


def update(db: Db, folder: str, values: dict[str, Any]) -> bool:
    """Set columns by name; a key that is no column goes into `options` (None takes it out). With another provider the
    models go that conversations chose: they were the other one's. So it is with groups below that name none."""
    group = get(db, folder)
    if group is None:
        return False
    if values.get("provider", group.provider) != group.provider:
        below = f"{folder}/"
        db.run(
            "UPDATE sessions SET model = '' WHERE provider = '' AND agent = 0 AND (folder = ? OR folder IN"
            " (SELECT folder FROM groups WHERE provider = '' AND SUBSTR(folder, 1, CAST(? AS INTEGER)) = ?))",
            (folder, len(below), below),
        )
    if group.open and not values.get("open", group.open):
        _hide_from_siblings(db, folder)
    options = dict(group.options)
    for key, value in values.items():
        if key in SETTABLE:
            db.run(f"UPDATE groups SET {key} = ? WHERE folder = ?", (value, folder))
        elif value is None:
            options.pop(key, None)
        else:
            options[key] = value
    db.run("UPDATE groups SET options = ? WHERE folder = ?", (json.dumps(options), folder))
    return True


def _hide_from_siblings(db: Db, folder: str) -> None:
    """A group is sealed: what those beside it have from watching it, and were not shown yet, they never are."""
    above = folder.rpartition("/")[0]
    for observer in watchers.list_observers(db, folder):
        if observer.rpartition("/")[0] == above:
            inbox.remove_watched(db, observer, folder)


def remove(db: Db, folder: str) -> bool:
    """Remove a group with its routes, destinations and sessions, and every right: neither a later group of the same
    name nor its former admins have any. Limits (denials, budgets) stay, so that a group made again is not free of them.
    The ledger's messages stay."""
    principal = f"folder:{folder}"
    db.run("DELETE FROM acl WHERE effect = 'allow' AND (principal = ? OR scope = ?)", (principal, folder))
    db.run("DELETE FROM memberships WHERE child = ? OR parent = ?", (principal, principal))
    db.run("DELETE FROM user_roles WHERE folder = ? AND folder <> ''", (folder,))
    db.run("DELETE FROM newcomers WHERE folder = ?", (folder,))  # who had it may come again
    db.run("DELETE FROM destinations WHERE target_folder = ?", (folder,))  # nobody may give it work under a name
    removed = db.run("DELETE FROM groups WHERE folder = ?", (folder,))
    group_places.remove_unused(db, folder)
    return bool(removed)
