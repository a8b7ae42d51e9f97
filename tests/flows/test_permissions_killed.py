"""A real agent asks before it runs a command, somebody allows it, and the gateway is killed on the way. What holds:

- Killed before the answer was passed into the sandbox, the command runs exactly once after the start, and nobody is
  asked again.
- Killed after that, the command may have run, and only the agent that is gone knows. It does not run a second time
  unless somebody allows it a second time: the agent that goes on asks anew.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.flows.test_permissions import BOSS, settle_people, wait_for_card
from tests.flows.test_sleeping_turns import count_reservations, wait_until_asleep

from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rooms import direct_rooms
from gatepost_testing import programs
from gatepost_testing.agent_profiles import AGENTS, ROOM, AgentProfile, run_agent_gateway
from gatepost_testing.channel import FakeChannel
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.gateway import reply_to_card, wait_until_settled
from gatepost_testing.models import ModelEndpoint
from gatepost_testing.platform import Platform
from gatepost_testing.storms import faults
from gatepost_testing.storms.faults import FaultPoint
from gatepost_testing.waiting import PATIENCE_S, block_until

OWNER, DIRECT = "lossy:user/1", "lossy:direct/1"
MODES = {"claude": "default", "codex": "untrusted", "opencode": "ask"}
KILLED = ("claude", "codex")
COMMAND = "echo ran >> /workspace/agent/ran.txt"
SEND = "gatepost.flow.requests.request_loop:ProviderAnswers._send"
BEFORE_IT_IS_PASSED_ON = [
    FaultPoint("gatepost.store.rights.requests:record_answer", "after"),
    FaultPoint("gatepost.flow.intake.intake:Intake._follow", "before", match="/approve"),
    FaultPoint(SEND, "before"),
    FaultPoint("gatepost.store.sessions.sleeping_turns:claim_answer", "after"),
]
AFTER_IT_IS_PASSED_ON = [
    FaultPoint("gatepost.flow.sessions.session_supervisor:SessionSupervisor.answer", "before"),
    FaultPoint(SEND, "after"),
]


def each(names: Iterable[str], *rest: Any) -> list[Any]:
    """Agents as parameters, each with the reason if it cannot run."""
    found = []
    for name in names:
        missing = AGENTS[name].missing
        marks = [pytest.mark.slow, pytest.mark.skipif(bool(missing), reason=missing or "it is there")]
        found += [pytest.param(name, one, id=f"{name}-{one}".replace(" ", "-"), marks=marks) for one in rest]
    return found


def make_script(agent: AgentProfile) -> dict[str, Any]:
    """Whatever it is told, it runs the command first, also when it goes on."""
    return {"tools": True, "default": [agent.run(COMMAND), {"say": "so it is"}]}


@dataclass
class Place:
    daemon: DaemonProcess
    platform: Platform
    ran: Path

    def count_runs(self) -> int:
        return self.ran.read_text().count("ran") if self.ran.exists() else 0

    def wait_for_request(self, *known: str) -> str:
        """The id of what the agent asks, once it asks something else than is known."""
        found: list[str] = []

        def asks() -> bool:
            waiting = [each["request"]["id"] for each in self.daemon.json("permit", "ls")]
            found[:] = [each for each in waiting if each not in known]
            return bool(found)

        block_until(asks, f"a request\n{self.daemon.stderr()[-3000:]}")
        return found[0]

    def wait_for_card(self) -> None:
        """Nobody allows what they were not shown."""

        def shown() -> bool:
            rows = self.daemon.json("ledger", "list")
            return any(each["address"] == DIRECT and each["state"] == "sent" for each in rows)

        block_until(shown, f"a card\n{self.daemon.stderr()[-3000:]}")

    def wait_for_end(self) -> None:
        assert self.platform.wait_for(lambda record: any(each.text == "so it is" for each in record)), (
            self.daemon.stderr()[-3000:]
        )
        block_until(lambda: self.daemon.json("ledger", "check")["in_flight"] == 0, "the end of what is in flight")
        assert self.daemon.json("ledger", "check")["unaccounted"] == 0


def settle_owner(db: Db, now: int) -> None:
    users.add(db, OWNER, "Ada", now)
    users.add_role(db, OWNER, UserRole.OWNER, "", "test", now)
    direct_rooms.add(db, OWNER, "lossy", DIRECT, now)


@asynccontextmanager
async def a_place(name: str, tmp_path: Path, fault: FaultPoint) -> AsyncIterator[tuple[Place, Path]]:
    """A daemon whose agent asks before it acts, and the file that says that the fault has happened."""
    agent, home = AGENTS[name], tmp_path / "h"
    async with ModelEndpoint(make_script(agent)) as endpoint:
        async with run_agent_gateway(agent, home, FakeChannel(), endpoint, mode=MODES[name]) as gateway:
            await gateway.store.write(settle_owner, gateway.clock.now())
            ran = gateway.home.group("home") / "ran.txt"
        with Platform(tmp_path / "platform.sock") as platform:
            platform.plug_into(home)
            more = {"programs": f"{agent.program}={programs.find(agent.program)}"} if agent.program else {}
            daemon = DaemonProcess(
                home,
                sandbox_kind="bubblewrap",
                sandbox_least_free_mb="0",
                sessions_provider=name,
                sessions_look_s="0.2",
                sessions_retry_s="0.05",
                anthropic_base_url=endpoint.anthropic,
                openai_base_url=endpoint.openai,
                **more,
            )
            happened = faults.into_daemon(home, fault)
            await asyncio.to_thread(daemon.start)
            try:
                yield Place(daemon, platform, ran), happened
            finally:
                await asyncio.to_thread(daemon.stop)


def approve_and_restart(place: Place, happened: Path) -> str:
    """Somebody allows what the agent asks, the daemon kills itself at its step and is started anew. The request."""
    place.platform.say("room/1", "zanzibar", sender="user/1")
    request = place.wait_for_request()
    assert place.count_runs() == 0
    place.wait_for_card()
    place.platform.say("room/1", f"/approve {request}", sender="user/1")
    assert faults.wait_for_fault(happened), f"it never came to this\n{place.daemon.stderr()[-3000:]}"
    place.daemon.kill()
    place.daemon.start()
    return request


@pytest.mark.parametrize(("name", "fault"), each(KILLED, *BEFORE_IT_IS_PASSED_ON))
async def test_a_command_that_was_allowed_runs_once_when_the_gateway_is_killed_before_it(
    name: str, fault: FaultPoint, tmp_path: Path
) -> None:
    async with a_place(name, tmp_path, fault) as (place, happened):
        await asyncio.to_thread(approve_and_restart, place, happened)
        await asyncio.to_thread(place.wait_for_end)
        assert place.count_runs() == 1
        assert sum("/approve" not in text and "asks to use" in text for text in place.platform.texts()) <= 1


@pytest.mark.parametrize(("name", "fault"), each(KILLED, *AFTER_IT_IS_PASSED_ON))
async def test_a_command_that_may_have_run_does_not_run_again_unless_it_is_allowed_again(
    name: str, fault: FaultPoint, tmp_path: Path
) -> None:
    async with a_place(name, tmp_path, fault) as (place, happened):
        first = await asyncio.to_thread(approve_and_restart, place, happened)
        second = await asyncio.to_thread(place.wait_for_request, first)
        before = place.count_runs()
        assert before <= 1
        await asyncio.to_thread(place.daemon.gatepost, "permit", "allow", second)
        await asyncio.to_thread(place.wait_for_end)
        assert place.count_runs() == before + 1


@pytest.mark.parametrize(("name", "answer"), each(MODES, "allow once", "deny"))
async def test_an_agent_in_a_chat_does_as_it_is_answered_awake_or_asleep(
    name: str, answer: str, tmp_path: Path
) -> None:
    agent, channel = AGENTS[name], FakeChannel()
    for hold in (600, 0.05):
        async with (
            ModelEndpoint(make_script(agent)) as endpoint,
            run_agent_gateway(
                agent,
                tmp_path / f"h{hold}",
                channel,
                endpoint,
                settings={"approvals__hold_sandbox_s": hold},
                mode=MODES[name],
            ) as gateway,
        ):
            await gateway.store.write(settle_people, gateway.clock.now())
            await channel.say("zanzibar")
            assert "ran.txt" in await wait_for_card(channel)
            ran = gateway.home.group("home") / "ran.txt"
            assert not ran.exists()
            if hold < 1:
                await wait_until_asleep(gateway)
                assert await gateway.store.read(count_reservations) == 0
            await reply_to_card(gateway, channel, answer, sender=BOSS)
            await channel.wait_for(lambda sent: any(each.message.text == "so it is" for each in sent), PATIENCE_S)
            await wait_until_settled(gateway)
            assert (ran.read_text() if ran.exists() else "") == ("ran\n" if answer == "allow once" else "")
            assert channel.texts(ROOM)[-1] == "so it is"
        channel = FakeChannel()
