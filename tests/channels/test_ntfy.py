"""ntfy: what a stranger's message can and cannot do, and what the operator is told. The suite grades the rest."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from gatepost.channels.contract import CHANNELS, ChannelEnded, EndReason, SupportsCheck
from gatepost.channels.ntfy import wire
from gatepost.core import registry
from gatepost.core.errors import NotFound, Unavailable, Unsupported
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Op, Outbound
from gatepost.testing.platforms.base import GivenFile, PlatformFault
from gatepost.testing.platforms.ntfy import NtfyPlatform
from gatepost.testing.platforms.wiring import listening, make_channel

ORIGIN = "https://ntfy.example"
LINE = {"id": "a1", "time": 1_700_000_000, "event": "message", "topic": "team", "message": "hi"}


@pytest.fixture
def platform() -> Iterator[NtfyPlatform]:
    with NtfyPlatform() as made:
        assert isinstance(made, NtfyPlatform)
        yield made


def read(protected: bool = True, **changes: Any) -> wire.NtfyMessage | None:
    return wire.read_line(json.dumps({**LINE, **changes}).encode(), protected, ORIGIN)


def test_a_message_is_nobodys_and_untrusted_unless_the_topic_is_protected() -> None:
    for protected, verb in ((True, Verb.MESSAGE), (False, Verb.UNTRUSTED)):
        found = read(protected, title="Disk")
        assert found is not None
        event = found.inbound
        assert (event.address, event.sender, event.text, event.verb) == ("ntfy:team", wire.ANYBODY, "Disk\nhi", verb)
        assert event.at == 1_700_000_000_000_000 and not event.own


def test_what_a_gateway_said_is_its_own() -> None:
    found = read(tags=["gatepost", "warning"])
    assert found is not None and found.inbound.own


@pytest.mark.parametrize(
    "changes",
    [
        {"event": "keepalive"},
        {"event": "open"},
        {"topic": "a b"},
        {"topic": "../x"},
        {"topic": 5},
        {"id": ""},
        {"id": "x y"},
        {"id": None},
    ],
)
def test_what_is_no_message_is_left_out(changes: dict[str, Any]) -> None:
    assert read(**changes) is None


@pytest.mark.parametrize("line", [b"", b"x", b"[]", b"5", b"[" * 100_000, b"\xff"])
def test_a_line_that_is_no_object_is_left_out(line: bytes) -> None:
    assert wire.read_line(line, True, ORIGIN) is None


@pytest.mark.parametrize(
    "url", ["http://169.254.169.254/x", "https://ntfy.example.evil/x", "file:///etc/passwd", "//x"]
)
def test_a_file_elsewhere_stays_a_link(url: str) -> None:
    found = read(attachment={"name": "a", "url": url})
    assert found is not None and found.file is None and found.inbound.text == f"hi\n{url}"
    own = read(attachment={"name": "a", "url": f"{ORIGIN}/file/a.bin"})
    assert own is not None and own.file is not None


async def test_a_file_of_the_server_streams(platform: NtfyPlatform) -> None:
    channel, _ = make_channel(platform)
    async with listening(channel) as received:
        platform.send("look", files=[GivenFile("a.txt", b"abc", "text/plain")])
        (event,) = await received.wait_for(1)
        assert event.attachments[0].open is not None
        assert b"".join([chunk async for chunk in event.attachments[0].open()]) == b"abc"


async def test_only_its_topics_are_written_to(platform: NtfyPlatform) -> None:
    channel, _ = make_channel(platform)
    for address in ("ntfy:other", "ntfy:../x", "telegram:team"):
        with pytest.raises(NotFound, match="the topics are: team, alerts"):
            await channel.send(address, Outbound(key="k", text="x"))
    with pytest.raises(Unsupported):
        await channel.send("ntfy:team", Outbound(key="k", op=Op.EDIT, text="x", target="1"))
    assert platform.texts() == []


async def test_a_lost_answer_is_uncertain_and_a_busy_server_too(platform: NtfyPlatform) -> None:
    channel, _ = make_channel(platform)
    for fault in (PlatformFault.NO_ANSWER, PlatformFault.BUSY):
        platform.fault(fault)
        with pytest.raises(Unavailable) as raised:
            await channel.send("ntfy:team", Outbound(key="k", text="x"))
        assert raised.value.uncertain


@pytest.mark.parametrize(
    ("settings", "reason", "named"),
    [
        ({"topics": ()}, EndReason.SETTING, "no topic"),
        ({"topics": ("a b",)}, EndReason.SETTING, "'a b' is no topic"),
        ({"topics": ("json/../x",)}, EndReason.SETTING, "is no topic"),
        ({"api_url": "ntfy.sh"}, EndReason.SETTING, "no web address"),
    ],
)
async def test_a_wrong_setting_is_named(
    platform: NtfyPlatform, settings: dict[str, Any], reason: EndReason, named: str
) -> None:
    channel, _ = make_channel(platform, **settings)
    assert isinstance(channel, SupportsCheck)
    with pytest.raises(ChannelEnded, match=named) as raised:
        await channel.check()
    assert raised.value.reason is reason


async def test_a_check_says_whether_what_comes_is_trusted(platform: NtfyPlatform) -> None:
    for protected, notes in ((True, 0), (False, 1)):
        channel, _ = make_channel(platform, protected=protected)
        assert isinstance(channel, SupportsCheck)
        found = await channel.check()
        assert found.name == "topics team, alerts" and len(found.notes) == notes


def test_it_declares_that_it_was_never_run_against_the_platform() -> None:
    registry.load_package("gatepost.channels")
    assert "never" in CHANNELS["ntfy"].tested_against
