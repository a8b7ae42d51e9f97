"""A turn that waits for a person longer than its sandbox is held sleeps, and goes on when there is a decision."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.flows.test_permissions import BOSS, DIRECT, ROOM, settle_people, wait_for_card

from gatepost.app import Gateway
from gatepost.flow.sessions.notices import ASLEEP
from gatepost.serve.control.arguments.agents import AgentSpec
from gatepost.store.money import ledger
from gatepost.store.port import Db
from gatepost.store.rights import requests, waiting_requests
from gatepost.store.rights.requests import Request, RequestState
from gatepost.store.sessions import groups, turns
from gatepost.store.sessions import sleeping_turns as sleeping
from gatepost.store.sessions.turns import Turn, TurnState
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, reply_to_card, running_gateway, wait_until_settled
from gatepost_testing.waiting import PATIENCE_S, until

ASK = {"ask": {"permission": "Bash", "input": {"command": "make cake"}}}
SCRIPT = {"turns": [{"when": "may I", "do": [ASK, {"say": "they said {answer}"}]}]}
SHORT = {"approvals__hold_sandbox_s": 0.05}


@pytest.fixture
def channel() -> FakeChannel:
    return FakeChannel()


@asynccontextmanager
async def asking_gateway(path: Path, channel: FakeChannel, **given: Any) -> AsyncIterator[Gateway]:
    """Its agent asks for a permission when somebody says `may I`."""
    async with running_gateway(path, {"fake": (channel.kind, channel)}, **{**SHORT, **given}) as gateway:
        (gateway.home.group("home") / "script.json").write_text(json.dumps(SCRIPT))
        await gateway.store.write(groups.update, "home", {"options": {"mode": "default"}})
        await gateway.store.write(settle_people, gateway.clock.now())
        await open_room(gateway, "fake", ROOM)
        yield gateway


async def wait_until_asleep(gateway: Gateway) -> Turn:
    """The turn that sleeps, once its sandbox is gone."""
    found: list[Turn] = []

    def is_asleep() -> bool:
        found[:] = [each for each in gateway.store.read_now(turns.list_open) if each.error == sleeping.ASLEEP]  # type: ignore[attr-defined]
        return bool(found) and found[0].state is TurnState.INTERRUPTED and not gateway.sessions.awake

    await until(is_asleep, "a turn that sleeps")
    return found[0]


async def wait_for_answer(channel: FakeChannel) -> None:
    await channel.wait_for(
        lambda sent: any(each.address == ROOM and "they said" in each.message.text for each in sent), PATIENCE_S
    )


def list_every(db: Db) -> list[Request]:
    return requests.REQUESTS.list(db, "ORDER BY asked_at, id")


def count_reservations(db: Db) -> int:
    row = db.row("SELECT COUNT(*) FROM reservations")
    return int(row[0]) if row else 0


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "heard"), [("allow once", "allow"), ("deny", "deny")])
async def test_a_turn_that_waits_long_sleeps_and_the_answer_wakes_it(
    tmp_path: Path, channel: FakeChannel, answer: str, heard: str
) -> None:
    async with asking_gateway(tmp_path / "h", channel) as gateway:
        await channel.say("may I")
        await wait_for_card(channel)
        turn = await wait_until_asleep(gateway)
        (waiting,) = await gateway.store.read(waiting_requests.list_pending)
        assert turn.next_at == waiting.expires_at  # nobody looks at it before there is a reason
        assert await gateway.store.read(count_reservations) == 0
        assert (await gateway.store.read(ledger.check, gateway.clock.now())).unaccounted == 0

        await reply_to_card(gateway, channel, answer, sender=BOSS)
        await wait_for_answer(channel)
        await wait_until_settled(gateway)
        assert channel.texts(ROOM) == [ASLEEP, f"they said {heard}"]
        done = await gateway.store.read(turns.get, turn.id)
        assert done is not None and (done.state, done.attempt, done.spared) == (TurnState.DONE, 2, 1)
        (request,) = await gateway.store.read(list_every)
        assert request.notified_at is not None and request.settled_at is not None


@pytest.mark.slow
async def test_nobody_decides_and_the_sleeping_turn_is_woken_and_told(tmp_path: Path, channel: FakeChannel) -> None:
    async with asking_gateway(tmp_path / "h", channel, approvals__expire_s=2) as gateway:
        await channel.say("may I")
        await wait_until_asleep(gateway)
        await wait_for_answer(channel)
        await wait_until_settled(gateway)
        assert channel.texts(ROOM) == [ASLEEP, "they said deny"]
        assert any("Nobody decided in time" in text for text in channel.texts(DIRECT))
        (request,) = await gateway.store.read(list_every)
        assert request.state is RequestState.EXPIRED


@pytest.mark.slow
async def test_a_sleeping_turn_outlives_a_restart_and_goes_on_sleeping(tmp_path: Path, channel: FakeChannel) -> None:
    async with asking_gateway(tmp_path / "h", channel) as gateway:
        await channel.say("may I")
        await wait_for_card(channel)
        before = await wait_until_asleep(gateway)
    async with asking_gateway(tmp_path / "h", channel) as gateway:
        assert (await wait_until_asleep(gateway)).next_at == before.next_at
        await reply_to_card(gateway, channel, "allow once", sender=BOSS)
        await wait_for_answer(channel)
        await wait_until_settled(gateway)
        assert channel.texts(ROOM) == [ASLEEP, "they said allow"]


@pytest.mark.slow
async def test_what_is_said_while_a_turn_sleeps_waits_for_it_and_is_answered(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with asking_gateway(tmp_path / "h", channel) as gateway:
        await channel.say("may I")
        await wait_until_asleep(gateway)
        await channel.say("hello?")
        await reply_to_card(gateway, channel, "allow once", sender=BOSS)
        await channel.wait_for(lambda sent: any("echo: hello?" in each.message.text for each in sent), PATIENCE_S)
        await wait_until_settled(gateway)
        assert channel.texts(ROOM) == [ASLEEP, "they said allow", "echo: hello?"]


async def test_who_stops_a_sleeping_turn_ends_it_and_withdraws_what_it_asked(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with asking_gateway(tmp_path / "h", channel) as gateway:
        await channel.say("may I")
        await wait_for_card(channel)
        await wait_until_asleep(gateway)
        await channel.say("/stop", sender=BOSS)
        await channel.wait_for(lambda sent: any("Withdrawn" in each.message.text for each in sent), PATIENCE_S)
        await wait_until_settled(gateway)
        assert channel.texts(ROOM) == [ASLEEP, "Stopped."]
        assert (
            await gateway.store.read(waiting_requests.list_pending) == [] == await gateway.store.read(turns.list_open)
        )


@pytest.mark.slow
async def test_an_agent_that_somebody_manages_sleeps_as_well(tmp_path: Path, channel: FakeChannel) -> None:
    async with asking_gateway(tmp_path / "h", channel) as gateway:
        made = await gateway.agents.create(
            AgentSpec(prompt="may I", folder="home", provider="scripted", mode="default"), "test"
        )
        asked = (await gateway.agents.wait(made.agent_id, PATIENCE_S)).permission
        assert asked is not None
        await wait_until_asleep(gateway)
        assert (await gateway.agents.wait(made.agent_id, PATIENCE_S)).permission is not None
        await gateway.agents.respond(asked.id, "test", allow=True)
        ended = await gateway.agents.wait(made.agent_id, PATIENCE_S)
        assert (ended.permission, ended.status, ended.last_message) == (None, "idle", "they said allow")
