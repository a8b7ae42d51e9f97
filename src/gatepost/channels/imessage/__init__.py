"""iMessage by a BlueBubbles server, which runs on a Mac that is signed in. Its REST API is asked for what is new."""

from gatepost.channels.contract import AddCheck, ChannelGuide, declare_channel, make_ca_setting
from gatepost.core.settings import setting
from gatepost.messages.inbound import Verb

API_URL = setting(
    "channels.imessage.api_url", "", help="The address of the BlueBubbles server, such as http://mac:1234."
)
PASSWORD = setting("channels.imessage.password", "", help="The password of the BlueBubbles server.", secret=True)
POLL_S = setting("channels.imessage.poll_s", 2.0, help="How often the server is asked for what is new, in seconds.")
CA_FILE = make_ca_setting("imessage")

declare_channel(
    "imessage",
    "gatepost.channels.imessage.adapter:BlueBubbles",
    title="iMessage (BlueBubbles)",
    features=frozenset(),
    settings=(API_URL, PASSWORD, CA_FILE, POLL_S),
    verbs=frozenset({Verb.MESSAGE, Verb.LIKE, Verb.DISLIKE}),
    max_text=5000,
    deaf_after_s=90.0,
    guide=ChannelGuide(
        before="Install the BlueBubbles server on a Mac that is signed in to iMessage, and set its password.",
        after="Write to the Apple account of that Mac. Everybody who knows it can, so rooms stay strict.",
        ask=(API_URL, PASSWORD),
    ),
    unchecked={
        AddCheck.SECOND_POLLER: "several programs may receive, and each gets everything",
        AddCheck.RIGHTS: "BlueBubbles does not say what macOS allows it",
    },
    tested_against="our emulator of 2026-11; never run against BlueBubbles",
)
