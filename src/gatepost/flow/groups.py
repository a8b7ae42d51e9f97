"""Groups come with a folder that an agent can start in, and a gateway comes with two of them: `root`, and the world
`home`, where the default route leads.

A group's folder belongs to its agent: it is touched through `core/files/untrusted_files.py` alone, and nothing that is
there is ever overwritten. It stays when its group is removed, because groups below it live there and its people own
what the agent wrote. So do the ledger's messages. Session folders, sockets, logs and media are cleared.
"""

import asyncio
import re
import shutil
import stat
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from gatepost.access.tiers import DEFAULTS
from gatepost.channels.contract import get_file_folder_name
from gatepost.core import log
from gatepost.core.clock import Clock
from gatepost.core.errors import GatepostError, Invalid, NotFound
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.flow.gateways.folder_check import NOWHERE, check_stays, claim_found
from gatepost.flow.sessions.host.host_uids import group_uid
from gatepost.store.gateways import group_places
from gatepost.store.messages import inbox, outbox
from gatepost.store.people import identities, users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db, LockKind, Store
from gatepost.store.rooms import rooms, routes
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.rooms.routes import Route
from gatepost.store.sessions import groups, sessions, worktrees
from gatepost.store.sessions.groups import Group
from gatepost.store.sessions.worktrees import WorktreeState

ROOT, WORLD = DEFAULTS
DEFAULT_SEQ = 1000  # last: everything that an operator adds comes before it
MOST_FILES, LARGEST_PROTOTYPE, DEEPEST_PROTOTYPE = 1000, 10_000_000, 8
_NAMES = {ROOT: "Root", WORLD: "Home"}
OWNER = "terminal:owner"  # whoever may open that channel at all; the others are the same person
OWNERS_IDENTITIES = ("web:user/owner",)
WEB_PERSON, WEB_ROOM = "web:user/", "web:people/"  # what identities and people's own rooms of the page begin with
OWNERS_ROOM = "web:home"  # of the page
_OWNERS_ROOMS = (
    ("terminal", "terminal:main", "Terminal", RoomPolicy.PUBLIC),
    ("web", OWNERS_ROOM, "Home", RoomPolicy.STRICT),
)

AGENTS = """# {name}

You are {name}, an agent of this gateway. Your group is `{folder}`, and this folder is your own: what you write
here stays.

## How to be

- Answer in the language of whoever writes, briefly and to the point. Say so when you do not know.
- Several people may talk in one room. Look at who said what before you answer.
- Ask before you do something that cannot be undone.

## What lies here

- `work.md`: what you are doing and what comes next. Read it first; keep it short.
- `skills/`: drafts of skills, one folder each with a `SKILL.md`. write_skill asks a person to agree to one.
- This file says who you are. Improve it when you are told to.

Everything outside this folder is reached through your tools alone.
"""
WORK = """# Work

Nothing is open.
"""


_FILES = frozenset({"AGENTS.md", "CLAUDE.md", "work.md"})
_DRAFT = re.compile(r"\..+\.tmp")  # what a kill leaves of a file that was being written
_making: set[Path] = set()  # folders, while they are made

T = TypeVar("T")
_log = log.get("groups")
TRIES, PAUSE_S = 10, 0.1  # a sandbox that was just ended may hold its folder for a moment
_CAME = re.compile(r"in/(f-[0-9a-z]+)/")  # as intake names the folders of attachments


class FolderPrototype(Struct, frozen=True):
    """The first contents of a child's folder: files by path, and folders, each before what is in it."""

    files: dict[str, bytes]
    folders: list[str]


def make_folder(
    home: Home, folder: str, uid: int | None = None, *, name: str = "", prototype: FolderPrototype | None = None
) -> None:
    """Give a group what a new agent needs; what exists stays as it is, but for what the prototype has."""
    with open_untrusted(home.groups) as root:
        place = ""
        for segment in folder.split("/"):
            place = f"{place}/{segment}" if place else segment
            if not root.exists(place):
                root.make_dir(place, 0o700, uid=uid)  # of one world, so of one uid
        # Everything by its way from the top: a parent's agent could have put a link where its child's folder should be.
        if prototype is not None:
            for below in prototype.folders:
                if not root.exists(f"{folder}/{below}"):
                    root.make_dir(f"{folder}/{below}", 0o700, uid=uid)
            for below, data in prototype.files.items():
                root.write_bytes(f"{folder}/{below}", data, mode=0o600, uid=uid)
        if not root.exists(f"{folder}/AGENTS.md"):
            text = AGENTS.format(name=name or folder, folder=folder)
            root.write_bytes(f"{folder}/AGENTS.md", text.encode(), mode=0o600, uid=uid)
        if not root.exists(f"{folder}/CLAUDE.md"):
            root.make_link(f"{folder}/CLAUDE.md", "AGENTS.md")
        if not root.exists(f"{folder}/work.md"):
            root.write_bytes(f"{folder}/work.md", WORK.encode(), mode=0o600, uid=uid)
        if not root.exists(f"{folder}/skills"):
            root.make_dir(f"{folder}/skills", 0o700, uid=uid)


