"""A command that somebody picks in the menu of their platform, on a whole gateway: it is carried out and answered."""

from pathlib import Path

import pytest

from gatepost.channels.slack.manifest import make_slash_commands
from gatepost.flow.intake.slash_commands import list_native_commands
from gatepost_testing.gateway import open_room, running_gateway, start_channel
from gatepost_testing.platforms.discord import DiscordPlatform
from gatepost_testing.platforms.slack import SlackPlatform
from gatepost_testing.platforms.telegram import TelegramPlatform


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(TelegramPlatform, marks=pytest.mark.slow),
        DiscordPlatform,
        pytest.param(SlackPlatform, marks=pytest.mark.slow),
    ],
)
async def test_a_command_of_the_menu_is_carried_out_for_its_person_in_its_room(
    tmp_path: Path, kind: type[TelegramPlatform | DiscordPlatform | SlackPlatform]
) -> None:
    with kind() as platform:
        async with running_gateway(tmp_path) as gateway:
            await start_channel(gateway, platform.kind, platform.get_settings(), platform.get_secrets())
            await open_room(gateway, platform.kind, platform.get_address("team"))
            if isinstance(platform, TelegramPlatform):
                await platform.until(lambda: "chatid" in platform.commands)
                platform.send("/chatid")
            elif isinstance(platform, DiscordPlatform):
                await platform.until(lambda: any(each.socket for each in platform.gateway.sessions.values()))
                platform.give_command("chatid")
            else:
                platform.install(make_slash_commands(list_native_commands()))
                await platform.until(lambda: bool(platform.socket.sockets))
                platform.give_command("/chatid")
            await platform.until(
                lambda: any(
                    each.sender == "bot" and platform.get_address("team") in each.text for each in platform.record
                )
            )
