"""A session that comes to nothing: whatever keeps it from its work, it is not woken for ever."""

import asyncio
import json
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.flow.sessions.awake_session import LARGEST_NEXT
from gatepost.messages.inbound import Direction, MessageKind
from gatepost.store.messages import inbox
from gatepost.store.messages.messages import NewMessage, accept
from gatepost.store.port import Db
from gatepost.store.rooms import routes
from gatepost.store.sessions import groups, sessions
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled

LONG_ENOUGH_S = 1.0  # nothing is to happen

SILENT = """
import time

time.sleep(1000)  # right after the runner has said hello
"""


@pytest.mark.slow
async def test_a_runner_that_says_hello_and_nothing_more_is_tried_again_and_then_given_up(tmp_path: Path) -> None:
    channel = FakeChannel()
    plugins = tmp_path / "h" / "plugins" / "providers"
    plugins.mkdir(parents=True)
    (plugins / "silent.py").write_text(SILENT)
    given: dict[str, Any] = {"sessions__provider": "silent", "sessions__silence_s": 0.7, "sessions__tries": 1}
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, **given) as gateway:
        await open_room(gateway, "fake", "fake:room/1")
        receipt = await channel.say("hello")
        await channel.wait_for(1)
        await wait_until_settled(gateway)

        (entry,) = await gateway.store.read(inbox.list_for_message, receipt.message_id)
        assert (entry.state, entry.tries) == ("failed", 2)
        assert "went silent" in entry.reason
        assert channel.sent[0].message.text.startswith("Sorry")


def _queue_all(db: Db, session: sessions.Session, texts: list[str], now: int) -> list[int]:
    return [_queue(db, session, now, text) for text in texts]


def _queue(db: Db, session: sessions.Session, now: int, text: str = "two") -> int:
    """A message that waits, and of which nobody was told."""
    new = NewMessage(
        instance="fake",
        address="fake:room/1",
        direction=Direction.IN,
        kind=MessageKind.CHAT,
        sender="fake:user/1",
        text=text,
        at=now,
        platform_id=text[:10],
        content=json.dumps({"text": text}),
    )
    message_id = accept(db, new, now)
    assert message_id is not None
    inbox.enqueue(db, message_id, session.id, "home", "guest", now)
    return message_id


async def _replaced(gateway: Gateway, before: object) -> None:
    """Until another session is awake, or long enough to say that none will be."""
    with suppress(TimeoutError):
        async with asyncio.timeout(LONG_ENOUGH_S):
            while list(gateway.sessions.awake) in ([], [before]):  # noqa: ASYNC110  nobody tells us
                await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_a_turn_that_is_claimed_while_its_sandbox_dies_is_not_left_open(tmp_path: Path) -> None:
    channel, store_is_free = FakeChannel(), threading.Event()
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", "fake:room/1")
        await channel.say("one")
        await channel.wait_for(1)
        await wait_until_settled(gateway)
        (live,) = gateway.sessions.awake
        message_id = await gateway.store.write(_queue, live.session, gateway.clock.now())

        busy = asyncio.create_task(gateway.store.write(lambda db: store_is_free.wait(30)))
        await asyncio.sleep(0)
        gateway.events.session(live.session.id)  # the runner waits, so the message is claimed for it
        while not live.runner.giving:  # noqa: ASYNC110  nobody tells us
            await asyncio.sleep(0)
        assert live.sandbox is not None
        live.sandbox.kill()
        await live.gone.wait()
        await _replaced(gateway, live)
        store_is_free.set()
        await busy

        assert (await wait_until_settled(gateway)).unaccounted == 0
        (entry,) = await gateway.store.read(inbox.list_for_message, message_id)
        assert entry.state == "answered"


async def test_stranger_new_rows_that_are_not_projected_yet_are_there_when_they_are_claimed(tmp_path: Path) -> None:
    """More waits than a mailbox is given at once, by number and by size."""
    channel = FakeChannel()
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, sessions__batch=3) as gateway:
        await open_room(gateway, "fake", "fake:room/1")
        await channel.say("one")
        await channel.wait_for(1)
        await wait_until_settled(gateway)
        (live,) = gateway.sessions.awake
        texts = [f"{number} " + "x" * (LARGEST_NEXT if number % 2 else 10) for number in range(8)]
        ids = await gateway.store.write(_queue_all, live.session, texts, gateway.clock.now())
        pairs, _ = await live._open_rows()
        assert [entry.message_id for entry, _ in pairs] == ids[:1]  # the second does not fit
        gateway.events.session(live.session.id)

        assert (await wait_until_settled(gateway)).unaccounted == 0
        for message_id in ids:
            (entry,) = await gateway.store.read(inbox.list_for_message, message_id)
            assert entry.state == "answered"
        said = "".join(each.message.text for each in channel.sent)
        assert all(f"{number} xxxxxxxxxx" in said for number in range(8))


def _add_loud(db: Db, now: int) -> None:
    groups.add(db, "loud", "loud", "scripted", now)
    routes.add(
        db, routes.Route(seq=-1, match="room=loud/*", target="loud", folder="loud", created_by="test", created_at=now)
    )


@pytest.mark.slow
async def test_stranger_23_a_session_that_has_just_worked_stays_while_another_group_wants_all_places(
    tmp_path: Path,
) -> None:
    channel = FakeChannel()
    loud = [f"fake:loud/{number}" for number in range(4)]
    given: dict[str, Any] = {"sessions__most_awake": 2}
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, **given) as gateway:
        (tmp_path / "h" / "groups" / "loud").mkdir()
        await gateway.store.write(_add_loud, gateway.clock.now())
        for address in ("fake:room/1", *loud):
            await open_room(gateway, "fake", address)
        await channel.say("one")
        await channel.wait_for(1)
        await wait_until_settled(gateway)
        (quiet,) = gateway.sessions.awake
        for address in loud:
            await channel.say("two", address=address)
        await channel.wait_for(5)

        assert quiet in gateway.sessions.awake, "it was ended for a group that has more places"
