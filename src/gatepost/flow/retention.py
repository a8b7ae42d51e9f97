"""Retention: rows and files over their age are removed, in portions that nobody has to wait for.

Each kind has its own setting in days; 0 keeps it for ever. Rows go in small units of the store with a pause between
two; files go off the loop, so many at a time. Rows and files that an open row needs stay. Files of sessions are removed
through `core/files/untrusted_files.py`, and only while nothing of the session runs.
"""

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from gatepost.core import log
from gatepost.core.clock import DAY, SECOND, Clock
from gatepost.core.errors import GatepostError
from gatepost.core.files.untrusted_files import REMOVED, open_untrusted
from gatepost.core.home import Home
from gatepost.core.process.wake_loop import WakeLoop
from gatepost.core.settings import Config, Setting, setting
from gatepost.store.money.budgets import BudgetScopeKind
from gatepost.store.port import Db, Store
from gatepost.store.rooms import engagements
from gatepost.store.schedule import retention
from gatepost.store.schedule.retention import DormantSession, RemovalBatch, RetentionCounts
from gatepost.store.sessions import skills

C = TypeVar("C", int, str)

MESSAGES = setting(
    "keep.messages_days",
    0,
    help="Remove messages, with all that tells of them, after this many days; 0: never.",
)
STEPS = setting(
    "keep.steps_days",
    30,
    help="Remove the steps that `gatepost trace` shows after this many days; 0: never.",
)
TURNS = setting("keep.turns_days", 0, help="Remove ended turns after this many days; 0: never.")
TIMELINE = setting(
    "keep.timeline_days",
    0,
    help="Remove what agents did, as their timelines show it, after this many days; 0: never.",
)
COSTS = setting(
    "keep.costs_days",
    0,
    help="Remove single bookings after this many days, of which the sums of days and months stay; 0: never.",
)
AUDIT = setting(
    "keep.audit_days",
    0,
    help="Remove the oldest rows of the audit chain, and uses of secrets, after this many days; 0: never.",
)
MEDIA = setting(
    "keep.media_days",
    30,
    help="Remove files that came with messages or were sent after this many days; 0: never.",
)
SESSIONS = setting(
    "keep.sessions_days",
    30,
    help="Remove the folder of a closed session, and the mailbox of an unused one, after this many days; 0: never.",
)
REFUSED = setting(
    "people.keep_refused_days",
    30,
    help="Remove what somebody wrote who may not speak here after this many days, not that they did; 0: never.",
)

ROWS: dict[str, Setting[int]] = {
    "messages": MESSAGES,
    "steps": STEPS,
    "turns": TURNS,
    "timeline": TIMELINE,
    "costs": COSTS,
    "audit": AUDIT,
    "refused": REFUSED,
}
LANE = "retention"  # of the writer: it takes turns with everybody else
FIRST_S, EVERY_S = 300.0, 6 * 3600.0  # after the start, and between two sweeps
PAUSE_S = 0.02  # between two portions: others' writes go first
PORTION, TURNS_PORTION, MESSAGES_PORTION = 200, 50, 25  # rows; a message takes its rows, steps and words with it
WINDOW = 2000  # messages that one read looks through
PAGES = 50  # of the file, given back at once; of the search index, merged at once
MERGES = 20  # in one sweep
FILES = 50  # removed in one go, off the loop
MOST_FOLDERS = 1_000_000
LEAST_COSTS = 62  # days: what a running month is judged by stays

KeepAsleep = Callable[
    [str], AbstractContextManager[bool]
]  # nothing of a session is woken meanwhile; False: it is awake

_log = log.get("retention")


class _FileReference(msgspec.Struct):
    path: str = ""


class _FileReferences(msgspec.Struct):
    """Words of a message or an effect about its files."""

    attachments: list[_FileReference] = []
    files: list[_FileReference] = []


_read_named = msgspec.json.Decoder(_FileReferences).decode


