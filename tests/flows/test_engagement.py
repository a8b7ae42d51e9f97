"""Conversations in rooms: who is spoken to stays in them, agents are kept apart, and nothing is lost or said twice."""

import re
from pathlib import Path

import pytest

from gatepost.app import Gateway
from gatepost.flow.schedule.firing import FiredRooms
from gatepost.flow.schedule.task_changes import TaskRequest, add_task, make_task, read_rules, run_task
from gatepost.flow.sessions.session_ending import Ending
from gatepost.messages.inbound import Verb
from gatepost.store.messages import inbox
from gatepost.store.money import ledger
from gatepost.store.port import Db
from gatepost.store.rooms import engagements
from gatepost.store.rooms.engagements import Engagement
from gatepost_testing.channel import FakeChannel
from gatepost_testing.clock import FixedClock
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.provider import ScriptBuilder

from .conftest import ROOM, add_group, add_looker, add_route

ECHO = ScriptBuilder().turn("(.*)").say("heard {1}")


async def fire(gateway: Gateway, text: str) -> None:
    """A scheduled task fires in the conversation of the room."""
    rules, now = read_rules(gateway.config), gateway.clock.now()
    asked = TaskRequest(
        folder="home", instance="fake", address=ROOM, prompt=text, when="@daily", created_by="agent:home"
    )

    def add_and_run(db: Db) -> FiredRooms:
        made, _ = add_task(db, make_task(asked, rules, now), rules, now, (), 0)
        return run_task(db, gateway.channels, made.id, rules, now)

    fired = await gateway.store.write(add_and_run)
    assert fired.ran == 1
    for session_id in fired.sessions:
        gateway.events.session(session_id)


async def list_engaged(gateway: Gateway) -> list[Engagement]:
    return await gateway.store.read(engagements.list_at, "fake", ROOM, "")


async def test_arizuko_24_a_mention_engages_replies_extend_it_and_a_scheduled_turn_does_not(
    tmp_path: Path, channel: FakeChannel
) -> None:
    clock = FixedClock()
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, clock=clock) as gateway:
        await open_room(gateway, "fake", ROOM)
        await add_route(gateway, "verb=mention", "home", seq=10)
        await add_route(gateway, "", "home#observe", seq=20)
        ECHO.write(gateway.home.group("home")).chmod(0o644)

        async def answered(text: str, verb: Verb = Verb.MESSAGE) -> bool:
            receipt = await channel.say(text, verb=verb)
            await wait_until_settled(gateway)
            (entry,) = await gateway.store.read(inbox.list_for_message, receipt.message_id)
            return entry.state == "answered"

        assert not await answered("one")
        assert await answered("two", Verb.MENTION)
        clock.advance(400)
        assert await answered("three")  # the reply extends it from here
        clock.advance(500)
        assert await answered("four")
        (before,) = await list_engaged(gateway)
        clock.advance(500)
        await fire(gateway, "due")
        await channel.wait_for(lambda sent: any(each.message.text == "heard due" for each in sent))
        await wait_until_settled(gateway)
        assert await list_engaged(gateway) == [before]
        clock.advance(100)
        assert not await answered("five")
        assert await answered("six", Verb.MENTION)
        assert channel.texts() == [f"heard {word}" for word in ("two", "three", "four", "due", "six")]
        assert (await gateway.store.read(ledger.check, clock.now())).unaccounted == 0


@pytest.mark.slow
async def test_two_agents_of_one_room_have_their_own_triggers_and_their_own_engagements(
    tmp_path: Path, channel: FakeChannel
) -> None:
    clock = FixedClock()
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, clock=clock) as gateway:
        await open_room(gateway, "fake", ROOM)
        for number, folder in enumerate(("bot1", "bot2")):
            await add_group(gateway, folder)
            await add_route(gateway, f"text=/^@{folder}/", folder, seq=10 + number, also=True, ttl_s=600)
            await add_route(gateway, "", f"{folder}#observe", seq=20 + number, also=True)
            ScriptBuilder().turn("(.*)").say(f"{folder}: {{1}}").write(gateway.home.group(folder)).chmod(0o644)
        await add_route(gateway, "", "drop", seq=90)

        async def ask(text: str) -> list[str]:
            before = len(channel.texts())
            await channel.say(text)
            await wait_until_settled(gateway)
            return sorted(channel.texts()[before:])

        assert await ask("anybody?") == []
        assert await ask("@bot1 hello") == ["bot1: @bot1 hello"]
        assert await ask("more") == ["bot1: more"]
        clock.advance(200)
        assert await ask("@bot2 hello") == ["bot2: @bot2 hello"]
        assert await ask("both?") == ["bot1: both?", "bot2: both?"]
        clock.advance(450)
        assert await ask("who is left?") == ["bot2: who is left?"]


@pytest.mark.slow
async def test_arizuko_25_what_was_observed_in_a_thread_is_shown_there_once_and_another_thread_has_its_own(
    tmp_path: Path, channel: FakeChannel
) -> None:
    home = tmp_path / "h"
    add_looker(home)
    async with running_gateway(home, {"fake": (channel.kind, channel)}, sessions__provider="looker") as gateway:
        await open_room(gateway, "fake", ROOM)
        await add_route(gateway, "verb=mention", "home", seq=10, ttl_s=0)
        await add_route(gateway, "", "home#observe", seq=20, window=(10, 4000))
        for number in range(15):
            for thread in ("a", "b"):
                await channel.say(f"{thread}{number:02}", thread=thread)
        shown: dict[str, list[str]] = {}
        for key, thread in (("a", "a"), ("a again", "a"), ("b", "b")):
            await channel.say("what is up?", thread=thread, verb=Verb.MENTION)
            sent = await channel.wait_for(len(shown) + 1)
            await wait_until_settled(gateway)
            shown[key] = re.findall(r"\b[ab]\d\d\b", sent[-1].message.text)
        newest = [f"{number:02}" for number in range(5, 15)]
        assert shown == {"a": [f"a{each}" for each in newest], "a again": [], "b": [f"b{each}" for each in newest]}


@pytest.mark.slow
async def test_messages_of_one_microsecond_in_a_turn_in_a_death_and_beside_a_task_are_answered_once_in_order(
    tmp_path: Path, channel: FakeChannel
) -> None:
    clock = FixedClock()  # it stands: all of this is one microsecond
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, clock=clock) as gateway:
        await open_room(gateway, "fake", ROOM)
        await add_route(gateway, "verb=mention", "home", seq=10)
        await add_route(gateway, "", "home#observe", seq=20)
        group = gateway.home.group("home")
        script = ScriptBuilder().turn("one").wait_for("go").say("heard one").turn("(.*)").say("heard {1}")
        script.write(group).chmod(0o644)

        await channel.say("one", verb=Verb.MENTION)
        await channel.say("two")
        await channel.say("three")  # while the turn runs
        (group / "go").write_text("")
        await channel.wait_for(3)
        (live,) = gateway.sessions.awake
        live.kill(Ending("to see what becomes of what arrives"))
        await channel.say("four")  # while the sandbox dies
        await fire(gateway, "due")
        await channel.say("five")  # while a task fires
        await channel.wait_for(6)
        account = await wait_until_settled(gateway)

        said = channel.texts()
        assert said.count("heard due") == 1  # people may go before a task, and never behind one another
        said.remove("heard due")
        assert said == [f"heard {word}" for word in ("one", "two", "three", "four", "five")]
        assert account.unaccounted == 0
