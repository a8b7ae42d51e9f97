"""Groups: one agent each, named by its folder in the tree. Watchers: groups that see another's messages as context.

Uids: the sandboxes of a world run as a host uid of its own where the gateway is root. A number is never given twice.
"""

import json
from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct, field

from gatepost.core.errors import SetupError
from gatepost.core.record_fields import ShownAs, option, shown
from gatepost.store.engine.table import Table
from gatepost.store.gateways import group_places
from gatepost.store.messages import inbox
from gatepost.store.port import Db, LockKind, inline_read
from gatepost.store.rights import switches
from gatepost.store.sessions import skills

Count = Annotated[int, Meta(ge=0, lt=10**9)]


class GroupSettings(Struct, frozen=True, kw_only=True):
    """The columns that an operator sets. A further one is a name for `gatepost group set`, an input of the form, a
    field of the API, and a line wherever a group is shown."""

    name: Annotated[str, shown("Name"), option("How people call it.")] = ""
    provider: Annotated[
        str,
        shown("Provider", empty="default"),
        option("The agent that drives it. Another one clears the model, unless the same command names one."),
    ] = ""
    model: Annotated[str, shown("Model", empty="default"), option("The model that it has.")] = ""
    sandbox: Annotated[str, shown("Sandbox", empty="default"), option("What its agent runs in.", at_root=True)] = ""
    open: Annotated[
        bool,
        shown("Siblings", ShownAs.FLAG, head="open", word="see what is said here"),
        option(
            "yes lets its siblings (groups with the same one above) watch it: what people write to it, or"
            " what it only observes, is context for them. no, the default, seals it: they see nothing of it, and"
            " what they were not shown yet is gone."
        ),
    ] = False
    window_messages: Annotated[
        Count | None,
        shown("Observed messages", empty="default", details=True),
        option("How many messages that it only observes it has in a turn."),
    ] = None
    window_chars: Annotated[
        Count | None,
        shown("Observed characters", empty="default", details=True),
        option("How many characters of them."),
    ] = None
    limits: Annotated[
        dict[str, int],
        shown("Limits", empty="the gateway's", details=True),
        option(
            "memory_mb, cpu_percent (of one processor), processes, turn_s, disk_mb and files hold for the group and"
            " those below it that say nothing else, up to what the gateway's settings give."
        ),
    ] = field(default_factory=dict)
    mounts: Annotated[
        tuple[str, ...],
        shown("Mounts", details=True),
        option(
            "/host/path:/workspace/extra/name[:rw],… shows host folders, as far as the gateway's settings let it.",
            at_root=True,
        ),
    ] = ()
    options: Annotated[
        dict[str, Any], shown("Options", details=True), option("Options of its provider.", at_root=True)
    ] = field(default_factory=dict)


class Group(GroupSettings, frozen=True, kw_only=True):
    folder: Annotated[str, shown("Group", ShownAs.ID)]
    created_at: Annotated[int, shown("Since", ShownAs.MOMENT, head="since", details=True)]


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


def list_first(db: Db, most: int) -> list[Group]:
    return GROUPS.list(db, "ORDER BY folder LIMIT ?", most)


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


def update(db: Db, folder: str, values: dict[str, Any]) -> bool:
    """Set columns by name. Some entries of a table are set; None takes one out. With another provider the models go
    that conversations chose: they were the other one's. So it is with groups below that name none."""
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
    for name, value in values.items():
        assert name in GroupSettings.__struct_fields__, name
        if isinstance(value, dict):
            merged = {**getattr(group, name), **value}
            value = {entry: each for entry, each in merged.items() if each is not None}
        kept = json.dumps(value) if isinstance(value, dict | list | tuple) else value
        db.run(f"UPDATE groups SET {name} = ? WHERE folder = ?", (kept, folder))
    return True


def _hide_from_siblings(db: Db, folder: str) -> None:
    """A group is sealed: what those beside it have from watching it, and were not shown yet, they never are."""
    above = folder.rpartition("/")[0]
    for observer in list_observers(db, folder):
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
    skills.remove_for_group(db, folder)
    switches.turn_off(db, switches.name_rest(folder))
    removed = db.run("DELETE FROM groups WHERE folder = ?", (folder,))
    group_places.remove_unused(db, folder)
    return bool(removed)


@inline_read
def list_observers(db: Db, source: str) -> list[str]:
    """Return the groups that watch another."""
    return [row[0] for row in db.rows("SELECT observer FROM watchers WHERE source = ? ORDER BY observer", (source,))]


def add_watcher(db: Db, observer: str, source: str, by: str, now: int) -> bool:
    """False if it did already."""
    return bool(
        db.run(
            "INSERT INTO watchers (observer, source, added_by, added_at) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (source, observer) DO NOTHING",
            (observer, source, by, now),
        )
    )


def remove_watcher(db: Db, observer: str, source: str) -> bool:
    return bool(db.run("DELETE FROM watchers WHERE observer = ? AND source = ?", (observer, source)))


@inline_read
def get_uid(db: Db, world: str) -> int | None:
    row = db.row("SELECT uid FROM uids WHERE world = ?", (world,))
    return int(row[0]) if row else None


def assign_uid(db: Db, world: str, first: int, last: int, now: int) -> int:
    """The world's uid. It gets the next one of the range if it has none, or one from outside the range."""
    db.lock(LockKind.RULES, "uids")
    known = get_uid(db, world)
    if known is not None and first <= known <= last:
        return known
    row = db.row("SELECT MAX(uid) FROM uids WHERE uid >= ? AND uid <= ?", (first, last))
    found = first if row is None or row[0] is None else int(row[0]) + 1
    if found > last:
        raise SetupError(f"every uid of sandbox.uids = {first}-{last} is in use; widen the range")
    db.run(
        "INSERT INTO uids (world, uid, assigned_at) VALUES (?, ?, ?)"
        " ON CONFLICT (world) DO UPDATE SET uid = excluded.uid, assigned_at = excluded.assigned_at",
        (world, found, now),
    )
    return found
