"""Answers that grow on a platform: one message, edited while its text is written, which becomes the answer."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatepost.app import Gateway
from gatepost.messages.outbound import Op
from gatepost.store.messages import messages
from gatepost_testing.channel import FakeChannel, SendFault
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.platforms.base import EmulatedPlatform, PlatformFault
from gatepost_testing.platforms.discord import DiscordPlatform
from gatepost_testing.platforms.mattermost import MattermostPlatform
from gatepost_testing.platforms.slack import SlackPlatform
from gatepost_testing.platforms.teams import TeamsPlatform
from gatepost_testing.platforms.telegram import TelegramPlatform
from gatepost_testing.platforms.zulip import ZulipPlatform
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.servers.synapse import is_installed
from gatepost_testing.storms import faults
from gatepost_testing.storms.faults import FaultPoint
from gatepost_testing.waiting import until

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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("fault", [SendFault.UNCERTAIN, SendFault.UNCERTAIN_LOST, SendFault.UNAVAILABLE])
async def test_a_last_edit_that_may_not_have_happened_is_done_again(
    tmp_path: Path, channel: FakeChannel, fault: SendFault
) -> None:
    script = ScriptBuilder().turn("play").draft(FIRST).wait_for("go").say(SAID)
    async with running_gateway(tmp_path, {"fake": (replace(channel.kind, drafts=True), channel)}) as gateway:
        await prepare(gateway, script)
        await channel.say("play")
        await channel.wait_for(1)
        channel.script(fault)
        go_on(gateway, "go")
        await wait_until_settled(gateway)
        ops = list_ops(channel)
        assert ops[0] == (Op.SEND, FIRST) and set(ops[1:]) == {(Op.EDIT, SAID)}


@pytest.mark.slow
async def test_an_answer_whose_draft_cannot_be_edited_any_more_is_a_message_and_the_draft_goes(
    tmp_path: Path, channel: FakeChannel
) -> None:
    script = ScriptBuilder().turn("play").draft(FIRST).wait_for("go").say(SAID)
    async with running_gateway(tmp_path, {"fake": (replace(channel.kind, drafts=True), channel)}) as gateway:
        await prepare(gateway, script)
        await channel.say("play")
        await channel.wait_for(1)
        channel.script(SendFault.REFUSE)
        go_on(gateway, "go")
        await wait_until_settled(gateway)
        assert list_ops(channel) == [(Op.SEND, FIRST), (Op.SEND, SAID), (Op.DELETE, "")]
        assert channel.sent[2].message.target == channel.sent[0].platform_id


async def test_a_quick_answer_is_one_message_and_without_the_option_none_is_edited(
    tmp_path: Path, channel: FakeChannel
) -> None:
    script = ScriptBuilder().turn("play").draft(FIRST).say(SAID)
    async with running_gateway(tmp_path, {"fake": (replace(channel.kind, drafts=True), channel)}) as gateway:
        await prepare(gateway, script)
        await channel.say("play")
        await wait_until_settled(gateway)
        assert list_ops(channel) == [(Op.SEND, SAID)]


@pytest.mark.slow
async def test_the_draft_of_a_turn_that_says_nothing_is_deleted(tmp_path: Path, channel: FakeChannel) -> None:
    script = ScriptBuilder().turn("play").draft(FIRST).wait_for("go")
    async with running_gateway(tmp_path, {"fake": (replace(channel.kind, drafts=True), channel)}) as gateway:
        await prepare(gateway, script)
        await channel.say("play")
        await channel.wait_for(1)
        go_on(gateway, "go")
        await until(lambda: len(channel.sent) == 2, "the deletion")
        assert (channel.sent[1].message.op, channel.sent[1].message.target) == (Op.DELETE, channel.sent[0].platform_id)


@pytest.mark.slow
async def test_what_had_grown_when_it_was_stopped_stays_and_is_marked(tmp_path: Path, channel: FakeChannel) -> None:
    script = ScriptBuilder().turn("play").draft(FIRST).wait_for("go").say(SAID)
    async with running_gateway(tmp_path, {"fake": (replace(channel.kind, drafts=True), channel)}) as gateway:
        await prepare(gateway, script)
        await channel.say("play")
        await channel.wait_for(1)
        await channel.say("/stop")
        await channel.wait_for(3)
        await wait_until_settled(gateway)
        kept = f"{FIRST}\n\n(stopped)"
        assert list_ops(channel) == [(Op.SEND, FIRST), (Op.EDIT, kept), (Op.SEND, "Stopped.")]
        rows = await gateway.store.read(messages.list_in_room, "fake", ROOM, 0, 100)
        assert [each.text for each in rows if each.platform_id == channel.sent[0].platform_id] == [kept]


# Kills and faults, judged by what people on the platform ever saw.


def load_platform(kind: str) -> EmulatedPlatform:
    """With the option on."""
    made: EmulatedPlatform = EMULATORS[kind]()
    given = made.get_settings
    made.get_settings = lambda: {**given(), "drafts": True}  # type: ignore[method-assign]
    return made


def load_matrix() -> EmulatedPlatform:
    """A Synapse with encrypted rooms, behind a proxy that makes the faults."""
    if not is_installed():
        pytest.skip("Synapse is not installed")
    from gatepost_testing.servers.matrix_server import MatrixServer

    return MatrixServer()


EMULATORS: dict[str, Callable[[], EmulatedPlatform]] = {
    "slack": SlackPlatform,
    "discord": DiscordPlatform,
    "mattermost": MattermostPlatform,
    "telegram": TelegramPlatform,
    "matrix": load_matrix,
    "zulip": ZulipPlatform,
    "teams": TeamsPlatform,
}
UNASKABLE = {"telegram", "teams"}  # nobody can know the id of first words whose sending was interrupted
SENDERS = {
    "slack": "gatepost.channels.slack.sending:SlackSender.send",
    "discord": "gatepost.channels.discord.adapter:DiscordChannel.send",
    "mattermost": "gatepost.channels.mattermost.adapter:MattermostChannel.send",
    "telegram": "gatepost.channels.telegram.adapter:TelegramChannel.send",
    "matrix": "gatepost.channels.matrix.adapter:Matrix.send",
    "zulip": "gatepost.channels.zulip.adapter:ZulipChannel.send",
    "teams": "gatepost.channels.teams.adapter:TeamsBot.send",
}
STORE, OUTCOME = "gatepost.store.messages.growing_drafts", "gatepost.flow.delivery.outbox_claims:settle_effect"
SLOW, EDIT = pytest.mark.slow, "/draft/1/1"
KILLS = [
    pytest.param("slack", FaultPoint(f"{STORE}:record", "after"), marks=SLOW),
    pytest.param("slack", FaultPoint(SENDERS["slack"], "before", match="/draft/"), marks=SLOW),
    ("slack", FaultPoint(SENDERS["slack"], "after", match="/draft/")),
    pytest.param("slack", FaultPoint(OUTCOME, "after", match="/draft/"), marks=SLOW),
    pytest.param("slack", FaultPoint(SENDERS["slack"], "after", match=EDIT), marks=SLOW),
    pytest.param("slack", FaultPoint(f"{STORE}:claim", "before"), marks=SLOW),
    pytest.param("slack", FaultPoint(f"{STORE}:claim", "after"), marks=SLOW),
    pytest.param("slack", FaultPoint(SENDERS["slack"], "before", match=SAID), marks=SLOW),
    ("slack", FaultPoint(SENDERS["slack"], "after", match=SAID)),
    ("slack", FaultPoint(f"{STORE}:release_platform_id", "before")),
    pytest.param("slack", FaultPoint(f"{STORE}:release_platform_id", "after"), marks=SLOW),
    pytest.param("slack", FaultPoint(OUTCOME, "after", match=SAID), marks=SLOW),
    *(
        pytest.param(kind, FaultPoint(SENDERS[kind], "after", match=match), marks=SLOW)
        for kind in SENDERS
        for match in ("/draft/", SAID)
        if kind != "slack"
    ),
]


def list_said(platform: EmulatedPlatform) -> list[tuple[str, bool]]:
    """Whatever people ever saw of the bot, and whether it is gone."""
    with platform.changed:
        return [(each.text, each.deleted) for each in platform.record if each.sender == "bot"]


def touch(desk: ChannelDesk, *names: str) -> None:
    for name in names:
        (desk.daemon.home / "groups" / "home" / name).touch()


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "fault"), KILLS, ids=str)
def test_a_kill_at_any_step_leaves_one_message_with_the_final_text(
    tmp_path: Path, kind: str, fault: FaultPoint
) -> None:
    with load_platform(kind) as platform:
        desk = ChannelDesk(tmp_path, platform, SCRIPT)
        happened = faults.into_daemon(desk.daemon.home, fault)
        with desk:
            platform.send("play", room="direct:ann")
            if fault.match == EDIT or ("/draft/" not in fault.match and not fault.target.endswith(":record")):
                desk.wait_for_text(FIRST)
                touch(desk, "more")
                touch(desk, *(() if fault.match == EDIT else ("go",)))
            assert faults.wait_for_fault(happened), f"it never came to this: {fault}\n{desk.daemon.stderr()[-3000:]}"
            desk.daemon.kill()
            (desk.daemon.home / "plugins" / "tools" / "fault.py").unlink()
            touch(desk, "more", "go")
            desk.daemon.start()
            desk.wait_for_text(SAID)
            desk.wait_until_settled()
            left = [(FIRST, False)] if kind in UNASKABLE and fault.match == "/draft/" else []
            assert list_said(platform) == [*left, (SAID, False)]
            assert desk.daemon.json("ledger", "check")["unaccounted"] == 0


ONCE = (PlatformFault.NO_ANSWER, PlatformFault.BUSY, PlatformFault.RATE_LIMIT)


@pytest.mark.slow
@pytest.mark.parametrize("kind", EMULATORS)
def test_a_platform_in_trouble_shows_each_answer_once(tmp_path: Path, kind: str) -> None:
    """Each fault meets a draft; at last somebody deletes one. On Matrix the agent is told of that, and echoes it."""
    script = ScriptBuilder()
    for number in range(len(ONCE) + 1):
        script.turn(f"play {number}").draft(f"{number} begins")
        script.wait_for(f"go-{number}").say(f"{number} begins and ends")
    with load_platform(kind) as platform, ChannelDesk(tmp_path, platform, script) as desk:
        for number, fault in enumerate(ONCE):
            platform.fault(fault)
            platform.send(f"play {number}", room="direct:ann")
            assert platform.wait_for(lambda: not platform.list_unused())
            touch(desk, f"go-{number}")
            desk.wait_for_text(f"{number} begins and ends")
            desk.wait_until_settled()
        last = len(ONCE)
        platform.send(f"play {last}", room="direct:ann")
        platform.delete("direct:ann", desk.wait_for_text(f"{last} begins").id)
        touch(desk, f"go-{last}")
        desk.wait_for_text(f"{last} begins and ends")
        desk.wait_until_settled()
        shown = [text for text, deleted in list_said(platform) if not deleted and text != "echo:"]
        said = [f"{number} begins and ends" for number in range(last + 1)]
        assert shown in ([said, ["0 begins", *said]] if kind in UNASKABLE else [said])