class Retention:
    def __init__(
        self, home: Home, store: Store, clock: Clock, config: Config, asleep: KeepAsleep = lambda _: nullcontext(True)
    ) -> None:
        self._home, self._store, self._clock, self._config, self._asleep = home, store, clock, config, asleep
        self._sweeping = asyncio.Lock()
        self._seen = 0  # the message up to which texts of refused strangers were removed since the start

    async def run(self) -> None:
        """Until cancelled."""
        await self._repeat(self.sweep)

    async def run_beside(self, sweeps_all: Callable[[], bool]) -> None:
        """Until cancelled, on each of several gateways: one sweeps the rows of all of them, but files lie where they
        came. `sweeps_all`: whether it is this one, which then does both."""

        async def sweep() -> None:
            if not sweeps_all():
                await self.sweep_files()

        await self._repeat(sweep)

    async def _repeat(self, sweep: Callable[[], Awaitable[object]]) -> None:
        async def work() -> None:
            await sweep()

        # A full disk, or a store that is away: the next round does it.
        failure, errors = "what is over age could not be removed", (GatepostError, OSError)
        await WakeLoop(_log.warning, failure, pause_s=EVERY_S, errors=errors).run(work, first_s=FIRST_S)

    async def sweep(self) -> RetentionCounts:
        """Remove all that is over age now. Rows first: what they needed is free then."""
        async with self._sweeping:
            done = RetentionCounts(
                messages=await self._rows(MESSAGES, retention.remove_messages, 0, MESSAGES_PORTION),
                steps=await self._rows(STEPS, retention.remove_steps, 0),
                turns=await self._rows(TURNS, retention.remove_turns, "", TURNS_PORTION),
                timeline=await self._rows(TIMELINE, retention.remove_timeline, ""),
                costs=await self._rows(COSTS, retention.remove_costs, 0),
                audit=await self._audit(),
                refused=await self._refused(),
                media=await self._media(),
                sessions=await self._sessions(),
            )
            await self._rows(MESSAGES, retention.remove_requests, "")
            await self._rows(SESSIONS, retention.remove_isolated_sessions, "", TURNS_PORTION)
            for kind, kept in ((BudgetScopeKind.TURN, TURNS), (BudgetScopeKind.SESSION, SESSIONS)):
                await self._rows(kept, partial(retention.remove_spending, kind=kind), "")
            await self._rows(TURNS, retention.remove_firings, 0)
            await self._rows(TURNS, retention.remove_tasks, "")
            await self._engagements()
            kept_since = self._clock.now() - skills.KEPT
            await self._store.write(skills.sweep_contents, kept_since, durable=False, lane=LANE)
            await self._shrink(searched=bool(done.messages or done.refused))
        return _log_counts(done)

    async def sweep_files(self) -> RetentionCounts:
        """Return what is over age on this machine's disk."""
        async with self._sweeping:
            return _log_counts(RetentionCounts(media=await self._media(), sessions=await self._sessions()))

    def before(self, wanted: Setting[int]) -> int | None:
        """Return the moment before which rows and files are removed; None if all are kept."""
        days = self._config[wanted]
        if wanted is COSTS and days:
            days = max(days, LEAST_COSTS)
        return self._clock.now() - days * DAY if days else None

    async def _rows(
        self, wanted: Setting[int], remove: Callable[[Db, C, int, int], RemovalBatch[C]], start: C, most: int = PORTION
    ) -> int:
        before, after, removed = self.before(wanted), start, 0
        while before is not None:
            portion = await self._store.write(remove, after, before, most, durable=False, lane=LANE)
            removed, after = removed + portion.removed, portion.after
            if not portion.more:
                break
            await asyncio.sleep(PAUSE_S)
        return removed

    async def _refused(self) -> int:
        """Found by reading: most of what is old was somebody's who may speak, and stays."""
        before, removed, more = self.before(REFUSED), 0, True
        while before is not None and more:
            found = await self._store.read(retention.find_refused_texts, self._seen, before, WINDOW)
            for start in range(0, len(found.messages), MESSAGES_PORTION):
                some = found.messages[start : start + MESSAGES_PORTION]
                removed += await self._store.write(retention.remove_refused_texts, some, durable=False, lane=LANE)
                await asyncio.sleep(PAUSE_S)
            self._seen, more = found.after, found.more
        return removed + await self._rows(REFUSED, retention.remove_refused_requests, "", TURNS_PORTION)

    async def _audit(self) -> int:
        before, removed = self.before(AUDIT), 0
        if before is None:
            return 0
        await self._rows(AUDIT, retention.remove_secret_uses, 0)
        await self._store.write(retention.truncate_audit, before, self._clock.now(), lane=LANE)
        while True:
            portion = await self._store.write(retention.remove_truncated, 0, PORTION, durable=False, lane=LANE)
            removed += portion.removed
            if not portion.more:
                return removed
            await asyncio.sleep(PAUSE_S)

    async def _engagements(self) -> None:
        """Those that ended long ago, whatever is kept: nothing asks for them any more."""
        while await self._store.write(engagements.remove_over, self._clock.now(), durable=False, lane=LANE):  # noqa: ASYNC110  a pause, no wait
            await asyncio.sleep(PAUSE_S)

    async def _shrink(self, *, searched: bool) -> None:
        for _ in range(MERGES if searched else 0):
            await self._store.write(retention.merge_search_index, PAGES, durable=False, lane=LANE)
            await asyncio.sleep(PAUSE_S)
        while await self._store.write(retention.release_pages, PAGES, durable=False, lane=LANE):  # noqa: ASYNC110  a pause, no wait
            await asyncio.sleep(PAUSE_S)

    async def _media(self) -> int:
        """Folders and files below `media/<kind>/` that were last changed before the moment and that no open row names.
        A file is on the disk before the row that names it, so it is young while that is on its way."""
        before = self.before(MEDIA)
        if before is None:
            return 0
        used = _list_used_files(await self._store.read(retention.list_files_in_use), self._home.media)
        old, removed = _old_media(self._home.media, before / SECOND, used), 0
        while found := await asyncio.to_thread(_remove_some, old):
            removed += found
            await asyncio.sleep(PAUSE_S)
        return removed

    async def _sessions(self) -> int:
        before, after, removed = self.before(SESSIONS), "", 0
        while before is not None:
            dormant, after = await self._store.read(retention.list_dormant_sessions, after, before, PORTION)
            for each in dormant:
                removed += await self._remove_session_files(each, before)
            if not after:
                removed += await self._unknown(before)
                break
        return removed

    async def _remove_session_files(self, session: DormantSession, before: int) -> int:
        """The folder of a closed one; of one that may go on, what is made anew when it wakes."""
        with self._asleep(session.id) as asleep:
            if not asleep or not await self._store.read(retention.is_dormant, session.id, before):
                return 0
            if session.closed:
                return await asyncio.to_thread(_remove_trees, self._home.sessions, [session.id])
            mailbox = [f"{session.id}/in", f"{session.id}/out"]
            return await asyncio.to_thread(_remove_trees, self._home.mailboxes, mailbox)

    async def _unknown(self, before: int) -> int:
        """Folders of sessions whose group was removed, and what is left of removals that a kill cut short."""
        names = await asyncio.to_thread(_old_folders, self._home.sessions, before / SECOND)
        unknown = await self._store.read(retention.list_unknown_sessions, names)
        removed = await asyncio.to_thread(_remove_trees, self._home.sessions, unknown)
        left = await asyncio.to_thread(_old_folders, self._home.groups, before / SECOND, sessions=False)
        return removed + await asyncio.to_thread(_remove_trees, self._home.groups, left)


