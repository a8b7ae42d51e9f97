"""Tasks through a whole gateway: texts with every sandbox asleep, prompts in real ones, late ones, failed ones."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.core.clock import SystemClock
from gatepost.flow.requests.choices import ALLOW_ONCE
from gatepost.flow.requests.decide import decide, follow_decision
from gatepost.flow.schedule.task_changes import TaskRequest, add_task, make_task, read_rules, run_task
from gatepost.store.money import ledger
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import acl, waiting_requests
from gatepost.store.rights.acl import AclRow
from gatepost.store.rooms import direct_rooms
from gatepost.store.schedule import firings, tasks
from gatepost.store.schedule.firings import Firing
from gatepost.store.schedule.tasks import Task
from gatepost.store.sessions import due_sessions, sessions
from gatepost.store.sessions.sessions import Session, SessionMode
from gatepost_testing.channel import FakeChannel, SendFault
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.waiting import PATIENCE_S, until

ROOM, DIRECT = "fake:room/1", "fake:dm/7"
SCRIPT = {
    "turns": [
        {"when": "brief me", "do": [{"say": "three mails"}]},
        {"when": "anything new", "do": []},
        {"when": "wait", "do": [{"wait_for": "go"}, {"say": "done"}]},
        {"when": "break", "do": [{"error": {"message": "the key is wrong", "kind": "auth"}}]},
    ]
}


@asynccontextmanager
async def a_gateway(path: Path, channel: FakeChannel, **given: Any) -> AsyncIterator[Gateway]:
    async with running_gateway(path, {"fake": (channel.kind, channel)}, **given) as gateway:
        (gateway.home.group("home") / "script.json").write_text(json.dumps(SCRIPT))
        await open_room(gateway, "fake", ROOM)

        def settle(db: Db) -> None:
            sessions.find_or_add(db, SessionMode.PER_THREAD, "home", "fake", ROOM, "", gateway.clock.now())
            direct_rooms.add(db, "fake:user/7", "fake", DIRECT, gateway.clock.now())
            acl.put(
                db, AclRow(id=0, principal="fake:user/7", action="op:tasks.write", scope="home"), gateway.clock.now()
            )

        await gateway.store.write(settle)
        yield gateway


async def add(gateway: Gateway, when: str, **given: Any) -> Task:
    rules, now = read_rules(gateway.config), gateway.clock.now()
    asked = TaskRequest(
        **{"folder": "home", "instance": "fake", "address": ROOM, "created_by": "agent:home", **given}, when=when
    )
    made, _ = await gateway.store.write(add_task, make_task(asked, rules, now), rules, now)
    gateway.events.tasks()
    return made


async def run(gateway: Gateway, task: Task) -> Firing:
    """Now, to its end."""
    rules, now = read_rules(gateway.config), gateway.clock.now()
    fired = await gateway.store.write(run_task, gateway.channels, task.id, rules, now)
    for session_id in fired.sessions:
        gateway.events.session(session_id)
    found: list[Firing] = []

    def is_over() -> bool:
        found[:] = [each.firing for each in read_runs(gateway, task)]
        return found[0].ended_at is not None

    await until(is_over, "a run that has ended")
    return found[0]


def read_runs(gateway: Gateway, task: Task) -> list[firings.Run]:
    return gateway.store.read_now(_list_runs, task.id)  # type: ignore[attr-defined]


def _list_runs(db: Db, task_id: str) -> list[firings.Run]:
    return firings.list_for_task(db, task_id, 50)


_list_runs.__dict__["quick"] = True


@pytest.mark.slow
async def test_a_reminder_is_delivered_with_every_sandbox_asleep(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with a_gateway(tmp_path, channel) as gateway:
        task = await add(gateway, "in 1 second", text="Take the bread out.")
        await channel.wait_for(lambda sent: len(sent) == 1, PATIENCE_S)
        assert channel.texts(ROOM) == ["Take the bread out."]
        assert gateway.sessions.awake == []
        await wait_until_settled(gateway)
        [run_] = read_runs(gateway, task)
        assert (run_.firing.state, run_.delivery) == ("sent", "sent")


@pytest.mark.slow
async def test_a_gateway_that_was_down_delivers_a_reminder_late_and_says_so(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with a_gateway(tmp_path, channel) as gateway:
        kept = await add(gateway, "in 30 minutes", text="Take the bread out.")
        dropped = await add(gateway, "in 30 minutes", text="Stale news.", missed="skip")
    later = SystemClock(wall=lambda: time.time_ns() + 2 * 3600 * 10**9)
    async with a_gateway(tmp_path, channel, clock=later) as gateway:
        await channel.wait_for(lambda sent: len(sent) == 1, PATIENCE_S)
        await wait_until_settled(gateway)
        [said] = channel.texts(ROOM)
        assert said.startswith("Take the bread out.\n(late: it was due at ")
        assert [each.firing.state for each in read_runs(gateway, kept)] == ["sent"]
        assert [each.firing.state for each in read_runs(gateway, dropped)] == ["skipped"]


@pytest.mark.slow
async def test_a_prompt_is_answered_in_the_room_and_silence_says_nothing(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with a_gateway(tmp_path, channel) as gateway:
        brief = await run(gateway, await add(gateway, "@daily", prompt="brief me"))
        quiet = await run(gateway, await add(gateway, "@daily", prompt="anything new?"))
        await wait_until_settled(gateway)
        assert (brief.state, quiet.state) == ("answered", "silent")
        assert channel.texts(ROOM) == ["three mails"]
        assert channel.typed == []  # nobody waits for it
        assert brief.session_id == quiet.session_id and brief.turn_id
        assert (await gateway.store.read(ledger.check, gateway.clock.now())).unaccounted == 0


@pytest.mark.slow
async def test_an_isolated_run_has_a_session_of_its_own_that_ends_with_it(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with a_gateway(tmp_path, channel) as gateway:
        task = await add(gateway, "@daily", prompt="brief me", context="isolated")
        first, second = await run(gateway, task), await run(gateway, task)
        await wait_until_settled(gateway)
        assert (first.state, second.state) == ("answered", "answered")
        assert first.session_id != second.session_id
        assert channel.texts(ROOM) == ["three mails", "three mails"]
        await until(lambda: not gateway.sessions.awake, "sandboxes that have ended")
        closed = [await gateway.store.read(sessions.get, each.session_id) for each in (first, second)]
        assert [isinstance(each, Session) and each.state for each in closed] == ["closed", "closed"]
        for each in (first, second):  # else a script that ends in silence fills the disk, run by run
            folder = gateway.home.session(each.session_id)
            await until(lambda folder=folder: not folder.exists(), "files of a run that are removed")


@pytest.mark.slow
async def test_a_failed_run_reaches_whoever_made_the_task_and_five_pause_it(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with a_gateway(tmp_path, channel) as gateway:
        hers = await add(gateway, "@daily", prompt="break it", created_by="fake:user/7")
        for _ in range(5):
            assert (await run(gateway, hers)).state == "failed"
        await wait_until_settled(gateway)
        told = channel.texts(DIRECT)
        assert len(told) == 5 and all("“break it”" in each and "the key is wrong" in each for each in told)
        assert ["paused" in each for each in told] == [False] * 4 + [True]
        found = await gateway.store.read(tasks.get, hers.id)
        assert found is not None and found.state == "paused"
        assert channel.texts(ROOM) == []

        ours = await add(gateway, "@daily", prompt="break that")
        assert (await run(gateway, ours)).state == "failed"
        await wait_until_settled(gateway)
        assert len(channel.texts(ROOM)) == 1 and "“break that”" in channel.texts(ROOM)[0]


@pytest.mark.slow
async def test_a_text_that_the_platform_refuses_is_a_failed_run_of_which_its_owner_is_told(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with a_gateway(tmp_path, channel) as gateway:
        channel.script(SendFault.REFUSE)
        task = await add(gateway, "in 1 second", text="Take the bread out.", created_by="fake:user/7")
        await channel.wait_for(lambda sent: len(sent) == 1, PATIENCE_S)
        await wait_until_settled(gateway)
        [told] = channel.texts(DIRECT)
        assert "“Take the bread out.”" in told and "it was not delivered" in told and channel.texts(ROOM) == []
        [run_] = read_runs(gateway, task)
        assert run_.firing.state == "failed"


@pytest.mark.slow
async def test_a_text_that_a_rule_holds_is_said_once_a_person_has_agreed(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with a_gateway(tmp_path, channel) as gateway:

        def hold(db: Db) -> None:
            acl.add_rule(db, "home", "hold send", "operator", 1)
            users.add(db, "fake:user/7", "Ann", 1)
            users.add_role(db, "fake:user/7", UserRole.ADMIN, "home", "operator", 1)

        task = await add(gateway, "in 1 second", text="Take the bread out.")
        await gateway.store.write(hold)
        await channel.wait_for(lambda sent: any(each.address == DIRECT for each in sent), PATIENCE_S)
        [request] = await gateway.store.read(waiting_requests.list_pending)
        assert channel.texts(ROOM) == [] and "Take the bread out." in channel.texts(DIRECT)[0]

        by, now = "fake:user/7", gateway.clock.now()
        follow_decision(
            gateway.events, await gateway.store.write(decide, gateway.channels, request.id, ALLOW_ONCE, by, now)
        )
        await channel.wait_for(lambda sent: any(each.address == ROOM for each in sent), PATIENCE_S)
        await wait_until_settled(gateway)
        assert [each.splitlines()[0] for each in channel.texts(ROOM)] == ["Take the bread out."]
        [run_] = read_runs(gateway, task)
        assert (run_.firing.state, run_.delivery) == ("sent", "sent") and gateway.sessions.awake == []


@pytest.mark.slow
async def test_nanoclaw_35_a_script_decides_whether_the_agent_is_asked(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with a_gateway(tmp_path, channel) as gateway:
        quiet = """echo '{"wakeAgent": false}'"""
        loud = """echo '{"wakeAgent": true, "data": 3}'"""
        states = [
            (await run(gateway, await add(gateway, "@daily", prompt="brief me", script=each))).state
            for each in (quiet, loud, "exit 3")
        ]
        await wait_until_settled(gateway)
        assert states == ["silent", "answered", "failed"]
        said = channel.texts(ROOM)
        assert said[0] == "three mails" and "the task's script failed: it ended with 3" in said[1]


async def test_a_person_is_answered_while_a_task_waits_and_both_are_in_order(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with a_gateway(tmp_path, channel) as gateway:
        task = await add(gateway, "@daily", prompt="brief me")
        rules, now = read_rules(gateway.config), gateway.clock.now()
        fired = await gateway.store.write(run_task, gateway.channels, task.id, rules, now)  # and nobody is rung yet
        await channel.say("hello", address=ROOM)
        gateway.events.session(fired.sessions[0])
        await channel.wait_for(lambda sent: len(sent) >= 2, PATIENCE_S)
        await wait_until_settled(gateway)
        assert channel.texts(ROOM) == ["echo: hello", "three mails"]
        assert await gateway.store.read(due_sessions.has_only_tasks, fired.sessions[0])


@pytest.mark.slow
async def test_people_are_answered_while_tasks_hold_all_the_places_that_they_may(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with a_gateway(tmp_path, channel, sessions__most_awake=2) as gateway:
        rules, now = read_rules(gateway.config), gateway.clock.now()
        made = [await add(gateway, "@daily", prompt=f"wait {number}", context="isolated") for number in range(3)]
        for task in made:
            fired = await gateway.store.write(run_task, gateway.channels, task.id, rules, now)
            gateway.events.session(fired.sessions[0])
        await until(lambda: [live for live in gateway.sessions.awake if live.runner.turn], "a task that runs")
        await channel.say("hello", address=ROOM)
        await channel.wait_for(lambda sent: len(sent) == 1, PATIENCE_S)
        assert channel.texts(ROOM) == ["echo: hello"]
        (gateway.home.group("home") / "go").write_text("")
        await channel.wait_for(lambda sent: len(sent) == 4, PATIENCE_S)
        await wait_until_settled(gateway)
        assert [read_runs(gateway, task)[0].firing.state for task in made] == ["answered"] * 3