def read_prototype(home: Home, parent: str) -> FolderPrototype:
    """Return what lies in the parent's `prototype/`: plain files alone, no links, within bounds."""
    found = FolderPrototype({}, [])
    with open_untrusted(home.groups) as root:
        if not root.exists(f"{parent}/prototype"):
            raise NotFound("folder", "prototype", "make one in your folder first: it is copied for each child")
        waiting, size = [""], 0
        while waiting:
            place = waiting.pop()
            for name in root.list(f"{parent}/prototype/{place}".rstrip("/")):
                target = f"{place}/{name}" if place else name
                kind = root.stat(f"{parent}/prototype/{target}").st_mode
                if stat.S_ISDIR(kind) and target.count("/") < DEEPEST_PROTOTYPE:
                    found.folders.append(target)
                    waiting.append(target)
                elif stat.S_ISREG(kind):
                    found.files[target] = root.read_bytes(f"{parent}/prototype/{target}", LARGEST_PROTOTYPE)
                    size += len(found.files[target])
                if max(len(found.files), len(found.folders)) > MOST_FILES or size > LARGEST_PROTOTYPE:
                    raise Invalid("prototype", f"holds more than {MOST_FILES} files or {LARGEST_PROTOTYPE} bytes")
    for name in _FILES & {*found.folders}:
        raise Invalid("prototype", f"has a folder {name}, which must be a file")
    if "skills" in found.files:
        raise Invalid("prototype", "has a file skills, which must be a folder")
    return found


def add_defaults(db: Db, now: int) -> bool:
    """The rows of a first start; True if it was one. Later starts bring back no route that an operator removed."""
    db.lock(LockKind.DEFAULTS)
    groups.add(db, ROOT, _NAMES[ROOT], "", now)
    first = groups.add(db, WORLD, _NAMES[WORLD], "", now)
    if first:
        routes.add(
            db,
            Route(seq=DEFAULT_SEQ, match="", target=WORLD, folder=WORLD, created_by="gatepost", created_at=now),
        )
    for identity in (OWNER, *OWNERS_IDENTITIES):
        users.add(db, identity, "Owner", now)
        identities.add(db, identity, OWNER, "gatepost", now)
    users.add_role(db, OWNER, UserRole.OWNER, "", "gatepost", now)
    for instance, address, name, policy in _OWNERS_ROOMS:
        rooms.add(db, instance, address, name, True, policy, now)
    return first


async def make_group(
    store: Store,
    home: Home,
    folder: str,
    uid: int | None,
    commit: Callable[[], Awaitable[T]],
    *,
    name: str,
    prototype: FolderPrototype | None = None,
) -> T:
    """Make a group: the folder first, then the row, so that a group is absent or complete whenever the gateway is
    killed. If the commit fails, the folder is removed again, unless it was there before. Raises FolderElsewhere before
    it does anything."""
    await check_stays(store, home, folder)
    if (place := home.group(folder)) in _making:
        raise Invalid("folder", f"{folder} is being made by another call right now")
    _making.add(place)
    try:
        ours = not await asyncio.to_thread(_exists, home, folder)
        try:
            await asyncio.to_thread(make_folder, home, folder, uid, name=name, prototype=prototype)
            return await commit()
        except Exception:
            if ours:
                await asyncio.to_thread(_remove_folder, home, folder)
            raise
    finally:
        _making.discard(place)


def _exists(home: Home, folder: str) -> bool:
    with open_untrusted(home.groups) as root:
        return root.exists(folder)


def _remove_folder(home: Home, folder: str) -> None:
    with open_untrusted(home.groups) as root:
        root.remove_tree(folder)


def complete_folders(home: Home, made: Sequence[Group]) -> list[str]:
    """Groups whose folder is missing, or was left half-made: an older gateway was killed in `group add`. A folder in
    which anybody has changed or added something is left alone. They become the agents' own when those wake. The groups
    that were completed."""
    completed = []
    children: dict[str, set[str]] = {}
    for group in made:
        parent, _, last = group.folder.rpartition("/")
        children.setdefault(parent, set()).add(last)
    for group in made:
        try:
            if _is_half_made(home, group, children.get(group.folder, set())):
                make_folder(home, group.folder, name=group.name)
                completed.append(group.folder)
        except GatepostError as error:
            _log.warning("a group's folder cannot be completed", folder=group.folder, error=str(error))
    return completed


