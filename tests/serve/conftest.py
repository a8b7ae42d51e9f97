"""A gateway's worth of ledger rows without sandboxes: `answerer` accepts what a hub is given and answers it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gatepost.channels.contract import ChannelDeps
from gatepost.channels.local_channel import LocalChannel
from gatepost.channels.terminal import TerminalChannel
from gatepost.channels.web import WebChannel
from gatepost.core.clock import Clock, SystemClock
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.messages.inbound import Direction, Inbound, MessageKind, Receipt
from gatepost.messages.outbound import Op, Outbound
from gatepost.serve import passwords
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import inbox, messages, outbox
from gatepost.store.messages.messages import NewMessage
from gatepost.store.messages.outbox import EffectOrigin, EffectState, NewEffect
from gatepost.store.port import Db
from gatepost.store.rooms import rooms
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.sessions import groups, sessions, turn_claims, turn_failures, turns
from gatepost.store.sessions.sessions import SessionMode
from gatepost.store.sessions.turn_failures import FailureCause

FOLDER = "home"
NOBODYS_CHEAP = "$argon2id$v=19$m=8,t=1,p=1$Sct4oUTCqBYQP7bx+X3H1Q$bZ5TJKPCwrVmNNQohKHetHS+xVcMvu5HYxBpRpYvp0M"
SOON = 10_000_000


def echo(text: str) -> str | None:
    return f"You said: {text}"


@dataclass
class Answerer:
    """Real rows in the real store: accept, queue, claim, begin, answer, finish, deliver."""

    store: SqliteStore
    hub: LocalChannel
    clock: Clock
    media: Path
    answers: Callable[[str], str | None] = echo
    by_itself: bool = True  # answers what it accepts; else when told to
    accepted: list[int] = field(default_factory=list)
    received: list[Inbound] = field(default_factory=list)
    files: tuple[dict[str, Any], ...] = ()

    async def receive(self, inbound: Inbound) -> Receipt:
        self.received.append(inbound)
        receipt = await self.store.write(self._accept, inbound)
        if receipt.new:
            self._keep_files(receipt.message_id, inbound)
            self.accepted.append(receipt.message_id)
            if self.by_itself:
                await self.answer(receipt.message_id)
        return receipt

    def _accept(self, db: Db, inbound: Inbound) -> Receipt:
        now = self.clock.now()
        groups.add(db, FOLDER, "Home", "demo", now)
        rooms.add(db, self.hub.instance, inbound.address, "", True, RoomPolicy.STRICT, now)
        attachments = [
            {
                "name": one.name,
                "mimeType": one.mime,
                "size": len(one.data),
                "path": f"in/{inbound.platform_id}/{number}",
            }
            for number, one in enumerate(inbound.attachments)
        ]
        new = NewMessage(
            instance=self.hub.instance,
            address=inbound.address,
            thread=inbound.thread,
            direction=Direction.IN,
            kind=MessageKind.CHAT,
            verb=inbound.verb,
            sender=inbound.sender,
            text=inbound.text,
            content=json.dumps({"text": inbound.text, "attachments": attachments}),
            reply_to=inbound.reply_to.platform_id if inbound.reply_to else "",
            at=now,
            platform_id=inbound.platform_id,
            event=inbound.event,
        )
        message_id = messages.accept(db, new, now)
        if message_id is None:
            known = messages.find(db, self.hub.instance, inbound.address, Direction.IN, inbound.platform_id)
            assert known is not None
            return Receipt(message_id=known.id, new=False, state=inbox.list_for_message(db, known.id)[0].state)
        if inbound.text == "refuse me":
            inbox.refuse(db, message_id, FOLDER, "guest", "nobody is wired to this room", now)
            return Receipt(message_id=message_id, new=True, state="refused", reason="nobody is wired to this room")
        session = sessions.find_or_add(
            db, SessionMode.PER_THREAD, FOLDER, self.hub.instance, inbound.address, inbound.thread, now
        )
        inbox.enqueue(db, message_id, session.id, FOLDER, "owner", now)
        return Receipt(message_id=message_id, new=True, state="queued")

    def _keep_files(self, message_id: int, inbound: Inbound) -> None:
        for number, one in enumerate(inbound.attachments):
            path = self.media / "in" / inbound.platform_id / str(number)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(one.data)

    async def begin(self, message_id: int) -> str | None:
        """The turn of a message, so that it shows as being worked on."""
        return await self.store.write(self._begin, message_id)

    def _begin(self, db: Db, message_id: int) -> str | None:
        entry = inbox.list_for_message(db, message_id)[0]
        if entry.session_id is None:
            return None
        claim = turn_claims.claim(db, entry.session_id, "demo", "test", self.clock.now(), SOON, 10)
        assert claim is not None
        turns.begin(db, claim.turn.id, claim.turn.epoch, claim.rows, self.clock.now())
        return claim.turn.id

    async def answer(self, message_id: int) -> None:
        turn_id = await self.begin(message_id)
        if turn_id is None:
            return
        message = await self.store.read(messages.get, message_id)
        assert message is not None
        text = self.answers(message.text)
        if text is not None:
            await self.say(message.address, message.thread, text, turn_id=turn_id, key=f"{turn_id}/1/1")
        await self.store.write(lambda db: turns.finish(db, turn_id, 1, "{}", self.clock.now()))
        self.hub.ring(message.address)

    async def fail(self, message_id: int, reason: str) -> None:
        turn_id = await self.begin(message_id)
        assert turn_id is not None
        policy = turn_failures.TurnRetryPolicy()
        await self.store.write(
            lambda db: turn_failures.record_failure(
                db, turn_id, 1, FailureCause(reason=reason, final=True), policy, self.clock.now()
            )
        )

    async def say(
        self,
        address: str,
        thread: str,
        text: str,
        *,
        key: str,
        turn_id: str | None = None,
        op: Op = Op.SEND,
        target_id: int | None = None,
        reaction: str = "",
        delivered: bool = True,
    ) -> int:
        """Put something on its way and, as the pump would, deliver it."""
        payload = {"text": text, "reaction": reaction, "files": list(self.files)}
        new = NewEffect(
            key=key,
            op=op,
            origin=EffectOrigin.RESULT,
            instance=self.hub.instance,
            address=address,
            thread=thread,
            text=text,
            payload=payload,
            folder=FOLDER,
            turn_id=turn_id,
            target_id=target_id,
        )
        effect = await self.store.write(lambda db: outbox.add(db, new, self.clock.now()))
        if delivered:
            await self.deliver(address, key)
        return effect.message_id

    async def deliver(self, address: str, key: str) -> None:
        platform_id = await self.hub.send(address, Outbound(key=key))
        effect = await self.store.read(outbox.find_by_key, key)
        assert effect is not None
        await self.store.write(
            lambda db: outbox.record_outcome(db, effect.id, EffectState.SENT, "", self.clock.now(), platform_id)
        )
        self.hub.ring(address)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.prepare()
    return made


@pytest.fixture
def cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes of the least cost, for tests of who gets in. How dear ours are is in `test_password_hashing.py`."""
    monkeypatch.setattr(passwords, "ROUNDS", 1)
    monkeypatch.setattr(passwords, "MEMORY_KIB", 8)
    monkeypatch.setattr(passwords, "NOBODYS", NOBODYS_CHEAP)


def deps(instance: str) -> ChannelDeps:
    return ChannelDeps(instance=instance, config=Config(), clock=SystemClock())


@contextlib.asynccontextmanager
async def listening(store: SqliteStore, hub: LocalChannel, home: Home) -> AsyncIterator[Answerer]:
    answerer = Answerer(store, hub, SystemClock(), home.media)
    listening = asyncio.create_task(hub.listen(answerer.receive))
    await asyncio.sleep(0)  # let it take `receive`
    try:
        yield answerer
    finally:
        listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await listening


@pytest.fixture
async def web(store: SqliteStore, home: Home) -> AsyncIterator[Answerer]:
    async with listening(store, WebChannel(deps("web")), home) as answerer:
        yield answerer


@pytest.fixture
async def terminal(store: SqliteStore, home: Home) -> AsyncIterator[Answerer]:
    async with listening(store, TerminalChannel(deps("terminal")), home) as answerer:
        yield answerer
