"""Forgetting a person: everything that the home holds of them is erased, in units that nobody has to wait for.

Order. Files go before the rows that name them, rows before what they are found by, and the person's identities last. So
a run that was cut short is continued by the next one. When the rows are gone, so is what SQLite keeps of them: words in
the search index, free pages, the write-ahead log. The audit keeps its rows, without the person.
"""

import asyncio
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, TypeVar, TypeVarTuple

from gatepost.access.acl import list_valid_rows
from gatepost.core import ids, log
from gatepost.core.clock import Clock
from gatepost.core.errors import GatepostError, Invalid
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.flow.gateways.commands import OtherHomes
from gatepost.flow.groups import OWNER, OWNERS_IDENTITIES
from gatepost.flow.memory.view_file import renew_all
from gatepost.flow.people.person_traces import (
    ROWS,
    WINDOW,
    PersonTraces,
    find_mentions,
    find_traces,
    list_messages,
    list_requests,
)
from gatepost.flow.reports import NOT_LOOKED, ErasureReport
from gatepost.store.gateways import gateways
from gatepost.store.people import person_removal, person_requests, person_rows
from gatepost.store.people.person_scope import PersonScope
from gatepost.store.port import Db, Store
from gatepost.store.rights import acl, audit
from gatepost.store.rights.acl import AclEffect
from gatepost.store.rights.audit import AuditRecord
from gatepost.store.schedule import retention

ACTION = "user.forget"
LANE = "forget"  # of the writer: it takes turns with everybody else
PAUSE_S = 0.005  # between two units: others' writes go first
PORTION = 25  # messages in a unit, which take their rows, steps and words along
ANSWERS = 50
AUDIT_ROWS = 100  # in a unit: their hashes are written down with them
PAGES = 50  # of the file or the search index, at once
TRIES, RETRY_S = 50, 0.1  # for a sandbox that ends
LOG_RETRY_S = 0.5  # for a reader that holds up the log
LOG_IS_READ = "Somebody reads the store, so its write-ahead log could not be emptied: run this again later."

MEMORIES = (
    "What agents wrote themselves (groups/, worktrees/) may tell of them, and so may what others wrote."
    " Backups, the platforms and model providers keep their own copies."
)

FORGOTTEN = "somebody is forgotten who wrote there"

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
KeepAsleep = Callable[[str], AbstractContextManager[bool]]
EndSession = Callable[[str, str], Awaitable[None]]
ForgetSenders = Callable[[tuple[str, ...]], None]


async def _end_nothing(session_id: str, reason: str) -> None:
    return None


