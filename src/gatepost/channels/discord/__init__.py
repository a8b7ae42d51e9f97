"""Discord: a bot in servers and direct messages, by the gateway and the REST API, version 10."""

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

TOKEN = setting("channels.discord.token", "", help="The bot's token, from the developer portal.", secret=True)
API_URL = setting(
    "channels.discord.api_url", "https://discord.com/api/v10", help="The address of Discord's API. For an emulator."
)
LARGEST_FILE = 10 * 1024 * 1024

DRAFTS = make_draft_setting("discord")

declare_channel(
    "discord",
    "gatepost.channels.discord.adapter:DiscordChannel",
    asks_strangers=True,
    title="Discord",
    settings=(TOKEN, API_URL, DRAFTS),
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
            Feature.POST,
            Feature.LOOKUP,
            Feature.KEYED,
            Feature.DIRECT,
            Feature.HISTORY,
        }
    ),
    verbs=frozenset({Verb.MESSAGE, Verb.MENTION, Verb.REPLY, Verb.EDIT, Verb.DELETE, Verb.LIKE, Verb.JOIN}),
    max_text=2000,
    text_unit=TextUnit.CHARACTERS,
    largest_file=LARGEST_FILE,
    pace=ChannelPace(everywhere=40.0, room=1.0, burst=5),
    deaf_after_s=150.0,  # the platform asks for a heartbeat every 41 s, and answers each
    guide=ChannelGuide(
        before=(
            "Make an application at https://discord.com/developers/applications, open its page Bot, switch on "
            "MESSAGE CONTENT INTENT there, and copy the token."
        ),
        after="Open the link to invite the bot to a server, then write to it and use `gatepost pair`.",
        ask=(TOKEN,),
    ),
    unchecked={
        AddCheck.SECOND_POLLER: "several programs may receive; a used-up limit of connections is named",
    },
    fits_card=import_later("gatepost.channels.discord.render:fits_card"),
    tested_against="our emulator of 2026-11, which discord.py 2.7 accepts; never run against Discord itself",
    extra="discord",
)
