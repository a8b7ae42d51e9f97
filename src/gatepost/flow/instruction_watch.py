"""The watch on instructions: what changed AGENTS.md without the gateway is kept as a version, too.

An agent may write its own file, and so may a shell on the machine. Each minute the files of all groups here are looked
at by their dates, and those that changed are read. A file that changes twice in between is seen once.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress

from msgspec import Struct

from gatepost.access.policy import list_ancestors
from gatepost.core import log
from gatepost.core.clock import HOUR, Clock
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.home import Home
from gatepost.core.process.wake_loop import WakeLoop
from gatepost.flow.gateways.folder_check import find_elsewhere
from gatepost.flow.group_files import AGENTS, read_file
from gatepost.store.port import Db, Store
from gatepost.store.sessions import groups, instructions
from gatepost.store.sessions.instructions import InstructionSource, NewestVersion

LOOK_S = 60.0
MOST_AT_ONCE = 50  # files that one look reads
MORE_S = 1.0  # until the next look, if there were more
FIRST = "gatepost"  # who it was by, of the version that was there when somebody first looked
UNSURE = "agent-or-machine"  # who it was by, where a program of an agent may have run
AFTER_TURNS = HOUR  # programs of an agent may run on for so long
SAVED_WITHIN = 100_000  # microseconds: an editor writes a file, and then puts it in its place

_log = log.get("instructions")


class FileDate(Struct, frozen=True):
    """How a file is known to be unchanged. Its writer can set `changed_ns`, and nobody `inode_changed_ns`."""

    changed_ns: int
    size: int
    inode: int
    inode_changed_ns: int


class FoundText(Struct, frozen=True):
    folder: str
    digest: str
    text: str
    changed_at: int
    inode_changed_at: int

    @property
    def is_dated(self) -> bool:
        """Return True if nobody set the date: that changes the date of the inode, which nobody sets."""
        return 0 <= self.inode_changed_at - self.changed_at <= SAVED_WITHIN


class InstructionWatch:
    def __init__(self, store: Store, home: Home, clock: Clock) -> None:
        self._store, self._home, self._clock = store, home, clock
        self._known: dict[str, FileDate] = {}
        self._looked_at: int | None = None

    async def run(self) -> None:
        await WakeLoop(_log.warning, "instructions could not be looked at", pause_s=LOOK_S).run(self.check)

    async def check(self) -> float | None:
        """Return the seconds to the next look; None: as usual."""
        folders = await self._store.read(list_here, self._home)
        dates = await asyncio.to_thread(list_dates, self._home, folders)
        changed = [each for each, date in dates.items() if self._known.get(each) != date]
        now, before = self._clock.now(), self._looked_at
        some = changed[:MOST_AT_ONCE]
        found = await asyncio.to_thread(read_texts, self._home, some)
        if found:
            await self._store.write(record_found, found, before, now)
        self._known = {each: dates[each] for each in dates if each not in changed} | {
            each: dates[each] for each in some
        }
        if len(changed) > len(some):
            return MORE_S
        self._looked_at = now
        return None


def list_here(db: Db, home: Home) -> list[str]:
    return [each.folder for each in groups.list_all(db) if not find_elsewhere(db, home, each.folder)]


def list_dates(home: Home, folders: Iterable[str]) -> dict[str, FileDate]:
    found: dict[str, FileDate] = {}
    with open_untrusted(home.groups) as root:
        for folder in folders:
            with suppress(Invalid, NotFound):
                seen = root.stat(f"{folder}/{AGENTS}")
                found[folder] = FileDate(seen.st_mtime_ns, seen.st_size, seen.st_ino, seen.st_ctime_ns)
    return found


def read_texts(home: Home, folders: Sequence[str]) -> list[FoundText]:
    """Leave out what is no plain text of a size that a person could have written here."""
    found = []
    for folder in folders:
        with suppress(Invalid, NotFound):
            file = read_file(home, folder, AGENTS)
            with open_untrusted(home.groups) as root:
                seen = root.stat(f"{folder}/{AGENTS}")
            dates = seen.st_mtime_ns // 1000, seen.st_ctime_ns // 1000
            found.append(FoundText(folder, file.version, file.text, *dates))
    return found


def record_found(db: Db, found: Sequence[FoundText], before: int | None, now: int) -> None:
    """Keep what is not the newest version of its group. `before`: when somebody looked last; None: nobody did."""
    known = instructions.list_newest(db, [each.folder for each in found])
    for each in found:
        newest = known.get(each.folder)
        if (newest is None or newest.digest != each.digest) and groups.get(db, each.folder) is not None:
            _record_change(db, each, newest, before, now)


def _record_change(db: Db, found: FoundText, newest: NewestVersion | None, before: int | None, now: int) -> None:
    """Nobody knows who wrote the first version."""
    dated = found.is_dated and found.inode_changed_at <= now
    if newest is None:
        by, at = FIRST, min(found.changed_at, now)
    elif dated:
        by, at = _find_writer(db, found.folder, found.changed_at, found.inode_changed_at), found.inode_changed_at
    elif before is not None:
        by, at = _find_writer(db, found.folder, before, now), now
    else:
        by, at = UNSURE if _may_have_run(db, found.folder, newest.written_at, now) else "", now
    instructions.add(db, found.folder, found.digest, found.text, InstructionSource.FOUND, by, at)


def _find_writer(db: Db, folder: str, since: int, until: int) -> str:
    """Return who changed a file at some moment of that time. Agents of the groups above can write it, too."""
    if instructions.was_at_work(db, [folder], since, until):
        return f"agent:{folder}"
    return UNSURE if _may_have_run(db, folder, since, until) else ""


def _may_have_run(db: Db, folder: str, since: int, until: int) -> bool:
    return instructions.was_at_work(db, [folder, *list_ancestors(folder)], since - AFTER_TURNS, until)
