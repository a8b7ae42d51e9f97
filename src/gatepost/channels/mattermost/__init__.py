"""mattermost: a bot account of a Mattermost server, by its REST API v4 and its websocket.

Rooms are `mattermost:channel/<id>` and `mattermost:direct/<id>`, people `mattermost:user/<id>`.
"""

from gatepost.channels.contract import (
    AddCheck,
    ChannelGuide,
    ChannelPace,
    declare_channel,
    make_ca_setting,
    make_draft_setting,
)
from gatepost.core.settings import setting
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Feature

API_URL = setting(
    "channels.mattermost.api_url", "", help="The address of the server, such as https://chat.example.org."
)
TOKEN = setting("channels.mattermost.token", "", help="The access token of the bot account.", secret=True)
CA_FILE = make_ca_setting("mattermost")

FEATURES = frozenset(
    {
        Feature.EDIT,
        Feature.DELETE,
        Feature.REACT,
        Feature.FILES,
        Feature.THREADS,
        Feature.MARKDOWN,
        Feature.TYPING,
        Feature.PIN,
        Feature.LOOKUP,
        Feature.DIRECT,
        Feature.HISTORY,
    }
)

LONGEST_TEXT = 16_383  # code points: 65,535 bytes by 4
DRAFTS = make_draft_setting("mattermost")

declare_channel(
    "mattermost",
    "gatepost.channels.mattermost.adapter:MattermostChannel",
    asks_strangers=True,
    features=FEATURES,
    settings=(API_URL, TOKEN, CA_FILE, DRAFTS),
    title="Mattermost",
    per_server=True,
    extra="mattermost",
    max_text=LONGEST_TEXT,
    largest_file=100 * 1024 * 1024,
    pace=ChannelPace(everywhere=8.0, room=4.0, burst=8),
    deaf_after_s=90.0,
    verbs=frozenset(
        {Verb.MESSAGE, Verb.MENTION, Verb.REPLY, Verb.LIKE, Verb.DISLIKE, Verb.EDIT, Verb.DELETE, Verb.JOIN}
    ),
    guide=ChannelGuide(
        before="In Mattermost: Integrations > Bot Accounts > Add Bot Account; copy the token that it shows once. Then"
        " add the bot to a team.",
        after="Write `/invite @<its name>` in each channel in which it shall listen.",
        ask=(API_URL, TOKEN),
    ),
    unchecked={
        AddCheck.SECOND_POLLER: "several programs may receive, and each gets everything",
    },
    tested_against="our emulator of 2026-11, with mattermostautodriver 11.11; never run against a Mattermost server",
)