def _log_counts(done: RetentionCounts) -> RetentionCounts:
    if done != RetentionCounts():
        _log.info("removed what was over age", **_as_dict(done))
    return done


def _as_dict(done: RetentionCounts) -> dict[str, Any]:
    return {name: getattr(done, name) for name in RetentionCounts.__struct_fields__ if getattr(done, name)}


def _list_used_files(stored: list[str], media: Path) -> set[str]:
    """`kind/name` of everything below `media` that these rows name."""
    found: set[str] = set()
    for text in stored:
        with suppress(msgspec.MsgspecError):
            named = _read_named(text)
            for each in (*named.attachments, *named.files):
                path = Path(each.path)
                relative = path.relative_to(media) if path.is_relative_to(media) else path
                found.add("/".join(relative.parts[:2]))
    return found


def _old_media(media: Path, before: float, used: set[str]) -> Iterator[Path]:
    for kind in sorted(each for each in media.iterdir() if each.is_dir() and not each.is_symlink()):
        with os.scandir(kind) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    young = entry.stat(follow_symlinks=False).st_mtime >= before
                    if not young and f"{kind.name}/{entry.name}" not in used:
                        yield Path(entry.path)


def _remove_some(old: Iterator[Path]) -> int:
    """The next few. The media folder is the daemon's own: no sandbox can reach it."""
    count = 0
    for path in islice(old, FILES):
        with suppress(FileNotFoundError):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        count += 1
    return count


def _remove_trees(folder: Path, names: list[str]) -> int:
    """How many of them were there."""
    count = 0
    with suppress(GatepostError), open_untrusted(folder) as root:
        for name in names:
            if root.exists(name):
                with suppress(GatepostError, OSError):
                    root.remove_tree(name)
                    count += 1
    return count


def _old_folders(folder: Path, before: float, *, sessions: bool = True) -> list[str]:
    """The host alone makes names here, so their number is that of its sessions or groups."""
    with suppress(GatepostError), open_untrusted(folder) as root:
        names = root.list(most=MOST_FOLDERS)
        ours = [each for each in names if _is_rest(each) or (sessions and each.startswith("s-"))]
        return [name for name in ours if root.stat(name).st_mtime < before]
    return []


def _is_rest(name: str) -> bool:
    """Return True for the name of a tree whose removal was cut short."""
    return name.startswith(".") and name.endswith(REMOVED)
