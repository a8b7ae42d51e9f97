"""Answers that grow on a platform: one message, edited while its text is written, which becomes the answer."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gatepost.app import Gateway
from gatepost.messages.outbound import Op
from gatepost.store import messages
from gatepost.testing import faults
from gatepost.testing.channel import FakeChannel
from gatepost.testing.faults import FaultPoint
from gatepost.testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost.testing.platforms.base import ShownMessage
from gatepost.testing.platforms.slack import SlackPlatform
from gatepost.testing.provider import ScriptBuilder
from gatepost.testing.waiting import until

from .channel_desk import ChannelDesk
from .conftest import ROOM, add_route

FIRST, SECOND, SAID = "The unfinished", "The unfinished symph", "The unfinished symphony is whole."
SCRIPT = ScriptBuilder().turn("play").draft(FIRST).wait_for("more").draft(SECOND).wait_for("go").say(SAID)


@pytest.fixture
def channel() -> FakeChannel:
    return FakeChannel(max_text=200)


async def prepare(gateway: Gateway, script: ScriptBuilder) -> None:
    await open_room(gateway, "fake", ROOM)
    await add_route(gateway, f"chat_jid={ROOM}", "home")
    script.write(gateway.home.group("home")).chmod(0o644)


def go_on(gateway: Gateway, name: str) -> None:
    (gateway.home.group("home") / name).touch()


def list_ops(channel: FakeChannel) -> list[tuple[Op, str]]:
    return [(each.message.op, each.message.text) for each in channel.sent]


async def test_an_answer_grows_by_edits_and_its_row_has_the_final_text_and_the_platforms_id(
    tmp_path: Path, channel: FakeChannel
) -> None:
    grows = replace(channel.kind, drafts=True)
    async with running_gateway(tmp_path, {"fake": (grows, channel)}) as gateway:
        await prepare(gateway, SCRIPT)
        await channel.say("play")
        await channel.wait_for(1)
        go_on(gateway, "more")
        await channel.wait_for(2)
        go_on(gateway, "go")
        await channel.wait_for(3)
        await wait_until_settled(gateway)
        assert list_ops(channel) == [(Op.SEND, FIRST), (Op.EDIT, SECOND), (Op.EDIT, SAID)]
        shown = channel.sent[0].platform_id
        assert [each.message.target for each in channel.sent[1:]] == [shown, shown]
        rows = await gateway.store.read(messages.list_in_room, "fake", ROOM, 0, 100)
        assert [each.text for each in rows if each.platform_id == shown] == [SAID]


async def test_what_does_not_fit_follows_as_messages_of_its_own(tmp_path: Path, channel: FakeChannel) -> None:
    grows, long = replace(channel.kind, drafts=True), "one two " * 60
    script = ScriptBuilder().turn("play").draft("one two").wait_for("go").say(long)
    async with running_gateway(tmp_path, {"fake": (grows, channel)}) as gateway:
        await prepare(gateway, script)
        await channel.say("play")
        await channel.wait_for(1)
        go_on(gateway, "go")
        await wait_until_settled(gateway)
        ops = list_ops(channel)
        assert [op for op, _ in ops] == [Op.SEND, Op.EDIT, Op.SEND, Op.SEND]
        assert " ".join(text for _, text in ops[1:]).split() == long.split()


async def test_a_quick_answer_is_one_message_and_without_the_option_none_is_edited(
    tmp_path: Path, channel: FakeChannel
) -> None:
    script = ScriptBuilder().turn("play").draft(FIRST).say(SAID)
    async with running_gateway(tmp_path, {"fake": (replace(channel.kind, drafts=True), channel)}) as gateway:
        await prepare(gateway, script)
        await channel.say("play")
        await wait_until_settled(gateway)
        assert list_ops(channel) == [(Op.SEND, SAID)]


async def test_the_draft_of_a_turn_that_says_nothing_is_deleted(tmp_path: Path, channel: FakeChannel) -> None:
    script = ScriptBuilder().turn("play").draft(FIRST).wait_for("go")
    async with running_gateway(tmp_path, {"fake": (replace(channel.kind, drafts=True), channel)}) as gateway:
        await prepare(gateway, script)
        await channel.say("play")
        await channel.wait_for(1)
        go_on(gateway, "go")
        await until(lambda: len(channel.sent) == 2, "the deletion")
        assert (channel.sent[1].message.op, channel.sent[1].message.target) == (Op.DELETE, channel.sent[0].platform_id)


# Kills, judged by what people on the platform ever saw.


class GrowingSlack(SlackPlatform):
    def get_settings(self) -> dict[str, Any]:
        return {**super().get_settings(), "drafts": True}


@pytest.fixture
def platform() -> Iterator[SlackPlatform]:
    with GrowingSlack() as made:
        yield made


STORE, SEND = "gatepost.store.growing_drafts", "gatepost.channels.slack.sending:SlackSender.send"
OUTCOME = "gatepost.flow.delivery.outbox_claims:settle_effect"
DRAFTS = [
    FaultPoint(f"{STORE}:record", "after"),
    FaultPoint(SEND, "before", match="/draft/"),
    FaultPoint(SEND, "after", match="/draft/"),
    FaultPoint(OUTCOME, "after", match="/draft/"),
]
ANSWERS = [
    FaultPoint(f"{STORE}:claim", "before"),
    FaultPoint(f"{STORE}:claim", "after"),
    FaultPoint(SEND, "before", match=SAID),
    FaultPoint(SEND, "after", match=SAID),
    FaultPoint(f"{STORE}:take_place", "before"),
    FaultPoint(f"{STORE}:take_place", "after"),
    FaultPoint(OUTCOME, "after", match=SAID),
]


def list_said(platform: SlackPlatform) -> list[ShownMessage]:
    """Whatever people ever saw of the bot."""
    with platform.changed:
        return [each for each in platform.record if each.sender == "bot"]


@pytest.mark.parametrize("fault", [*DRAFTS, *ANSWERS], ids=str)
def test_a_kill_at_any_step_leaves_one_message_with_the_final_text(
    tmp_path: Path, platform: SlackPlatform, fault: FaultPoint
) -> None:
    script = ScriptBuilder().turn("play").draft(FIRST).wait_for("go").say(SAID)
    desk = ChannelDesk(tmp_path, platform, script)
    happened = faults.into_daemon(desk.daemon.home, fault)
    folder = desk.daemon.home / "groups" / "home"
    with desk:
        platform.send("play", room="direct:ann")
        if fault in ANSWERS:
            desk.wait_for_text(FIRST)
            (folder / "go").touch()
        assert faults.wait_for_fault(happened), f"it never came to this: {fault}\n{desk.daemon.stderr()[-3000:]}"
        desk.daemon.kill()
        (desk.daemon.home / "plugins" / "tools" / "fault.py").unlink()
        (folder / "go").touch()
        with suppress(AssertionError):
            desk.daemon.start()
        desk.wait_for_text(SAID)
        desk.wait_until_settled()
        assert [(each.text, each.deleted) for each in list_said(platform)] == [(SAID, False)]
        assert desk.daemon.json("ledger", "check")["unaccounted"] == 0
