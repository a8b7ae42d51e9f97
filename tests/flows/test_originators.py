"""Whose rights and money a whole gateway uses, when agents pass work on and people write one after another."""

from pathlib import Path

from gatepost.core.periods import Period
from gatepost.flow import granting
from gatepost.store import budgets, costs, inbox, origins, sessions, turns
from gatepost.store.acl import Effect, Row
from gatepost.store.budgets import Kind, Scope
from gatepost.store.port import Db
from gatepost.testing.channel import FakeChannel
from gatepost.testing.gateway import open_room, running_gateway, settled
from gatepost.testing.provider import Script

from .conftest import ROOM

ADA, BOB = "fake:user/ada", "fake:user/bob"


async def test_stranger_09_and_10_a_message_that_an_agent_injects_has_the_limits_of_who_asked(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        row = Row(id=0, principal=ADA, action="mcp:send", effect=Effect.DENY)
        await gateway.store.write(granting.add_row, row, gateway.clock.now())
        gateway.bells.tools(None)
        script = Script().turn("^please$").call("inject_message", content="on your own").say("passed on: {result}")
        script.turn("on your own").call("send", text="what was denied").say("sent: {result}")
        script.write(gateway.home.group("home"))

        await channel.say("please", sender=ADA)
        sent = await channel.wait_for(lambda sent: any("sent: " in each.message.text for each in sent))
        await settled(gateway)

        texts = [each.message.text for each in sent]
        assert any('"injected":true' in text for text in texts)
        assert "a rule of this gateway forbids it" in texts[-1] and "what was denied" not in texts
        (session,) = await gateway.store.read(sessions.live, "home")
        first, second = await gateway.store.read(turns.of_session, session.id, 2**62, 10)
        assert [await gateway.store.read(costs.payer, turn.id) for turn in (first, second)] == [ADA, ADA]
        assert (await gateway.store.read(origins.of_turn, second.id)).depth == 1


async def test_stranger_11_people_with_budgets_of_their_own_have_turns_of_their_own(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)

        def limit(db: Db) -> None:
            budgets.put(db, Scope(Kind.USER, BOB), Period.DAY, 1_000_000, "owner", gateway.clock.now())

        await gateway.store.write(limit)
        for sender in (ADA, BOB, BOB, ADA, ADA, BOB):
            await channel.say("hello", sender=sender)
        await channel.wait_for(6)
        await settled(gateway)

        (session,) = await gateway.store.read(sessions.live, "home")
        for turn in await gateway.store.read(turns.of_session, session.id, 2**62, 10):
            payer = await gateway.store.read(costs.payer, turn.id)
            assert await gateway.store.read(inbox.senders_of_turn, turn.id) == [payer]