def _is_half_made(home: Home, group: Group, children: set[str]) -> bool:
    with open_untrusted(home.groups) as root:
        if not root.exists(group.folder):
            return True
        there = {name for name in root.list(group.folder) if not _DRAFT.fullmatch(name)} - children
        if not there < {*_FILES, "skills"}:
            return False
        if "AGENTS.md" not in there:
            return not there
        text = AGENTS.format(name=group.name or group.folder, folder=group.folder).encode()
        return root.read_bytes(f"{group.folder}/AGENTS.md", 4 * len(text)) == text


def _add_defaults_here(db: Db, gateway: str, now: int) -> bool:
    first = add_defaults(db, now)
    for world in DEFAULTS if first and gateway else ():
        group_places.claim(db, world, gateway, now)
    return first


async def ensure_defaults(
    store: Store, home: Home, clock: Clock, config: Config | None = None, gateway: str = ""
) -> bool:
    """`root`, `home`, the default route and the owner exist; True if they were made now. Without `config`, their
    folders are the daemon's own until they are woken. `gateway`: what lies on another one, or on none yet, is not made
    here."""
    first = await store.write(_add_defaults_here, gateway, clock.now())
    made = await store.read(groups.list_all)
    if gateway:
        for world in await claim_found(store, home, [each.folder for each in made], clock.now()):
            _log.warning("a group waits for its files", folder=world, why=NOWHERE)
        places = await store.read(group_places.list_all)
        made = [each for each in made if places.get(group_places.get_world(each.folder)) == gateway]
    for folder in [each.folder for each in made if each.folder in DEFAULTS]:
        uid = None if config is None else await group_uid(store, config, clock, folder)
        make_folder(home, folder, uid, name=_NAMES[folder])
    for folder in complete_folders(home, made):
        _log.warning("a half-made group was completed", folder=folder)
    return first


class GroupLeftovers(Struct, frozen=True, kw_only=True):
    """Names below the home."""

    sessions: tuple[str, ...]
    came: tuple[str, ...]  # folders of attachments that nobody else was sent
    sent: tuple[tuple[str, str], ...]  # (channel instance, effect's key) with files
    worktrees: tuple[tuple[str, str], ...]  # records of archived ones


def archived_worktrees(db: Db, folder: str) -> list[tuple[str, str]]:
    """Those of a group; one that is in use holds the group, because it may have work in it that is nowhere else."""
    of_group = [each for each in worktrees.list_all(db, archived=True) if each.folder == folder]
    used = [each.name for each in of_group if each.state != WorktreeState.ARCHIVED]
    if used:
        names = ", ".join(used[:5])
        raise Invalid(
            "folder", f"{folder!r} has worktrees: {names}; `gatepost worktree archive NAME` each of them first"
        )
    return [(each.project, each.slug) for each in of_group]


def find_leftovers(db: Db, folder: str) -> GroupLeftovers:
    """Read before the group goes: its rows name them. It looks through the group's messages, so not in a write."""
    contents = inbox.list_contents_only_for(db, folder)
    return GroupLeftovers(
        sessions=tuple(sessions.list_ids(db, folder)),
        came=tuple(sorted({name for text in contents for name in _CAME.findall(text)})),
        sent=tuple(outbox.list_with_files(db, folder)),
        worktrees=tuple(archived_worktrees(db, folder)),
    )


async def remove_leftovers(home: Home, remains: GroupLeftovers) -> tuple[dict[str, int], list[str]]:
    """How many of each were removed, and what could not be."""
    left: list[str] = []
    cleared = 0
    for session_id in remains.sessions:
        if await _clear_session(home, session_id):
            cleared += 1
        else:
            left.append(str(home.session(session_id)))
    media = await asyncio.to_thread(_clear_media, home, remains)
    return {"sessions": cleared, "media": media, "worktrees": len(remains.worktrees)}, left


async def _clear_session(home: Home, session_id: str) -> bool:
    for _ in range(TRIES):
        with suppress(GatepostError, OSError):
            await asyncio.to_thread(_remove_session, home, session_id)
            return True
        await asyncio.sleep(PAUSE_S)
    return False


def _remove_session(home: Home, session_id: str) -> None:
    with open_untrusted(home.sessions) as root:
        root.remove_tree(session_id)
    with open_untrusted(home.run) as root:
        root.remove_tree(str(home.sockets_of(session_id).relative_to(home.run)))
    (home.logs / f"{session_id}.log").unlink(missing_ok=True)


def _clear_media(home: Home, remains: GroupLeftovers) -> int:
    """Media is the host's own: no sandbox reaches it."""
    places = [home.media / "in" / name for name in remains.came]
    places += [home.media / instance / get_file_folder_name(key) for instance, key in remains.sent]
    found = [each for each in places if each.is_dir()]
    for each in found:
        shutil.rmtree(each, ignore_errors=True)
    return len(found)
