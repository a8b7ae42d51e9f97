"""Remains of a group that is removed, and how they are cleared: session folders, sockets, logs and media.

The group's own folder stays, because groups below it live there and what its agent wrote is its people's. So do the
ledger's messages.
"""

import asyncio
import re
import shutil
from contextlib import suppress

from msgspec import Struct

from gatepost.channels.contract import get_file_folder_name
from gatepost.core.errors import GatepostError, Invalid
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.home import Home
from gatepost.store.messages import inbox, outbox
from gatepost.store.port import Db
from gatepost.store.sessions import sessions, worktrees
from gatepost.store.sessions.worktrees import WorktreeState

TRIES, PAUSE_S = 10, 0.1  # a sandbox that was just ended may hold its folder for a moment
_CAME = re.compile(r"in/(f-[0-9a-z]+)/")  # as intake names the folders of attachments


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