class PersonErasure:
    """`asleep` and `end` are the supervisor's, `uncount` is intake's: it counts what strangers write. Without them no
    gateway runs, and the file can be written anew."""

    def __init__(
        self,
        home: Home,
        store: Store,
        clock: Clock,
        asleep: KeepAsleep | None = None,
        end: EndSession = _end_nothing,
        uncount: ForgetSenders = lambda names: None,
    ) -> None:
        self._home, self._store, self._clock, self._end, self._uncount = home, store, clock, end, uncount
        self._asleep = asleep or (lambda _: nullcontext(True))
        self._offline = asleep is None
        self.others: OtherHomes | None = None  # of gateways that share the store
        self._erasing = asyncio.Lock()

    async def describe(self, identity: str) -> ErasureReport:
        """Return what is known of a person. Changes nothing."""
        found = await find_traces(self._store, identity)
        left = await self._list_left(found)
        return _make_report(found, found.counts, left=(*left, NOT_LOOKED) if self.others is not None else left)

    async def erase(self, identity: str, by: str) -> ErasureReport:
        """Erase everything, once nothing of it is under way. `by`: the one who wants it, and is somebody else."""
        async with self._erasing:
            found = await find_traces(self._store, identity)
            self._check(found.scope.names, by)
            await self._check_others()
            await self._check_idle(found)
            async for numbers in self._list_numbers(found):
                await self._write(person_rows.cancel_waiting, numbers, self._clock.now())
            await self._check_idle(found)  # from here on nobody begins to answer what they wrote
            elsewhere = {} if self.others is None else await self.others.erase(identity, self._clock.now())
            return await self._erase(found, by, elsewhere)

    async def erase_files(self, identity: str) -> dict[str, Any]:
        """For another gateway that forgets a person: what lies here. The rows are erased there."""
        try:
            found = await find_traces(self._store, identity)
            counts: Counter[str] = Counter()
            left = await self._clear_files(found, counts)
            counts["log_lines"] = await asyncio.to_thread(log.remove_lines, self._home, found.is_in_line)
            left += await self._list_mentions(found)
        except (GatepostError, OSError) as error:
            return {"counts": {}, "left": [f"its files could not be erased ({error}): run this again"]}
        return {"counts": dict(counts), "left": list(left)}

    async def _check_others(self) -> None:
        """Before anything is erased."""
        if self.others is not None:
            await self.others.list_names(self._clock.now())
        elif self._offline and await self._store.read(gateways.count) > 1:
            raise Invalid("id", "other gateways on this store may have files of theirs; run this while all of them run")

    def _check(self, names: tuple[str, ...], by: str) -> None:
        if {OWNER, *OWNERS_IDENTITIES} & {*names}:
            raise Invalid("id", f"{names[0]} is whoever runs this gateway, who is forgotten with the whole home")
        if by in names:
            raise Invalid("id", f"{by} asks for it themselves; another owner or the command line must do it")

    async def _check_idle(self, found: PersonTraces) -> None:
        sessions = (*found.sessions, *found.room_sessions)
        busy = await self._store.read(person_rows.find_busy, sessions, found.scope.rooms)
        if busy.sessions:
            shown = ", ".join(busy.sessions[:3])
            raise Invalid("id", f"an agent is at work in {shown}; wait, or `gatepost stop {busy.sessions[0]}` first")
        if busy.sending:
            raise Invalid("id", "a message to them is being sent; try again in a moment")
        undone = await self._store.read(person_requests.list_undone, found.scope.names)
        if undone:
            shown = ", ".join(undone[:3])
            raise Invalid("id", f"what they said to {shown} is not carried out yet; let the gateway run, and try again")

    async def _erase(self, found: PersonTraces, by: str, elsewhere: dict[str, dict[str, Any]]) -> ErasureReport:
        stand_in = f"{audit.FORGOTTEN}{ids.token(6)}"
        counts: Counter[str] = Counter()
        left = await self._clear_files(found, counts)
        for gateway, done in elsewhere.items():
            counts["files"] += done["counts"].get("files", 0)
            counts["log_lines"] += done["counts"].get("log_lines", 0)
            left += tuple(f"On gateway {gateway}: {each}" for each in done["left"])
        counts["quotes"] = await self._blank_quotes(found)
        counts["timeline"] = await self._blank_timelines(found)
        self._uncount(found.scope.names)
        newest = await self._erase_audit(found, stand_in, 0, counts)
        await self._remove_messages(found, counts)
        await self._erase_audit(found, stand_in, newest, counts)  # what was written behind
        counts["named"] = await self._replace_names(found.scope)
        counts["log_lines"] += await asyncio.to_thread(log.remove_lines, self._home, found.is_in_line)
        left += await self._list_left(found)
        counts.update(await self._store.read(person_removal.count, found.scope))
        await self._release_space()
        details = {"person": stand_in, **counts}
        record = AuditRecord(self._clock.now(), by, ACTION, "done", details)
        await self._store.write(_remove_person, found.scope, record, lane=LANE)
        await renew_all(self._store, self._home, self._clock)
        if not await self._clean_files():
            left = (LOG_IS_READ, *left)
        return _make_report(found, dict(counts), stand_in=stand_in, rewritten=self._offline, left=left)

    # Files.

    async def _clear_files(self, found: PersonTraces, counts: Counter[str]) -> tuple[str, ...]:
        counts["files"] = await asyncio.to_thread(_remove_media, self._home, sorted(found.media))
        left = []
        for session_id in (*found.sessions, *found.room_sessions):
            if await self._clear_session(session_id):
                counts["conversations"] += 1
            else:
                left.append(f"The sandbox of {session_id} did not end: run this again.")
        return tuple(left)

    async def _clear_session(self, session_id: str) -> bool:
        """Its mailbox, the provider's own files and its log. It starts a new conversation when it wakes."""
        if self.others is not None:
            await self._end(session_id, FORGOTTEN)  # another gateway may run it
        for _ in range(TRIES):
            with self._asleep(session_id) as asleep, suppress(GatepostError, OSError):
                if asleep:
                    await asyncio.to_thread(_remove_session_files, self._home, session_id)
                    await self._store.write(person_rows.reset_session, session_id, lane=session_id)
                    return True
            await self._end(session_id, FORGOTTEN)
            await asyncio.sleep(RETRY_S)
        return False

    # Rows.

    async def _blank_quotes(self, found: PersonTraces) -> int:
        changed, called = 0, found.called | {*found.scope.names}
        for after in range(0, found.through, WINDOW):
            quotes = await self._store.read(person_rows.list_quotes, found.scope, called, after, after + WINDOW)
            for some in _split(quotes, PORTION):
                changed += await self._write(person_rows.blank_quotes, some)
        return changed

    async def _blank_timelines(self, found: PersonTraces) -> int:
        changed = 0
        for session_id in found.sessions:
            after, more = 0, True
            while more:
                seqs, after, more = await self._store.read(
                    person_rows.list_timeline, found.scope, session_id, after, ROWS
                )
                for some in _split(seqs, PORTION):
                    changed += await self._write(person_rows.blank_timeline, session_id, some)
        return changed

    async def _erase_audit(self, found: PersonTraces, stand_in: str, after: int, counts: Counter[str]) -> int:
        """Up to the newest row of now, which is returned: those that are written meanwhile vouch for these."""
        newest = await self._store.read(audit.get_newest)
        more, words, now = True, found.words, self._clock.now()
        while more:
            portion = await self._store.read(person_rows.find_audit_rows, found.scope, words, after, newest, ROWS)
            after, more = portion.after, portion.more
            for own in _split(portion.own, AUDIT_ROWS):
                counts["audit"] += await self._write(
                    person_rows.erase_audit_rows, own, (), stand_in, retention.ACTOR, now
                )
            for others in _split(portion.others, AUDIT_ROWS):
                counts["audit"] += await self._write(person_rows.erase_audit_rows, (), others, "", retention.ACTOR, now)
        return newest

    async def _remove_messages(self, found: PersonTraces, counts: Counter[str]) -> None:
        counts["requests"] += await self._remove_requests(found.scope)
        async for numbers in self._list_numbers(found):
            more = True
            while more:
                done = await self._write(person_rows.remove_messages, numbers, ANSWERS)
                counts["messages"] += done.messages
                counts["answers"] += done.answers
                counts["requests"] += done.requests
                more = done.more
        for session_id in (*found.sessions, *found.room_sessions):
            counts["messages"] += await self._remove_system_messages(session_id)
        for session_id in found.room_sessions:
            while await self._write(person_rows.remove_session, session_id, PORTION):
                continue

    async def _list_numbers(self, found: PersonTraces) -> AsyncIterator[Sequence[int]]:
        async for numbers, _ in list_messages(self._store, found.scope, found.through):
            for some in _split(numbers, PORTION):
                yield some

    async def _remove_requests(self, scope: PersonScope) -> int:
        found = [each async for each in list_requests(self._store, scope)]
        removed = 0
        for some in _split(found, PORTION):
            removed += await self._write(person_requests.remove_requests, some, scope, self._clock.now())
        return removed

    async def _remove_system_messages(self, session_id: str) -> int:
        removed, after, more = 0, 0, True
        while more:
            numbers, after = await self._store.read(person_rows.list_system_messages, session_id, after, ROWS)
            for some in _split(numbers, PORTION):
                removed += await self._write(person_rows.remove_system_messages, some)
            more = bool(after)
        return removed

    async def _replace_names(self, scope: PersonScope) -> int:
        changed = 0
        for where in person_rows.COLUMNS:
            after, more = where.first, True
            while more:
                portion = await self._write(person_rows.replace_names, where, scope.names, after, ROWS)
                changed, after, more = changed + portion.removed, portion.after, portion.more
        return changed

    async def _write(self, fn: Callable[[Db, *Ts], T], *args: *Ts) -> T:
        """One unit. Others' go first."""
        await asyncio.sleep(PAUSE_S)
        return await self._store.write(fn, *args, durable=False, lane=LANE)

    async def _list_left(self, found: PersonTraces) -> tuple[str, ...]:
        """Return what is for others to decide."""
        routes = await self._store.read(person_removal.list_named_routes, found.scope)
        left = []
        if routes:
            left.append(
                f"Routes of others name them: number {', '.join(map(str, routes))}; `gatepost route rm` removes them."
            )
        return (*left, *await self._list_mentions(found), MEMORIES)

    async def _list_mentions(self, found: PersonTraces) -> tuple[str, ...]:
        files, whole = await asyncio.to_thread(find_mentions, self._home, found.plain_words)
        left = []
        if files:
            left.append(f"Files of agents name them: {', '.join(files)}{'' if whole else ' …'}")
        if not whole:
            left.append("Not every file of the agents was looked at: there are too many, or some are too large.")
        return tuple(left)

    # What the rows leave behind.

    async def _release_space(self) -> None:
        first, more = True, True
        while more:
            more = await self._write(_merge, PAGES, first)
            first = False
        while await self._write(retention.release_pages, PAGES):
            continue

    async def _clean_files(self) -> bool:
        """False: somebody reads what the write-ahead log holds, so it is still there."""
        if self._offline:
            await asyncio.to_thread(self._store.rewrite_files)
        while await self._write(retention.release_pages, PAGES):
            continue
        for _ in range(TRIES):
            if await asyncio.to_thread(self._store.truncate_log):
                return True
            await asyncio.sleep(LOG_RETRY_S)
        return False


