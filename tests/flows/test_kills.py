"""Kills at every step, judged by what the platform itself has on record: each message answered exactly once."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gatepost.flow.intake.commands.conversation import CLEARED
from gatepost.flow.notices import INTERRUPTED
from gatepost.flow.sessions.crash_recovery import MOST_RESTARTS
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.platform import Platform
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.storms import faults
from gatepost_testing.storms.faults import FaultPoint
from gatepost_testing.waiting import block_until

ROOM = "room/1"
TALK = "gatepost.flow.sessions.runner.runner_protocol:RunnerProtocol"
LIVE = "gatepost.flow.sessions.awake_session:AwakeSession"
TURNS = "gatepost.store.sessions.turns"
BOX = "gatepost.mailbox.outbound:OutboundDb"
PUSH = "gatepost.inside.providers.scripted:Scripted.push"
SETTINGS = {
    "sandbox_kind": "process",
    "sandbox_least_free_mb": "0",
    "sessions_retry_s": "0.05",
    "sessions_look_s": "0.2",
    "delivery_retry_base_s": "0.05",
    "delivery_look_s": "0.2",
}


@contextmanager
def a_place(
    tmp_path: Path, script: ScriptBuilder, provider: str = "scripted", **more: str
) -> Iterator[tuple[Platform, DaemonProcess]]:
    """A platform, and a daemon that is not started yet."""
    home = tmp_path / "h"
    script.write(home / "groups" / "home").chmod(0o644)
    with Platform(tmp_path / "platform.sock") as platform:
        platform.plug_into(home)
        daemon = DaemonProcess(home, sessions_provider=provider, **SETTINGS, **more)
        try:
            yield platform, daemon
        finally:
            daemon.stop()


def over(daemon: DaemonProcess, happened: Path, fault: FaultPoint) -> None:
    """The fault has happened: the daemon is started anew, unless only a sandbox died."""
    assert faults.wait_for_fault(happened), f"it never came to this: {fault}\n{daemon.stderr()[-3000:]}"
    if fault.act == "hold":
        daemon.kill()
        daemon.start()


def killed(daemon: DaemonProcess, happened: Path, fault: FaultPoint) -> None:
    """The daemon has killed itself at its step: it is started anew."""
    assert faults.wait_for_fault(happened), f"it never came to this: {fault}\n{daemon.stderr()[-3000:]}"
    daemon.kill()
    daemon.start()


def unaccounted(daemon: DaemonProcess) -> int:
    account: dict[str, Any] = daemon.json("ledger", "check")
    return int(account["unaccounted"])


def no_more_in_flight(daemon: DaemonProcess) -> None:
    block_until(lambda: daemon.json("ledger", "check")["in_flight"] == 0, "the end of what is in flight")


# A follow-up, from the claim to its answer.

FOLLOW_UP = ScriptBuilder().turn("slow").say("slowly").wait_for_message().say("done")
EXPECTED = Counter(["slowly", "done", "echo: and me"])
AT_THE_DAEMON = [
    FaultPoint("gatepost.store.sessions.turn_claims:claim_more", "before"),
    FaultPoint("gatepost.store.sessions.turn_claims:claim_more", "after"),
    FaultPoint(f"{TALK}._answer_claim", "before", match="rows=(", nth=2),
    FaultPoint(f"{TALK}._answer_claim", "after", match="rows=(", nth=2),
    FaultPoint(f"{TURNS}:begin", "before", nth=2),
    FaultPoint(f"{TURNS}:begin", "after", nth=2),
    FaultPoint(f"{TALK}.send", "before", match="AckFrame(", nth=3),
    FaultPoint(f"{TALK}.send", "after", match="AckFrame(", nth=3),
    FaultPoint(f"{TALK}._record_results", "before", nth=2),
    FaultPoint(f"{TALK}._record_results", "after", nth=2),
    FaultPoint(f"{TURNS}:finish", "before"),
    FaultPoint(f"{TURNS}:finish", "after"),
]
AT_THE_RUNNER = [
    FaultPoint(f"{BOX}.mark", "before", match="'processing'", nth=3),
    FaultPoint(f"{BOX}.mark", "after", match="'processing'", nth=3),
    FaultPoint(f"{BOX}.mark", "after", match="'begun'", nth=2),
    FaultPoint("gatepost.inside.gateway_socket:GatewaySocket.post", "after", match="RowsBegunFrame(", nth=2),
    FaultPoint(PUSH, "before"),
    FaultPoint(PUSH, "after"),
    FaultPoint(f"{BOX}.mark", "after", match="'processing'", nth=4),
    FaultPoint(f"{BOX}.add", "before", nth=2),
    FaultPoint(f"{BOX}.add", "after", nth=3),
    FaultPoint(f"{BOX}.mark", "before", match="'completed'"),
]
DAILY = {str(AT_THE_DAEMON[4])}


def named(fault: FaultPoint) -> Any:
    """Most steps belong to `make test-all`."""
    marks = () if str(fault) in DAILY else pytest.mark.slow
    return pytest.param(fault, id=str(fault).replace(" ", "-"), marks=marks)


def holding(fault: FaultPoint) -> FaultPoint:
    return FaultPoint(fault.target, fault.when, fault.match, fault.nth, "hold")


@pytest.mark.slow
@pytest.mark.parametrize("fault", [named(fault) for fault in AT_THE_DAEMON])
def test_stranger_17_a_follow_up_is_answered_once_wherever_the_daemon_is_killed(
    tmp_path: Path, fault: FaultPoint
) -> None:
    with a_place(tmp_path, FOLLOW_UP) as (platform, daemon):
        happened = faults.into_daemon(daemon.home, fault)
        daemon.start()
        platform.say(ROOM, "slow")
        platform.wait_for(lambda record: bool(record))
        platform.say(ROOM, "and me")
        killed(daemon, happened, fault)
        answered_once(platform, daemon)


@pytest.mark.parametrize("fault", [named(each) for fault in AT_THE_RUNNER for each in (fault, holding(fault))])
def test_stranger_17_a_follow_up_is_answered_once_wherever_the_runner_stood_when_it_or_the_daemon_was_killed(
    tmp_path: Path, fault: FaultPoint
) -> None:
    with a_place(tmp_path, FOLLOW_UP, "faulty") as (platform, daemon):
        happened = faults.into_runner(daemon.home, fault)
        daemon.start()
        platform.say(ROOM, "slow")
        platform.wait_for(lambda record: bool(record))
        platform.say(ROOM, "and me")
        over(daemon, happened, fault)
        answered_once(platform, daemon)


def answered_once(platform: Platform, daemon: DaemonProcess) -> None:
    platform.wait_for(lambda record: EXPECTED.keys() <= {shown.text for shown in record})
    no_more_in_flight(daemon)
    assert Counter(platform.texts()) - Counter([INTERRUPTED]) == EXPECTED  # said once at most, where it took long
    assert unaccounted(daemon) == 0


# A stop, from its acceptance to its end.

OWNER = "user/1"
HANG = ScriptBuilder().turn("work").say("working").hang().turn("remember").say("known: {text}")
INTAKE = "gatepost.flow.intake.intake"
AROUND_A_STOP = [
    FaultPoint(f"{INTAKE}:accept", "before", match="'/stop'"),
    FaultPoint(f"{INTAKE}:accept", "after", match="'/stop'"),
    FaultPoint(f"{INTAKE}:Intake._follow", "before", match="'/stop'"),
    FaultPoint("gatepost.flow.sessions.session_supervisor:SessionSupervisor.stop", "before"),
    FaultPoint(f"{LIVE}.kill", "after", match="stopped by"),
    FaultPoint("gatepost.flow.sessions.session_supervisor:SessionSupervisor.stop", "after"),
    FaultPoint(f"{INTAKE}:Intake._follow", "after", match="'/stop'"),
]
DAILY.add(str(AROUND_A_STOP[2]))


def an_owner(daemon: DaemonProcess) -> None:
    assert daemon.gatepost("user", "add", f"lossy:{OWNER}").returncode == 0
    assert daemon.gatepost("user", "role", f"lossy:{OWNER}", "owner").returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("fault", [named(fault) for fault in AROUND_A_STOP])
def test_stranger_18_a_stop_that_was_accepted_is_carried_out_wherever_the_daemon_is_killed(
    tmp_path: Path, fault: FaultPoint
) -> None:
    with a_place(tmp_path, HANG) as (platform, daemon):
        happened = faults.into_daemon(daemon.home, fault)
        daemon.start()
        an_owner(daemon)
        platform.say(ROOM, "work", sender=OWNER)
        platform.wait_for(lambda record: bool(record))
        name = platform.say(ROOM, "/stop", sender=OWNER)
        killed(daemon, happened, fault)
        assert platform.wait_until_accepted(name)
        platform.wait_for(lambda record: len(record) >= 2)
        platform.say(ROOM, "/stop", sender=OWNER, id=name)  # a redelivery long after
        platform.say(ROOM, "hello", sender=OWNER)
        platform.wait_for(lambda record: len(record) >= 3)
        no_more_in_flight(daemon)
        assert platform.texts() == ["working", "Stopped.", "echo: hello"]
        states = {row["text"]: row["state"] for row in daemon.json("ledger", "list") if row["direction"] == "in"}
        assert states == {"work": "cancelled", "/stop": "answered", "hello": "answered"}
        assert unaccounted(daemon) == 0


@pytest.mark.slow
def test_stranger_18_a_clear_that_was_accepted_ends_the_turn_that_would_remember(tmp_path: Path) -> None:
    fault = FaultPoint(f"{INTAKE}:Intake._follow", "before", match="'/clear'")
    with a_place(tmp_path, HANG) as (platform, daemon):
        happened = faults.into_daemon(daemon.home, fault)
        daemon.start()
        an_owner(daemon)
        platform.say(ROOM, "work", sender=OWNER)
        platform.wait_for(lambda record: bool(record))
        name = platform.say(ROOM, "/clear", sender=OWNER)
        killed(daemon, happened, fault)
        assert platform.wait_until_accepted(name)
        platform.say(ROOM, "hello", sender=OWNER)
        platform.wait_for(lambda record: any(shown.text == "echo: hello" for shown in record))
        no_more_in_flight(daemon)
        assert platform.texts() == ["working", "Stopped.", CLEARED, "echo: hello"]
        assert unaccounted(daemon) == 0


# A tool with an effect outside of the gateway, which the other side deduplicates by the call's key.

CHARGE = '''
from pathlib import Path
from gatepost.access.tiers import Tier
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import tool


def happen(key: str) -> None:
    """The other side: whatever it is asked for twice under one key it does once."""
    with open(OUTSIDE, "a") as record:
        record.write(key + "\\\\n")


@tool(tier=Tier.WORKER, group="money", effects=())
async def charge(call: ToolCall, amount: int) -> str:
    """Charge somebody."""
    await call.note()
    happen(call.key)
    return "charged"
'''
PAY = (
    ScriptBuilder()
    .turn("pay twice")
    .call("charge", amount=5)
    .say("one")
    .call("charge", amount=5)
    .say("two")
    .turn("pay")
    .call("charge", amount=5)
    .say("paid")
)
DISPATCH = "gatepost.gate.dispatch:Dispatch"
AROUND_A_CALL = [
    FaultPoint(f"{DISPATCH}.call", "before", match="charge"),
    FaultPoint("gatepost.tools.call:ToolCall.note", "before"),
    FaultPoint("gatepost.tools.call:ToolCall.note", "after"),
    FaultPoint(f"{DISPATCH}._run_call", "after", match="charge"),
    FaultPoint(f"{DISPATCH}.call", "after", match="charge"),
    FaultPoint("gatepost.gate.mcp_protocol:McpProtocol._answer", "before", match="charged"),
    FaultPoint("gatepost.gate.mcp_protocol:McpProtocol._answer", "after", match="charged"),
]
INSIDE_A_CALL = [
    FaultPoint("gatepost.inside.mcp_client:McpClient.call", "before", match="charge", act="hold"),
    FaultPoint("gatepost.inside.mcp_client:McpClient.call", "after", match="charge", act="hold"),
    FaultPoint("gatepost.inside.mcp_client:McpClient.call", "after", match="charge"),
    FaultPoint("gatepost.inside.providers.scripted:Journal.append", "after", match="charged", act="hold"),
    FaultPoint("gatepost.inside.providers.scripted:Journal.append", "after", match="charged"),
    FaultPoint(f"{BOX}.add", "before", match="paid"),
    FaultPoint(f"{BOX}.add", "after", match="paid", act="hold"),
]
DAILY.add(str(AROUND_A_CALL[3]))


def charging(daemon: DaemonProcess) -> Path:
    """The tool's file; the other side's record."""
    outside = daemon.home.parent / "outside.txt"
    folder = daemon.home / "plugins" / "tools"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "charge.py").write_text(CHARGE.replace("\\\\n", "\\n").replace("OUTSIDE", repr(str(outside))))
    return outside


@pytest.mark.parametrize("fault", [named(fault) for fault in [*AROUND_A_CALL, *INSIDE_A_CALL]])
def test_stranger_21_a_call_that_is_made_again_after_a_kill_has_the_same_key(tmp_path: Path, fault: FaultPoint) -> None:
    inside = fault in INSIDE_A_CALL
    with a_place(tmp_path, PAY, "faulty" if inside else "scripted") as (platform, daemon):
        outside = charging(daemon)
        happened = (faults.into_runner if inside else faults.into_daemon)(daemon.home, fault)
        daemon.start()
        platform.say(ROOM, "pay")
        (over if inside else killed)(daemon, happened, fault)
        platform.wait_for(lambda record: bool(record))
        no_more_in_flight(daemon)
        assert platform.texts() == ["paid"]
        assert len(set(outside.read_text().split())) == 1
        assert unaccounted(daemon) == 0


@pytest.mark.slow
@pytest.mark.parametrize("nth", [1, 2])
def test_stranger_21_equal_calls_of_one_turn_are_told_apart(tmp_path: Path, nth: int) -> None:
    fault = FaultPoint(f"{DISPATCH}._run_call", "after", match="charge", nth=nth)
    with a_place(tmp_path, PAY) as (platform, daemon):
        outside = charging(daemon)
        happened = faults.into_daemon(daemon.home, fault)
        daemon.start()
        platform.say(ROOM, "pay twice")
        killed(daemon, happened, fault)
        platform.wait_for(lambda record: len(record) >= 2)
        no_more_in_flight(daemon)
        assert platform.texts() == ["one", "two"]
        keys = outside.read_text().split()
        assert len(keys) == 3 and len(set(keys)) == 2


# The gateway dies again and again in one turn.


def saying(count: int, *, hang: bool) -> ScriptBuilder:
    """An agent that says so many words, each once, and then goes on for ever or is done."""
    script = ScriptBuilder().turn("go")
    for number in range(count):
        script = script.say(f"word {number}")
    return script.wait(600) if hang else script


def kill_in_one_turn(platform: Platform, daemon: DaemonProcess, kills: int) -> None:
    """A message whose agent says a new word after each start, and is killed together with the gateway."""
    daemon.start()
    platform.say(ROOM, "go")
    for number in range(1, kills + 1):
        assert platform.wait_for(lambda record, wanted=number: len(record) >= wanted), daemon.stderr()[-3000:]
        daemon.kill()
        saying(number + 1, hang=number < kills).write(daemon.home / "groups" / "home").chmod(0o644)
        daemon.start()


@pytest.mark.slow
def test_a_machine_that_restarts_again_and_again_within_a_turn_fails_no_message(tmp_path: Path) -> None:
    with a_place(tmp_path, saying(1, hang=True)) as (platform, daemon):
        kill_in_one_turn(platform, daemon, 2)
        platform.wait_for(lambda record: len(record) >= 3)
        no_more_in_flight(daemon)

        assert platform.texts() == [f"word {number}" for number in range(3)]
        assert [row["text"] for row in daemon.json("ledger", "list", "--state", "answered") if row["text"]] == ["go"]


@pytest.mark.slow
def test_a_turn_that_may_be_what_ends_the_gateway_is_given_up_in_the_end(tmp_path: Path) -> None:
    with a_place(tmp_path, saying(1, hang=True)) as (platform, daemon):
        kill_in_one_turn(platform, daemon, MOST_RESTARTS + 2)
        platform.wait_for(lambda record: len(record) >= MOST_RESTARTS + 3)
        no_more_in_flight(daemon)

        *words, last = platform.texts()
        assert words == [f"word {number}" for number in range(MOST_RESTARTS + 2)]
        assert last.startswith("Sorry, I could not answer your message: interrupted: the gateway was restarted")
        assert unaccounted(daemon) == 0
