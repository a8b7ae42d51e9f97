"""Traces of whole gateways, as a receiver of OpenTelemetry gets them."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from gatepost.app import Gateway
from gatepost.serve.control.operations.ledger import find_trace, make_trace_view
from gatepost_testing.channel import FakeChannel, SendFault
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.platform import Platform
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.servers.otlp_receiver import OtlpReceiver, ReceivedSpan, ReceiverAnswer, find_faults
from gatepost_testing.storms.faults import FaultPoint
from gatepost_testing.waiting import block_until, until

from .conftest import ROOM, add_route
from .test_errands import CHAIN, settle, write_chain
from .test_errands_killed import kill_at
from .test_kills import SETTINGS

SECRET = "xylophone"


def list_roots(spans: Sequence[ReceivedSpan]) -> list[ReceivedSpan]:
    return [each for each in spans if not each.parent]


def get_tree(spans: Sequence[ReceivedSpan], root: ReceivedSpan) -> dict[str, list[str]]:
    """By the name of a span, the names of its children, in the order of their starts."""
    own = sorted(
        (each for each in spans if each.trace_id == root.trace_id), key=lambda each: (each.start, each.end, each.name)
    )
    return {each.name: [child.name for child in own if child.parent == each.span_id] for each in own}


async def wait_for_roots(receiver: OtlpReceiver, count: int) -> list[ReceivedSpan]:
    await until(lambda: len(list_roots(receiver.list_spans())) >= count, f"{count} traces")
    return receiver.list_spans()


async def prepare(gateway: Gateway) -> None:
    await open_room(gateway, "fake", ROOM)
    await add_route(gateway, f"chat_jid={ROOM}", "home")


@pytest.mark.slow
async def test_a_message_is_one_trace_from_its_acceptance_to_the_answer_and_has_nobodys_words(
    tmp_path: Path, channel: FakeChannel
) -> None:
    """A tool is called, another call is refused, and the platform wants what is sent first a second time."""
    script = ScriptBuilder().turn("hello").call("send", text=f"by a tool, {SECRET}")
    script.call("send", chatJid="fake:room/9", text=SECRET)
    with OtlpReceiver() as receiver:
        async with running_gateway(
            tmp_path, {"fake": (channel.kind, channel)}, telemetry__otlp_endpoint=receiver.url
        ) as gateway:
            await prepare(gateway)
            script.say(f"the answer has {SECRET}").write(gateway.home.group("home")).chmod(0o644)
            channel.script(SendFault.UNAVAILABLE)
            await channel.say(f"hello {SECRET}", sender=f"fake:user/{SECRET}")
            spans = await wait_for_roots(receiver, 1)
            await wait_until_settled(gateway)
            [root] = list_roots(spans)
            life = await gateway.store.read(find_trace, str(root.attributes["gatepost.message.id"]))
    assert root.trace_id == make_trace_view(life).trace_id
    assert find_faults(spans) == []
    tree = get_tree(spans, root)
    assert tree["message"][:4] == ["accept", "route", "queue", "turn"] and "deliver" in tree["message"]
    assert tree["turn"] == ["execute_tool send"] * 2
    calls = sorted((each for each in spans if "gen_ai.tool.name" in each.attributes), key=lambda each: each.start)
    assert [(each.attributes["gatepost.gate.verdict"], each.failed) for each in calls] == [
        ("allowed", False),
        ("refused", True),
    ]
    sends = [each for each in spans if each.name == "send"]
    assert sorted(each.attributes["gatepost.outcome"] for each in sends) == ["retry", "sent", "sent"]
    assert receiver.bodies and not any(SECRET.encode() in body for body in receiver.bodies)


@pytest.mark.slow
async def test_messages_that_one_turn_works_on_have_a_trace_each_and_these_are_linked(
    tmp_path: Path, channel: FakeChannel
) -> None:
    script = ScriptBuilder().turn("slow").wait_for_message().say("done")
    with OtlpReceiver() as receiver:
        async with running_gateway(
            tmp_path, {"fake": (channel.kind, channel)}, telemetry__otlp_endpoint=receiver.url
        ) as gateway:
            await prepare(gateway)
            script.write(gateway.home.group("home")).chmod(0o644)
            await channel.say("slow")
            await channel.say("and me")
            spans = await wait_for_roots(receiver, 2)
    assert find_faults(spans) == []
    one, other = [each for each in spans if each.name == "turn"]
    assert one.trace_id != other.trace_id
    assert one.attributes["gatepost.turn.id"] == other.attributes["gatepost.turn.id"]
    assert [(link.trace_id, link.span_id) for link in one.links] == [(other.trace_id, other.span_id)]
    assert [(link.trace_id, link.span_id) for link in other.links] == [(one.trace_id, one.span_id)]


@pytest.mark.slow
async def test_work_that_goes_down_three_groups_is_linked_to_the_turn_that_gave_it_out_and_its_result_to_it(
    tmp_path: Path, channel: FakeChannel
) -> None:
    with OtlpReceiver() as receiver:
        async with running_gateway(
            tmp_path, {"fake": (channel.kind, channel)}, telemetry__otlp_endpoint=receiver.url
        ) as gateway:
            await settle(gateway, *CHAIN)
            write_chain(gateway.home.groups)
            await channel.say("how many servers do we have?")
            spans = await wait_for_roots(receiver, 7)  # one of a person, three errands, three results
    assert find_faults(spans) == []
    by_id = {each.span_id: each for each in spans}
    linked = {
        (by_id[link.span_id].name, by_id[link.span_id].attributes.get("gatepost.group"), _get_group(spans, root))
        for root in list_roots(spans)
        for link in root.links
    }
    down = {("turn", above, below) for above, below in pairwise(CHAIN)}
    up = {("message", None, above) for above in CHAIN[:-1]}
    assert linked == down | up


def _get_group(spans: Sequence[ReceivedSpan], root: ReceivedSpan) -> object:
    routes = [each for each in spans if each.name == "route" and each.trace_id == root.trace_id]
    return routes[0].attributes["gatepost.group"]


ANSWERS = {
    "a page": ReceiverAnswer(body=b"<html>hello</html>", media_type="text/html"),
    "busy": ReceiverAnswer(status=503, headers={"retry-after": "0"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS.keys())
async def test_a_receiver_that_answers_otherwise_delays_traces_and_no_message(
    tmp_path: Path, channel: FakeChannel, answer: ReceiverAnswer
) -> None:
    with OtlpReceiver() as receiver:
        receiver.answer = answer
        async with running_gateway(
            tmp_path, {"fake": (channel.kind, channel)}, telemetry__otlp_endpoint=receiver.url
        ) as gateway:
            await prepare(gateway)
            await channel.say("hello")
            await channel.wait_for(1)
            await until(lambda: gateway.traces.trouble, "the trouble to be known")
            [found] = [each for each in await gateway.health.list_findings() if each.subject == "telemetry"]
            assert gateway.traces.trouble in found.text
            receiver.answer = ReceiverAnswer()
            spans = await wait_for_roots(receiver, 1)
            await until(lambda: not gateway.traces.trouble, "the trouble to be over")
            counts = gateway.traces.get_counts()
    assert find_faults(spans) == []
    assert counts is not None and (counts.sent, counts.dropped, counts.skipped) == (len(spans), 0, 0)


@pytest.mark.slow
async def test_spans_that_the_receiver_never_takes_are_counted_and_hold_up_no_others(
    tmp_path: Path, channel: FakeChannel
) -> None:
    with OtlpReceiver() as receiver:
        receiver.answer = ReceiverAnswer(status=400)
        async with running_gateway(
            tmp_path, {"fake": (channel.kind, channel)}, telemetry__otlp_endpoint=receiver.url
        ) as gateway:
            await prepare(gateway)
            await channel.say("hello")
            await until(lambda: (found := gateway.traces.get_counts()) is not None and found.dropped, "the refusal")
            receiver.answer = ReceiverAnswer()
            await channel.say("again")
            spans = await wait_for_roots(receiver, 1)
    assert find_faults(spans) == []


@pytest.mark.slow
async def test_a_receiver_that_is_silent_keeps_no_gateway_from_answering_or_from_ending(
    tmp_path: Path, channel: FakeChannel
) -> None:
    with OtlpReceiver() as receiver:
        receiver.hold()
        async with running_gateway(
            tmp_path, {"fake": (channel.kind, channel)}, telemetry__otlp_endpoint=receiver.url
        ) as gateway:
            await prepare(gateway)
            await channel.say("hello")
            await until(lambda: receiver.requests, "the request")
            await channel.say("again")
            await channel.wait_for(2)
        assert gateway.left == "" and receiver.list_spans() == []


async def test_without_an_endpoint_nothing_is_read_or_sent(tmp_path: Path, channel: FakeChannel) -> None:
    async with running_gateway(tmp_path, {"fake": (channel.kind, channel)}) as gateway:
        await prepare(gateway)
        await channel.say("hello")
        await channel.wait_for(1)
        assert not gateway.traces.is_on and gateway.traces.get_counts() is None
    assert not (tmp_path / "telemetry.cursor").exists()


# A daemon that is killed.

TURNS = "gatepost.store.sessions.turns"
EXPORT = "gatepost.serve.telemetry"
KILLS = [
    FaultPoint(f"{TURNS}:begin", "after"),
    FaultPoint("gatepost.flow.sessions.runner.runner_protocol:RunnerProtocol._record_results", "after"),
    FaultPoint(f"{TURNS}:finish", "before"),
    FaultPoint(f"{EXPORT}.otlp:OtlpClient.send", "before"),
    FaultPoint(f"{EXPORT}.otlp:OtlpClient.send", "after"),
    FaultPoint(f"{EXPORT}.trace_export:write_cursor", "before"),
    FaultPoint(f"{EXPORT}.trace_export:write_cursor", "after"),
]


@pytest.mark.slow
def test_a_gateway_that_is_killed_at_each_step_sends_one_whole_trace_of_the_message(tmp_path: Path) -> None:
    """One kill after another in one run. What was sent before one may be sent once more: the same spans."""
    home = tmp_path / "h"
    ScriptBuilder().turn("hello").say("seven").write(home / "groups" / "home").chmod(0o644)
    with OtlpReceiver() as receiver, Platform(tmp_path / "platform.sock") as platform:
        platform.plug_into(home)
        daemon = DaemonProcess(home, sessions_provider="scripted", telemetry_otlp_endpoint=receiver.url, **SETTINGS)
        with daemon:  # its cursor is there from the first start on
            block_until(lambda: (home / "telemetry.cursor").exists(), "the cursor")
        try:
            platform.say("room/1", "hello")
            for fault in KILLS:
                kill_at(daemon, fault)
            (home / "plugins" / "tools" / "fault.py").unlink()
            daemon.start()
            assert platform.wait_for(lambda record: bool(record)), daemon.stderr()[-3000:]
            receiver.wait_for(list_roots)
        finally:
            daemon.stop()
    assert platform.texts() == ["seven"]
    found: dict[str, ReceivedSpan] = {}
    for each in receiver.list_spans():
        assert found.setdefault(each.span_id, each) == each
    whole = list(found.values())
    assert find_faults(whole) == [] and len(list_roots(whole)) == 1
    [turn] = [each for each in whole if each.name == "turn"]
    assert turn.attributes["gatepost.turn.attempt"] > 1
