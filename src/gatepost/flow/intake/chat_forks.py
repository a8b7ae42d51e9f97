"""Forks that people asked for in a chat: made behind their message, and answered there."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from gatepost.core import log
from gatepost.core.clock import Clock
from gatepost.core.errors import GatepostError, Invalid, Unavailable
from gatepost.core.event_bus import EventBus
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, add_outgoing_message
from gatepost.flow.intake.accepted_message import Arrival
from gatepost.flow.sessions.forking import ForkRequest, SessionForker
from gatepost.store import audit
from gatepost.store.forks import ForkedSession, ForkMethod
from gatepost.store.outbox import EffectOrigin
from gatepost.store.port import Db, Store

DONE = {
    ForkMethod.COPIED: "Forked. What is said in the topic {} goes on from here.",
    ForkMethod.TRANSCRIPT: "Forked. The agent in the topic {} is told what was said here.",
}
ACTION = "session.fork"

T = TypeVar("T")
_log = log.get("intake")


class ChatForks:
    def __init__(
        self, store: Store, clock: Clock, reach: ChannelInstances, bells: EventBus, forker: SessionForker | None
    ) -> None:
        """`forker`: None where no agent runs."""
        self._store, self._clock, self._reach, self._bells, self._forker = store, clock, reach, bells, forker
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, arrival: Arrival, message_id: int, wish: ForkRequest) -> None:
        """Nobody waits for the copy."""
        task = asyncio.create_task(self._fork(arrival, message_id, wish))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _fork(self, arrival: Arrival, message_id: int, wish: ForkRequest) -> None:
        answer = ""

        async def write(fn: Callable[[Db], T]) -> T:
            return await self._store.write(self._with_answer, fn, arrival, message_id, wish)

        try:
            if self._forker is None:
                raise Unavailable("a fork", "no agent runs here")
            await self._forker.fork(wish, write)
        except GatepostError as error:
            why = error.why if isinstance(error, Invalid) else error
            answer = f"This conversation was not forked: {why}."
        except Exception:  # noqa: BLE001  a mistake of ours must not pass in silence
            _log.exception("a conversation could not be forked", session=wish.parent_id)
            answer = "This conversation was not forked: the gateway had a problem of its own, which its log describes."
        if answer:
            await self._store.write(self._add_answer, arrival, message_id, answer)
        self._bells.room(arrival.instance, arrival.inbound.address)

    def _with_answer(self, db: Db, fn: Callable[[Db], T], arrival: Arrival, message_id: int, wish: ForkRequest) -> T:
        made = fn(db)
        assert isinstance(made, ForkedSession)
        details = {"session": made.session_id, "parent": made.parent_id, "folder": made.folder, "how": made.how}
        audit.append(db, audit.AuditRecord(self._clock.now(), wish.by, ACTION, "done", details))
        self._add_answer(db, arrival, message_id, DONE[made.how].format(made.topic))
        return made

    def _add_answer(self, db: Db, arrival: Arrival, message_id: int, text: str) -> None:
        told = OutgoingMessage(
            key=f"fork:{message_id}",
            origin=EffectOrigin.NOTICE,
            instance=arrival.instance,
            address=arrival.inbound.address,
            thread=arrival.inbound.thread,
            text=text,
            reply_to_id=message_id,
        )
        add_outgoing_message(db, self._reach, told, self._clock.now())
