"""Forks that people asked for in a chat: made behind their message, and answered there.

The wish is a row that is committed with its message, and removed in the transaction that writes the answer. A gateway
that was killed meanwhile goes on with it: the fork is made once, and its answer is given once.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from msgspec import Struct

from gatepost.core import log
from gatepost.core.clock import Clock
from gatepost.core.errors import GatepostError, Invalid, NotFound
from gatepost.core.event_bus import EventBus
from gatepost.core.process.wake_loop import WakeLoop
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, add_outgoing_message
from gatepost.flow.intake.target_decision import parse_address
from gatepost.flow.sessions.forking import TOPIC_EXISTS, ForkRequest, SessionForker
from gatepost.store.messages import messages
from gatepost.store.messages.messages import Message
from gatepost.store.messages.outbox import EffectOrigin
from gatepost.store.port import Db, Store
from gatepost.store.rights import audit
from gatepost.store.sessions import forks
from gatepost.store.sessions.forks import ForkedSession, ForkMethod

DONE = {
    ForkMethod.COPIED: "Forked. What is said in the topic {} goes on from here.",
    ForkMethod.TRANSCRIPT: "Forked. The agent in the topic {} is told what was said here.",
}
SPEAK_THERE = " Write `#{} …` to speak there."
FAILED = "This conversation was not forked: {}."
BROKEN = "the gateway had a problem of its own, which its log describes"
BROKE_OFF = "the gateway broke off each time that it tried"
ACTION = "session.fork"
MOST_TRIES = 5  # a fork that ends the gateway each time must not do so for ever
AT_ONCE = 20  # one of a group
AGAIN_S = 1.0  # after a store that was away

T = TypeVar("T")
_log = log.get("intake")


class ChatFork(Struct, frozen=True):
    """One that is being made, and the message that asks for it."""

    message: Message
    request: ForkRequest


class ChatForks:
    def __init__(
        self, store: Store, clock: Clock, channels: ChannelInstances, events: EventBus, forker: SessionForker
    ) -> None:
        self._store, self._clock, self._channels, self._events, self._forker = store, clock, channels, events, forker
        self._running: set[int] = set()
        self._loop = WakeLoop(_log.warning, "forks wait for the store", retry_s=AGAIN_S)

    def ring(self) -> None:
        """Begin with a fork that somebody asked for, once that is committed. Nobody waits for the copy."""
        self._loop.wake()

    async def run(self) -> None:
        """Make forks until cancelled. Those that an earlier gateway left open come first."""
        async with asyncio.TaskGroup() as tasks:
            await self._loop.run(partial(self._start_wanted, tasks))

    async def _start_wanted(self, tasks: asyncio.TaskGroup) -> None:
        for message_id in await self._store.read(forks.list_wanted, AT_ONCE):
            if message_id not in self._running:
                self._running.add(message_id)
                tasks.create_task(self._answer(message_id))

    async def _answer(self, message_id: int) -> None:
        try:
            wanted = await self._store.write(self._begin, message_id)
            if wanted is not None:
                await self._fork(wanted)
                self._events.room(wanted.message.instance, wanted.message.address)
        except GatepostError as error:
            _log.warning("a fork waits for the store", message=message_id, why=str(error))
            await asyncio.sleep(AGAIN_S)
        finally:
            self._running.discard(message_id)
            self._loop.wake()

    def _begin(self, db: Db, message_id: int) -> ChatFork | None:
        wanted, message = forks.begin_wanted(db, message_id), messages.get(db, message_id)
        if wanted is None or message is None:
            return None
        request = ForkRequest(
            parent_id=wanted.parent_id,
            topic=wanted.topic,
            room=(message.instance, message.address),
            by=message.sender,
        )
        if wanted.tries > MOST_TRIES:
            self._end(db, message, FAILED.format(BROKE_OFF))
            return None
        return ChatFork(message, request)

    async def _fork(self, wanted: ChatFork) -> None:
        async def write(fn: Callable[[Db], T]) -> T:
            return await self._store.write(self._record, fn, wanted)

        try:
            await self._forker.fork(wanted.request, write)
        except GatepostError as error:
            why = str(error.why if isinstance(error, Invalid) else error).removeprefix(f"{TOPIC_EXISTS}: ")
        except Exception:  # noqa: BLE001  a mistake of ours must not pass in silence
            _log.exception("a conversation could not be forked", session=wanted.request.parent_id)
            why = BROKEN
        else:
            return
        await self._store.write(self._end, wanted.message, FAILED.format(why))

    def _record(self, db: Db, fn: Callable[[Db], T], wanted: ChatFork) -> T:
        made = fn(db)
        assert isinstance(made, ForkedSession)
        if not self._end(db, wanted.message, _render_done(made)):
            raise NotFound("message", str(wanted.message.id), "it was removed meanwhile")
        details = {"session": made.session_id, "parent": made.parent_id, "folder": made.folder, "how": made.how}
        audit.append(db, audit.AuditRecord(self._clock.now(), wanted.request.by, ACTION, "done", details))
        return made

    def _end(self, db: Db, message: Message, text: str) -> bool:
        """Return False if it has its answer, or if nobody is left who asked."""
        if not forks.remove_wanted(db, message.id):
            return False
        notice = OutgoingMessage(
            key=f"notice:{message.id}",
            origin=EffectOrigin.NOTICE,
            instance=message.instance,
            address=message.address,
            thread=message.thread,
            text=text,
            reply_to_id=message.id,
        )
        add_outgoing_message(db, self._channels, notice, self._clock.now())
        return True


def _render_done(made: ForkedSession) -> str:
    """Return the answer to a fork. A topic with blanks cannot be named in a text: only a thread of the platform leads
    there."""
    named = parse_address(f"#{made.topic}")
    way = SPEAK_THERE.format(made.topic) if named is not None and named.topic == made.topic else ""
    return DONE[made.how].format(made.topic) + way
