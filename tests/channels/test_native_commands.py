"""Chat commands in the menus of Telegram, Discord and Slack, against the emulated platforms: what is registered, when,
and that a command of a menu arrives as if its person had typed it."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import gatepost.flow.intake.command_dispatch  # noqa: F401  it has every command registered
from gatepost.channels.contract import (
    ChannelState,
    HookRequest,
    MemoryCursor,
    NativeCommand,
    SupportsClose,
    SupportsHook,
)
from gatepost.channels.discord.adapter import COMMAND_RULES as DISCORD_RULES
from gatepost.channels.kit.native_commands import CommandRules, fit_commands
from gatepost.channels.slack.adapter import sign
from gatepost.channels.slack.render import make_slash_commands, render_slash_commands
from gatepost.channels.telegram.adapter import COMMAND_RULES as TELEGRAM_RULES
from gatepost.core.clock import SECOND, SystemClock
from gatepost.flow.channel_health import ChannelReport
from gatepost.flow.intake.slash_commands import COMMANDS, list_native_commands, parse_command
from gatepost.messages.inbound import Verb
from gatepost.serve.health.channel_checks import check_reports
from gatepost_testing.platform_rules.slack import check_slash_commands
from gatepost_testing.platforms.base import EmulatedPlatform, PlatformFault
from gatepost_testing.platforms.discord import DiscordPlatform
from gatepost_testing.platforms.slack import SIGNING_SECRET, SlackPlatform
from gatepost_testing.platforms.telegram import TelegramPlatform
from gatepost_testing.platforms.wiring import listening, make_channel
from gatepost_testing.waiting import until

OURS = (
    NativeCommand(name="status", help="how it stands"),
    NativeCommand(name="remote-control", help="x" * 300),
    NativeCommand(name="new", help="begin anew", usage="[TEXT]"),
)


def count(platform: EmulatedPlatform, path: str) -> int:
    return sum(asked.endswith(path) for _, asked in platform.requests)


def test_one_function_maps_or_leaves_out_what_a_platform_does_not_take() -> None:
    rules = CommandRules(name=r"[a-z_]{1,9}", longest_help=5, most=3, hyphen="_", reserved=frozenset({"me", "us"}))
    names = ("a-b", "a_b", "me", "far-too-long-for-it", "c", "d", "e")
    commands = [NativeCommand(name=each, help="more than five") for each in names]
    assert [(each.shown, each.name, each.help) for each in fit_commands(commands, rules)] == [
        ("a_b", "a-b", "more…"),
        ("c", "c", "more…"),
        ("d", "d", "more…"),
    ]
    prefixed = fit_commands(commands[2:3], CommandRules(**{**_fields(rules), "prefix": "gp_"}))
    assert [(each.shown, each.name) for each in prefixed] == [("gp_me", "me")]


def _fields(rules: CommandRules) -> dict[str, Any]:
    return {name: getattr(rules, name) for name in rules.__struct_fields__}


def test_every_command_that_help_lists_is_in_every_menu_and_is_known_by_its_name_there() -> None:
    ours = list_native_commands()
    assert {each.name for each in ours} == {name for name, each in COMMANDS.items() if each.listed}
    for rules in (TELEGRAM_RULES, DISCORD_RULES):
        shown = fit_commands(ours, rules)
        assert [each.name for each in shown] == [each.name for each in ours]
        for each in shown:
            command = parse_command(f"/{each.shown} words")
            assert command is not None and command.name == each.name
    listed = make_slash_commands(ours)
    check_slash_commands(listed)
    assert len(listed) == len(ours) and "/agent-status" in {each["command"] for each in listed}


async def test_telegram_gets_its_menu_once_and_again_only_when_it_changed() -> None:
    with TelegramPlatform() as platform:
        assert isinstance(platform, TelegramPlatform)
        cursor = MemoryCursor()
        for commands, times in ((OURS, 1), (OURS, 1), (OURS[:2], 2)):
            channel, deps = make_channel(platform, cursor=cursor, commands=commands)
            assert isinstance(channel, SupportsClose)
            async with listening(channel) as received:
                platform.send("hello")
                await received.wait_for(1)
            await channel.close()
            assert count(platform, "/setMyCommands") == times and deps.pulse is not None and not deps.pulse.note
        assert platform.commands == {"status": "how it stands", "remote_control": "x" * 255 + "…"}


@pytest.mark.parametrize("kind", [TelegramPlatform, DiscordPlatform])
async def test_a_menu_that_is_refused_stops_nothing_and_the_doctor_says_so(
    kind: type[EmulatedPlatform], monkeypatch: pytest.MonkeyPatch
) -> None:
    with kind() as platform:
        if isinstance(platform, DiscordPlatform):
            platform.fault(PlatformFault.NO_RIGHTS)
        else:
            monkeypatch.setattr("gatepost.channels.telegram.adapter.COMMAND_RULES", DISCORD_RULES)  # hyphens
        channel, deps = make_channel(platform, commands=OURS)
        assert isinstance(channel, SupportsClose) and deps.pulse is not None
        async with listening(channel) as received:
            if isinstance(platform, DiscordPlatform):
                await platform.until(lambda: any(each.socket for each in platform.gateway.sessions.values()))
            platform.send("hello")
            await received.wait_for(1)
        await channel.close()
        assert await deps.cursor.load("commands") == ""
    report = ChannelReport(instance="bot", kind=platform.kind, state=ChannelState.UP, since_at=1, note=deps.pulse.note)
    well, told = check_reports([report])
    assert (well.level, told.level) == ("ok", "note") and "bot: its menu of commands could not be set" in told.text


async def test_discord_gets_its_menu_and_what_people_pick_there_arrives_as_a_command_of_theirs() -> None:
    with DiscordPlatform() as platform:
        assert isinstance(platform, DiscordPlatform)
        cursor = MemoryCursor()
        for _ in range(2):
            channel, _ = make_channel(platform, cursor=cursor, commands=OURS)
            assert isinstance(channel, SupportsClose)
            async with listening(channel):
                await platform.until(lambda: any(each.socket for each in platform.gateway.sessions.values()))
            await channel.close()
        async with listening(channel) as received:
            await platform.until(lambda: any(each.socket for each in platform.gateway.sessions.values()))
            picked = platform.give_command("new", "a poem", sender="ann")
            platform.give_command("remote-control", room="direct:bea", sender="bea")
            await received.wait_for(2)
            await platform.until(lambda: len(platform.receipts) == 2)
        await channel.close()  # type: ignore[attr-defined]
        first, second = sorted(received.events, key=lambda each: each.direct)
        assert count(platform, f"/applications/{platform.bot['id']}/commands") == 1

        assert (first.address, first.sender, first.text) == (
            platform.get_address("team"),
            platform.get_sender("ann"),
            "/new a poem",
        )
        assert (first.platform_id, first.verb, second.text) == (picked, Verb.MENTION, "/remote-control")
        assert second.address == platform.get_address("direct:bea")
        assert all(each["type"] == 4 and each["data"]["flags"] == 64 for each in platform.receipts)
        assert picked in platform.answered


async def test_slash_commands_of_slack_arrive_by_its_socket_and_are_acknowledged() -> None:
    with SlackPlatform() as platform:
        assert isinstance(platform, SlackPlatform)
        platform.install(make_slash_commands(OURS))
        channel, _ = make_channel(platform, commands=OURS)
        assert isinstance(channel, SupportsClose)
        async with listening(channel) as received:
            platform.give_command("/agent-status", sender="ann")
            platform.give_command("/new", "a &amp; b", room="direct:bea", sender="bea")
            await received.wait_for(2)
            await platform.until(lambda: len(platform.socket.acknowledged) == 2)
        await channel.close()

        first, second = sorted(received.events, key=lambda each: each.direct)
        assert (first.address, first.sender) == (platform.get_address("team"), platform.get_sender("ann"))
        assert (first.text, first.verb, first.sender_name) == ("/status", Verb.MENTION, "ann")
        assert (second.text, second.direct) == ("/new a & b", True)


async def test_slash_commands_of_slack_by_http_are_taken_once_and_only_if_they_are_signed() -> None:
    with SlackPlatform() as platform:
        assert isinstance(platform, SlackPlatform)
        platform.install(make_slash_commands(OURS))
        channel, deps = make_channel(platform, mode="http", commands=OURS)
        assert isinstance(channel, SupportsHook) and isinstance(channel, SupportsClose) and deps.pulse is not None

        def make_hook(secret: str = SIGNING_SECRET, **more: str) -> HookRequest:
            body, moment = urlencode({**given, **more}).encode(), str(SystemClock().now() // SECOND)
            headers = {"content-type": "application/x-www-form-urlencoded", "x-slack-request-timestamp": moment}
            headers["x-slack-signature"] = sign(secret, moment, body)
            return HookRequest(method="POST", headers=headers, body=body)

        given = platform.make_command("/agent-status")
        async with listening(channel) as received:
            await until(lambda: deps.pulse is not None and deps.pulse.beats, "the first beat")
            assert (await channel.answer_hook(make_hook(secret="wrong"))).status == 401
            assert (await channel.answer_hook(make_hook(team_id="T0OTHER"))).status == 200
            assert (await channel.answer_hook(make_hook(event="x", container="x", trigger_id=""))).status == 200
            for _ in range(2):
                assert (await channel.answer_hook(make_hook())).status == 200
        await channel.close()
        assert [each.text for each in received.events] == ["/status"]


def test_the_manifest_on_the_page_of_slack_lists_every_command() -> None:
    page = (Path(__file__).parents[2] / "docs/channels/slack.md").read_text()
    found = re.search(r"  slash_commands:\n((?:    - .*\n)+)", page)
    assert found is not None and found[1] == render_slash_commands(list_native_commands())
