"""Forks: a new session that goes on with what another one knows, while that one goes on as if nothing had happened.

The provider's own files are copied at once, from one session's folder to another's. The new session's row comes last,
in one transaction with all that belongs to it. So a gateway that is killed meanwhile leaves a whole session, or a
folder that nobody knows and that retention removes. Without a conversation to copy, the transcript takes its place.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TypeVar
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct

from gatepost.core import ids, log
from gatepost.core.clock import HOUR, Clock
from gatepost.core.errors import GatepostError, Invalid, NotFound, Refused, Unavailable
from gatepost.core.files.untrusted_copies import TreeLimits, TreeTooLarge, copy_settled_tree
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.home import Home
from gatepost.core.process.thread_pools import FairThreadPool
from gatepost.core.settings import Config, setting
from gatepost.flow.gateways.folder_check import check_here
from gatepost.flow.sessions.sandbox.effective_group import load_effective_group
from gatepost.store.messages import inbox
from gatepost.store.port import Db, LockKind, Store
from gatepost.store.sessions import agents, forks, provider_handover, session_files, sessions, turns
from gatepost.store.sessions.agents import NewAgent
from gatepost.store.sessions.forks import Fork, ForkedSession, ForkMethod
from gatepost.store.sessions.sessions import SESSIONS, HistoryLine, Session, SessionMode, SessionNotes
from gatepost.tools.call import ToolCall, run_to_completion

if TYPE_CHECKING:
    from gatepost.store.sessions.groups import Group

MOST_FORKS = setting("sessions.max_forks", 20, help="How many forked conversations a group may have at once; 0: none.")
FORKS_MB = setting(
    "sessions.forks_mb",
    1024,
    help="What the copies of a group's forked conversations may take on the disk together, in MiB.",
)
MOST_LATELY = 60  # forks of one group in an hour
MOST_FILES = 20_000  # of one copied conversation
LONGEST_TOPIC = 128
MIB = 1 << 20
TOPIC_EXISTS = "topic_exists"
CLOSE_SOME = "close one with `gatepost session close ID`, or fork onto an old topic with force"
BUSY = "an agent is at work there, or has messages waiting; try again when they are answered"

_log = log.get("sessions")

T = TypeVar("T")
EndSession = Callable[[str, str], Awaitable[None]]


class ForkWriter(Protocol):
    """Runs a unit, with the record of who asked for it."""

    async def __call__(self, fn: Callable[[Db], T]) -> T: ...


class ForkRequest(Struct, frozen=True, kw_only=True):
    """`topic`: the new session's thread, in the parent's room or in `room`; None: a managed agent of its own.
    `force`: in the place of a session that is there."""

    parent_id: str
    topic: str | None
    force: bool = False
    room: tuple[str, str] | None = None  # (instance, address)
    title: str = ""
    by: str = ""


class ForkSource(Struct, frozen=True):
    """Facts of the parent, as it was when the fork was asked for."""

    session: Session
    group: "Group"
    conversation: str  # '': the provider has none that holds all that was said
    lines: list[HistoryLine]
    notes: SessionNotes
    bytes_left: int


def parse_topic(text: str) -> str:
    topic = text.strip()
    if not topic or len(topic) > LONGEST_TOPIC or not topic.isprintable():
        raise Invalid("child", f"a topic has 1 to {LONGEST_TOPIC} printable characters")
    return topic


class SessionForker:
    """`end`: nothing of a session runs any more when it returns."""

    def __init__(
        self, home: Home, store: Store, clock: Clock, config: Config, threads: FairThreadPool, end: EndSession
    ) -> None:
        self._home, self._store, self._clock, self._config = home, store, clock, config
        self._threads, self._end = threads, end
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by group

    async def fork(self, wish: ForkRequest, write: ForkWriter) -> ForkedSession:
        """The person who asked may be gone before it is done: it is done or undone all the same."""
        return await run_to_completion(self._fork(wish, write))

    async def fork_topic(self, call: ToolCall, parent_id: str, topic: str, *, force: bool) -> ForkedSession:
        """For an agent, in the room that it works in."""
        room = (call.turn.instance, call.turn.address) if call.turn is not None else None
        by = call.caller.folder
        wish = ForkRequest(parent_id=parent_id, topic=parse_topic(topic), force=force, room=room, by=by)
        return await self.fork(wish, call.write)

    async def copy_session(self, call: ToolCall, parent_id: str, title: str) -> ForkedSession:
        wish = ForkRequest(parent_id=parent_id, topic=None, title=title, by=call.caller.folder)
        return await self.fork(wish, call.write)

    async def _fork(self, wish: ForkRequest, write: ForkWriter) -> ForkedSession:
        folder = (await self._store.read(_get_parent, wish.parent_id)).folder
        await check_here(self._store, self._home, folder)
        lock = self._locks.setdefault(folder, asyncio.Lock())
        async with lock:  # one at a time of a group: what is left of its disk is known
            source = await self._store.read(self._check, wish)
            child_id, done = ids.new("s"), False
            try:
                size = await self._copy(source, child_id)
                made = await write(lambda db: self._record(db, wish, source, child_id, size))
                done = True
            finally:
                if not done:
                    await self._remove(child_id, "")
        if made.replaced:
            await self._end(made.replaced, "another conversation took its place")
            await self._remove(made.replaced, "/state")
        return made

    # Judging it.

    def _check(self, db: Db, wish: ForkRequest) -> ForkSource:
        """Everything that can be refused before something is copied. It is judged again when it is written."""
        parent = _get_parent(db, wish.parent_id)
        left = self._check_quota(db, parent, wish)
        self._check_place(db, parent, wish)
        group = load_effective_group(db, self._config, parent.folder, parent.provider)
        if group is None:
            raise NotFound("group", parent.folder, "it was removed")
        whole = not provider_handover.is_away(db, parent.id, group.provider)
        notes = sessions.get_notes(db, parent.id)
        return ForkSource(
            session=parent,
            group=group,
            conversation=sessions.get_conversation(db, parent.id, group.provider) if whole else "",
            lines=provider_handover.keep_newest(
                [*notes.lines, *provider_handover.list_session_messages(db, parent.id)]
            ),
            notes=notes,
            bytes_left=left,
        )

    def _check_quota(self, db: Db, parent: Session, wish: ForkRequest) -> int:
        """How many bytes a further fork of this group may take."""
        db.lock(LockKind.QUOTA, "forks", parent.folder)
        used = forks.get_usage(db, parent.folder, self._clock.now() - HOUR)
        most, mib = self._config[MOST_FORKS], self._config[FORKS_MB]
        left = mib * MIB - used.bytes
        why = ""
        if used.lately >= MOST_LATELY:
            why = f"{used.lately} conversations of this group were forked within an hour, and {MOST_LATELY} are allowed"
        elif used.open >= most and not (wish.force and used.open == most and self._find_existing(db, parent, wish)):
            why = f"this group has {used.open} forked conversations, and {most} are allowed; {CLOSE_SOME}"
        elif left <= 0:
            why = f"the forked conversations of this group take {mib} MiB, which is all they may; {CLOSE_SOME}"
        if why:
            raise Refused(wish.by, "fork a conversation", parent.folder, why)
        return left

    def _find_existing(self, db: Db, parent: Session, wish: ForkRequest) -> Session | None:
        if wish.topic is None:
            return None
        return sessions.find_by_key(db, _key_of(parent, wish, wish.topic))

    def _check_place(self, db: Db, parent: Session, wish: ForkRequest) -> Session | None:
        """The session that the new one takes the place of."""
        if wish.topic is not None and parent.agent:
            raise Invalid("id", f"{parent.id} is a managed agent, whose room has no topics; copy it instead")
        existing = self._find_existing(db, parent, wish)
        if existing is None:
            return None
        if not wish.force:
            raise Invalid("child", f"{TOPIC_EXISTS}: there is a conversation {wish.topic!r}; choose another topic")
        if existing.id == parent.id:
            raise Invalid("child", "a conversation cannot take its own place; choose another topic")
        if turns.find_open(db, existing.id) is not None or inbox.has_open(db, existing.id):
            raise Refused(wish.by, "replace a conversation", wish.topic or "", BUSY)
        return existing

    # Files.

    async def _copy(self, source: ForkSource, child_id: str) -> int | None:
        """How large the copy is; None: there is none."""
        if not source.conversation:
            return None
        limits = TreeLimits(source.bytes_left, MOST_FILES)
        given = (self._home, source.session.id, source.group.provider, child_id, limits)
        folder = source.session.folder
        try:
            return await self._threads.run(f"fork {folder}", copy_state, *given)
        except TreeTooLarge as error:
            why = f"the files of its conversation are too many for what forks of this group may take: {error.why}"
            raise Refused(folder, "fork a conversation", source.session.id, f"{why}; {CLOSE_SOME}") from None
        except Invalid as error:  # of another user, by the ways of some container engines
            _log.warning("a conversation cannot be copied", session=source.session.id, error=str(error))
            return None
        except OSError as error:
            raise Unavailable("a fork", error.strerror or str(error)) from None

    async def _remove(self, session_id: str, part: str) -> None:
        """Files that cannot be removed now are left to retention."""
        with suppress(GatepostError, OSError):
            await self._threads.run(f"fork {session_id}", remove_files, self._home, f"{session_id}{part}")

    # Rows.

    def _record(self, db: Db, wish: ForkRequest, source: ForkSource, child_id: str, size: int | None) -> ForkedSession:
        now = self._clock.now()
        parent = _get_parent(db, wish.parent_id)
        self._check_quota(db, parent, wish)
        existing = self._check_place(db, parent, wish)
        if existing is not None:
            sessions.close(db, existing.id, now)
        how = ForkMethod.TRANSCRIPT if size is None else ForkMethod.COPIED
        child = _add_child(db, wish, source, child_id, now)
        conversation = source.conversation if size is not None else ""
        sessions.set_conversation(db, child.id, source.group.provider, conversation, now)
        lines = msgspec.json.encode(source.lines).decode() if source.lines else ""
        notes = source.notes
        session_files.inherit(db, parent.id, child.id)
        sessions.add_notes(db, SessionNotes(child.id, notes.pinned, notes.pinned_by, notes.summary, lines))
        forks.add(
            db,
            Fork(
                child_id=child.id,
                parent_id=parent.id,
                folder=parent.folder,
                provider=source.group.provider,
                conversation=conversation,
                how=how,
                bytes=size or 0,
                created_at=now,
            ),
        )
        return ForkedSession(
            session_id=child.id,
            parent_id=parent.id,
            folder=parent.folder,
            parent_topic=parent.thread,
            topic=child.thread,
            how=how,
            replaced=existing.id if existing is not None else "",
        )


def _get_parent(db: Db, session_id: str) -> Session:
    found = sessions.get(db, session_id)
    if found is None or found.closed_at is not None:
        raise NotFound("live session", session_id, "`gatepost session list` shows them")
    return found


def _place_of(parent: Session, wish: ForkRequest) -> tuple[str, str]:
    return wish.room or (parent.instance, parent.address)


def _key_of(parent: Session, wish: ForkRequest, topic: str) -> str:
    return sessions.key_of(SessionMode.PER_THREAD, parent.folder, *_place_of(parent, wish), topic)


def _add_child(db: Db, wish: ForkRequest, source: ForkSource, child_id: str, now: int) -> Session:
    """With the parent's own provider, model and mode: it must not be freer than its parent."""
    parent = source.session
    if wish.topic is None:
        new = NewAgent(
            folder=parent.folder,
            provider=source.group.provider,
            title=wish.title or parent.title,
            model=parent.model,
            permission_mode=parent.permission_mode,
            cwd=parent.cwd,
        )
        return agents.create(db, new, now, child_id)
    instance, address = _place_of(parent, wish)
    return SESSIONS.put(
        db,
        id=child_id,
        key=_key_of(parent, wish, wish.topic),
        folder=parent.folder,
        mode=SessionMode.PER_THREAD,
        instance=instance,
        address=address,
        thread=wish.topic,
        provider=parent.provider,
        title=wish.title,
        window_messages=parent.window_messages,
        window_chars=parent.window_chars,
        model=parent.model,
        permission_mode=parent.permission_mode,
        cwd=parent.cwd,
        created_at=now,
        active_at=now,
    )


def copy_state(home: Home, parent_id: str, provider: str, child_id: str, limits: TreeLimits) -> int | None:
    """A provider's own files, to a session that has none. Waking it gives them to whoever runs there."""
    with open_untrusted(home.sessions) as root:
        root.make_dir(f"{child_id}/state", 0o700)
    return copy_settled_tree(home.session(parent_id), home.session(child_id), limits, f"state/{provider}")


def remove_files(home: Home, relative: str) -> None:
    with open_untrusted(home.sessions) as root:
        root.remove_tree(relative)
