"""A thread that somebody begins below the bot's own words has the id of these, so that intake knows it for a reply."""

from pathlib import Path

import pytest

from gatepost_testing.channel_suite.trial import ChannelTrial
from gatepost_testing.platforms.base import EmulatedPlatform
from gatepost_testing.platforms.discord import DiscordPlatform
from gatepost_testing.platforms.mattermost import MattermostPlatform
from gatepost_testing.platforms.slack import SlackPlatform


@pytest.mark.parametrize("make", [SlackPlatform, DiscordPlatform, MattermostPlatform])
async def test_a_thread_below_the_bots_words_has_their_id(make: type[EmulatedPlatform], tmp_path: Path) -> None:
    with make() as platform:
        trial = ChannelTrial(platform, tmp_path)
        try:
            await trial.start()
            said = await trial.send(text="I am here")
            trial.write("why?", thread=said.id)
            event = await trial.receive_text("why?")
        finally:
            await trial.close()
    assert event.thread == said.id
    assert event.reply_to is None or event.reply_to.platform_id == said.id
