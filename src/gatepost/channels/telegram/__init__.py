"""Telegram: a bot in private chats, groups, topics and channels, by long polls of the Bot API."""

from gatepost.channels.contract import (
    AddCheck,
    ChannelGuide,
    ChannelPace,
    declare_channel,
    import_later,
    make_draft_setting,
)
from gatepost.core.settings import setting
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Feature
from gatepost.messages.text_size import TextUnit

TOKEN = setting("channels.telegram.token", "", help="The bot's token, from @BotFather.", secret=True)
API_URL = setting(
    "channels.telegram.api_url",
    "https://api.telegram.org",
    help="The address of the Bot API. For an own server, an emulator.",
)
POLL_S = setting("channels.telegram.poll_s", 25, help="How long Telegram holds a poll that brings nothing, in seconds.")
LARGEST_FILE = 50 * 1024 * 1024
DRAFTS = make_draft_setting("telegram")

declare_channel(
    "telegram",
    "gatepost.channels.telegram.adapter:TelegramChannel",
    asks_strangers=True,
    title="Telegram",
    settings=(TOKEN, API_URL, POLL_S, DRAFTS),
    features=frozenset(
        {
            Feature.EDIT,
            Feature.DELETE,
            Feature.REACT,
            Feature.REPLY,
            Feature.FILES,
            Feature.THREADS,
            Feature.MARKDOWN,
            Feature.TYPING,
            Feature.PIN,
            Feature.UNPIN_ALL,
            Feature.CARDS,
            Feature.VOICE,
            Feature.FORWARD,
            Feature.DIRECT,
        }
    ),
    verbs=frozenset({Verb.MESSAGE, Verb.MENTION, Verb.REPLY, Verb.EDIT, Verb.LIKE, Verb.DISLIKE, Verb.JOIN}),
    max_text=4096,
    text_unit=TextUnit.UTF16,
    largest_file=LARGEST_FILE,
    # In groups and channels 20 a minute. After a burst Telegram may ask for a pause, which is kept.
    pace=ChannelPace(
        everywhere=30.0, room=1.0, burst=5, slow_rooms={"telegram:group/": 1 / 3, "telegram:channel/": 1 / 3}
    ),
    deaf_after_s=90.0,  # a poll that brings nothing ends after `poll_s`
    guide=ChannelGuide(
        before="Write /newbot to https://t.me/BotFather, follow it, and copy the token that it gives.",
        after=(
            "Open the link, press Start and use `gatepost pair`. For a group: add the bot to it. To let it read "
            "everything there, send /setprivacy to @BotFather, or make it an administrator."
        ),
        ask=(TOKEN,),
    ),
    unchecked={
        AddCheck.RIGHTS: "rights are given in each chat; privacy mode is told as a note",
    },
    fits_card=import_later("gatepost.channels.telegram.render:fits_card"),
    explain_reaction=import_later("gatepost.channels.telegram.render:explain_reaction"),
    tested_against="our emulator of 2026-11, which python-telegram-bot 22.8 accepts; never run against Telegram itself",
)
