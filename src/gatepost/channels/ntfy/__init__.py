"""ntfy: push notifications. A topic is a room. Nobody signs: whoever may write to a topic is the one sender there."""

from gatepost.channels.contract import ChannelGuide, declare_channel
from gatepost.core.settings import setting
from gatepost.messages.inbound import Verb
from gatepost.messages.text_size import TextUnit

API_URL = setting("channels.ntfy.api_url", "https://ntfy.sh", help="The ntfy server.")
TOPICS = setting("channels.ntfy.topics", (), help="The topics to listen on; each is a room.")
TOKEN = setting(
    "channels.ntfy.token", "", help="An access token (tk_…), if the server or the topics ask for one.", secret=True
)
PROTECTED = setting(
    "channels.ntfy.protected",
    False,
    help="Only people whom you trust may write to these topics; else what comes is marked as untrusted.",
)

declare_channel(
    "ntfy",
    "gatepost.channels.ntfy.adapter:NtfyTopics",
    title="ntfy",
    features=frozenset(),
    settings=(API_URL, TOPICS, TOKEN, PROTECTED),
    verbs=frozenset({Verb.MESSAGE, Verb.UNTRUSTED}),
    max_text=4096,
    text_unit=TextUnit.BYTES,
    deaf_after_s=150.0,  # the server says every 45 s that it is there
    guide=ChannelGuide(
        before="A topic on ntfy.sh is as secret as its name: choose a long one, or a server with access control.",
        after="Subscribe to the topic in the ntfy app. What you publish there reaches the agent.",
        ask=(TOPICS,),
    ),
    tested_against="our emulator of 2026-11; never run against ntfy.sh",
)
