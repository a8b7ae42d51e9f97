"""zulip: a bot of a Zulip organization, by its REST API and its event queue.

Rooms are `zulip:stream/<id>` (a channel, whose topics are threads), `zulip:direct/<user>` and
`zulip:group/<user>-<user>`, people `zulip:user/<id>`.
"""

from gatepost.channels.contract import (
    AddCheck,
    ChannelGuide,
    ChannelPace,
    declare_channel,
    make_ca_setting,
    make_draft_setting,
    make_read_mark_setting,
)
from gatepost.core.settings import setting
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Feature

API_URL = setting("channels.zulip.api_url", "", help="The organization's address, such as https://team.zulipchat.com.")
EMAIL = setting("channels.zulip.email", "", help="The bot's e-mail address, as its settings show it.")
API_KEY = setting("channels.zulip.api_key", "", help="The bot's API key.", secret=True)
TOPIC = setting("channels.zulip.topic", "chat", help="The topic for messages of the bot that belong to no thread.")
CA_FILE = make_ca_setting("zulip")

DRAFTS = make_draft_setting("zulip")
READ_MARKS = make_read_mark_setting("zulip", False)  # people see it in a menu alone, and each is a call

FEATURES = frozenset(
    {
        Feature.EDIT,
        Feature.DELETE,
        Feature.REACT,
        Feature.FILES,
        Feature.THREADS,
        Feature.MARKDOWN,
        Feature.TYPING,
        Feature.DIRECT,
        Feature.HISTORY,
    }
)

declare_channel(
    "zulip",
    "gatepost.channels.zulip.adapter:ZulipChannel",
    asks_strangers=True,
    features=FEATURES,
    settings=(API_URL, EMAIL, API_KEY, CA_FILE, TOPIC, DRAFTS, READ_MARKS),
    title="Zulip",
    per_server=True,
    max_text=9_000,  # of 10,000: the links to files are part of the text
    largest_file=25 * 1024 * 1024,
    pace=ChannelPace(everywhere=3.0, burst=10),
    deaf_after_s=200.0,
    verbs=frozenset({Verb.MESSAGE, Verb.MENTION, Verb.LIKE, Verb.DISLIKE, Verb.EDIT, Verb.DELETE}),
    guide=ChannelGuide(
        before="In Zulip: Settings > Personal > Bots > Add a new bot, type Generic; copy its e-mail and API key.",
        after="Subscribe the bot to each channel in which it shall listen; anybody may write to it directly.",
        ask=(API_URL, EMAIL, API_KEY),
    ),
    unchecked={
        AddCheck.SECOND_POLLER: "each program has a queue of its own",
    },
    tested_against="our emulator of 2026-11, with the zulip library 0.9.1; never run against a Zulip server",
)