def _merge(db: Db, pages: int, first: bool) -> bool:
    return person_rows.merge_search_index(db, pages, first=first)


def _remove_person(db: Db, scope: PersonScope, record: AuditRecord) -> None:
    """Remove the person, which is the last unit: from here on nobody knows who it was. A denial that they gave goes on
    in the operator's name, or somebody whom they blocked would be let in. Their permissions end with them."""
    rows = list_valid_rows(acl.list_rows(db), acl.list_members(db))
    for row in rows:
        if row.granted_by in scope.names and row.effect is AclEffect.DENY and row.principal not in scope.names:
            acl.put(db, replace(row, granted_by=acl.OPERATOR), row.granted_at)
    person_removal.remove(db, scope)
    person_rows.remove_statistics(db)
    audit.append(db, record)


def _remove_media(home: Home, folders: list[str]) -> int:
    """The media folder is the daemon's own: no sandbox can reach it."""
    found = [home.media / each for each in folders if (home.media / each).is_dir()]
    for each in found:
        shutil.rmtree(each)
    return len(found)


def _remove_session_files(home: Home, session_id: str) -> None:
    with open_untrusted(home.sessions) as root:
        root.remove_tree(session_id)
    (home.logs / f"{session_id}.log").unlink(missing_ok=True)


def _split(values: Sequence[T], most: int) -> list[Sequence[T]]:
    return [values[start : start + most] for start in range(0, len(values), most)]


def _make_report(
    found: PersonTraces,
    counts: dict[str, int],
    *,
    stand_in: str = "",
    rewritten: bool = False,
    left: tuple[str, ...] = (),
) -> ErasureReport:
    return ErasureReport(
        person=found.scope.names[0],
        identities=found.scope.names,
        erased=bool(stand_in),
        counts={what: number for what, number in counts.items() if number},
        stand_in=stand_in,
        rewritten=rewritten,
        left=left,
    )
