"""ntfy: topics of an ntfy server as rooms. Everybody who knows a topic can write there, and nothing proves who it was.

Rooms are `ntfy:topic/<name>`; everybody is `ntfy:user/anybody`.
"""

from gatepost.channels.contract import AddCheck, ChannelGuide, ChannelPace, declare_channel, make_ca_setting
from gatepost.core.settings import setting
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Feature
from gatepost.messages.text_size import TextUnit

TOPICS = setting("channels.ntfy.topics", (), help="The topics in which it listens and speaks, at most twenty.")
TOKEN = setting(
    "channels.ntfy.token", "", help="An access token of the server (empty: topics that are open to all).", secret=True
)
API_URL = setting("channels.ntfy.api_url", "https://ntfy.sh", help="The server's address; it needs ntfy 2.16 or newer.")
CA_FILE = make_ca_setting("ntfy")

declare_channel(
    "ntfy",
    "gatepost.channels.ntfy.adapter:NtfyTopics",
    title="ntfy",
    per_server=True,
    features=frozenset({Feature.EDIT, Feature.DELETE, Feature.MARKDOWN, Feature.LOOKUP}),
    settings=(TOPICS, TOKEN, API_URL, CA_FILE),
    max_text=3_600,  # a message of more than 4,096 bytes becomes a file; marks are escaped, which makes it longer
    text_unit=TextUnit.BYTES,
    pace=ChannelPace(everywhere=0.2, burst=30),
    deaf_after_s=180.0,
    verbs=frozenset({Verb.UNTRUSTED}),
    guide=ChannelGuide(
        before="Choose a topic that nobody guesses: its name is its password. On a server with accounts, make an"
        " access token that may read and write it.",
        after="Subscribe to the topic in the ntfy app, and write there. Nobody is proved: `gatepost room policy"
        " ntfy:topic/<name> public` lets in everybody who knows the topic.",
        ask=(TOPICS, TOKEN),
        optional=(TOKEN,),
    ),
    unchecked={
        AddCheck.SECOND_POLLER: "several programs may receive, and each gets everything",
    },
    tested_against="our emulator of 2026-11; never run against an ntfy server",
)
