"""The health of a channel: decisions on values, the states that evidence leads to, and the remedies of an end."""

import asyncio

import pytest

from gatepost.channels.contract import CHANNELS, ChannelEnded, ChannelState, EndReason, Receive
from gatepost.channels.kit.backoff import Backoff
from gatepost.core import registry
from gatepost.core.clock import SECOND, SystemClock
from gatepost.core.errors import Unavailable
from gatepost.flow.channel_health import (
    ChannelHealth,
    ChannelReport,
    is_deaf,
    next_wait,
    render_for_running,
    render_trouble,
    reword_for_new,
)
from gatepost.flow.channel_supervisor import run_channel
from gatepost.messages.inbound import Inbound, Receipt
from gatepost.messages.outbound import Outbound
from gatepost.serve.control.answers import from_json, to_json
from gatepost_testing.waiting import until


@pytest.mark.parametrize(
    ("started", "last", "now", "after", "deaf"),
    [
        (0, None, 9, 10.0, False),
        (0, None, 11, 10.0, True),
        (0, 5, 11, 10.0, False),
        (0, 5, 16, 10.0, True),
        (0, None, 10_000, 0.0, False),  # it gives no such evidence
    ],
)
def test_a_channel_is_deaf_without_a_beat_for_too_long(
    started: int, last: int | None, now: int, after: float, deaf: bool
) -> None:
    beat = None if last is None else last * SECOND
    assert is_deaf(started * SECOND, beat, now * SECOND, after) is deaf


@pytest.mark.parametrize(
    ("wait", "last", "now", "following"),
    [
        (0.0, None, 0, 1.0),
        (1.0, None, 1, 2.0),
        (32.0, None, 1, 60.0),
        (60.0, None, 59, 60.0),
        (60.0, None, 61, 1.0),  # never beats, and ran for long
        (8.0, 3, 3, 16.0),  # it beat, and not for longer than it had to wait: it flaps
        (8.0, 9, 9, 1.0),
        (8.0, 9, 500, 1.0),
        (8.0, 3, 500, 16.0),  # it beat, and then it was silent: no evidence
    ],
)
def test_waits_double_and_begin_anew_after_evidence(wait: float, last: int | None, now: int, following: float) -> None:
    beat = None if last is None else last * SECOND
    assert next_wait(wait, 0, beat, now * SECOND) == following


def test_one_that_broke_counts_as_such_until_it_beats() -> None:
    health = ChannelHealth("north", "beacon", SystemClock(), deaf_after_s=10)
    health.begin()
    assert health.state is ChannelState.STARTING
    health.record_break("no network", 1.0)
    health.begin()
    assert (health.state, health.report().error) == (ChannelState.RETRYING, "no network")
    health.pulse.beat()
    assert (health.state, health.report().error) == (ChannelState.UP, "")


def test_whoever_follows_it_is_told_of_each_new_state_once() -> None:
    health, told = ChannelHealth("north", "beacon", SystemClock(), deaf_after_s=10), []
    health.on_state = lambda instance: told.append((instance, health.state))
    health.begin()
    health.record_break("no network", 1.0)
    health.record_break("no network", 2.0)
    health.pulse.beat()
    health.pulse.beat()
    assert told == [("north", ChannelState.RETRYING), ("north", ChannelState.UP)]


def test_one_without_evidence_is_up_while_it_listens() -> None:
    health = ChannelHealth("north", "beacon", SystemClock())
    health.begin()
    assert health.state is ChannelState.UP
    health.record_event()
    assert health.report().event_at is not None


def test_one_that_has_ended_stays_so_whatever_still_beats() -> None:
    health = ChannelHealth("north", "beacon", SystemClock(), deaf_after_s=10)
    health.record_end(ChannelEnded(EndReason.SECOND_POLLER, "another program receives", "stop it"))
    health.pulse.beat()
    report = health.report()
    assert (report.state, report.reason, report.is_well) == (ChannelState.ENDED, EndReason.SECOND_POLLER, False)
    assert render_trouble(report) == ("ended: another program receives; stop it, then `gatepost channel restart north`")
    assert render_trouble(from_json(ChannelReport, to_json(report))) == render_trouble(report)


def test_one_whose_platform_is_not_reached_is_not_up_until_it_beats() -> None:
    health = ChannelHealth("north", "beacon", SystemClock(), deaf_after_s=400)
    health.begin()
    health.pulse.beat()
    health.pulse.miss("refused")
    assert health.state is ChannelState.UP  # a connection was renewed
    health.pulse.miss("refused")
    assert (health.state, health.report().error) == (ChannelState.RETRYING, "refused")
    health.pulse.beat()
    assert health.state is ChannelState.UP
    health.pulse.miss("refused", at_once=True)
    assert health.state is ChannelState.RETRYING
    silent = ChannelHealth("south", "beacon", SystemClock())
    silent.begin()
    silent.pulse.miss("refused", at_once=True)
    assert silent.state is ChannelState.UP  # nothing would ever show that it is well again


async def test_a_channel_that_tries_to_connect_in_vain_says_so_at_once() -> None:
    class Vain:
        async def listen(self, receive: Receive) -> None:
            backoff = Backoff(0.001, 0.001)
            while True:
                try:
                    raise Unavailable("the server", "connection refused")
                except Unavailable:
                    await backoff.wait()

        async def send(self, address: str, message: Outbound) -> str:
            raise AssertionError

    async def receive(inbound: Inbound) -> Receipt:
        raise AssertionError

    health = ChannelHealth("north", "beacon", SystemClock(), deaf_after_s=400)
    task = asyncio.create_task(run_channel(Vain(), health, receive))
    await until(lambda: health.state is ChannelState.RETRYING)
    assert "connection refused" in health.report().error
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    ("reason", "given", "running", "new"),
    [
        (
            EndReason.TOKEN,
            "set a valid one with `gatepost channel set`",
            "set a valid one with `gatepost channel set work --secret token`",
            "add the channel again with a valid one",
        ),
        (
            EndReason.TOKEN,
            "copy it from Settings, and set it with `gatepost channel set`",
            "copy it from Settings, and set it with `gatepost channel set work --secret token`",
            "copy it from Settings, and add the channel again with it",
        ),
        (
            EndReason.SETTING,
            "set its host with `gatepost channel set`",
            "set its host with `gatepost channel set work --set …`",
            "add the channel again with its host",
        ),
        (
            EndReason.SECOND_POLLER,
            "stop it, then start this channel again",
            "stop it, then `gatepost channel restart work`",
            "stop it, then add the channel again",
        ),
        (EndReason.SECOND_POLLER, "stop it", "stop it, then `gatepost channel restart work`", "stop it"),
        (EndReason.RIGHTS, "switch it on there", "switch it on there", "switch it on there"),
    ],
)
def test_the_way_out_has_whole_commands(reason: EndReason, given: str, running: str, new: str) -> None:
    registry.load_package("gatepost.channels")
    error = ChannelEnded(reason, "it no longer accepts the token", given)
    assert render_for_running(error, "work", CHANNELS["telegram"]) == running
    assert str(reword_for_new(error)) == f"it does not accept the token; {new}"


def test_of_several_secrets_none_is_named() -> None:
    registry.load_package("gatepost.channels")
    error = ChannelEnded(EndReason.TOKEN, "no", "set it with `gatepost channel set`")
    assert render_for_running(error, "work", CHANNELS["slack"]) == "set it with `gatepost channel set work`"
