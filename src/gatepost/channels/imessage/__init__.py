"""imessage: iMessage and SMS of a Mac, by the BlueBubbles server that runs there.

Rooms are `imessage:chat/<the server's id of a chat>`, people `imessage:user/<number or mail address>`.
"""

from gatepost.channels.contract import ChannelGuide, ChannelPace, declare_channel
from gatepost.core.settings import setting
from gatepost.messages.inbound import Verb

API_URL = setting("channels.imessage.api_url", "", help="The BlueBubbles server's address, such as http://mac:1234.")
PASSWORD = setting("channels.imessage.password", "", help="The BlueBubbles server's password.", secret=True)
WEBHOOK_SECRET = setting(
    "channels.imessage.webhook_secret",
    "",
    help="What the webhook's address ends with, after ?token= (empty: no webhook, only asking).",
    secret=True,
)
POLL_S = setting("channels.imessage.poll_s", 10.0, help="How often to ask for new messages, in seconds.")

declare_channel(
    "imessage",
    "gatepost.channels.imessage.adapter:BlueBubblesMac",
    title="iMessage (BlueBubbles)",
    features=frozenset(),
    settings=(API_URL, PASSWORD, WEBHOOK_SECRET, POLL_S),
    max_text=4_000,
    pace=ChannelPace(everywhere=0.5, burst=5),
    deaf_after_s=300.0,
    verbs=frozenset({Verb.MESSAGE, Verb.REPLY, Verb.LIKE, Verb.DISLIKE}),
    guide=ChannelGuide(
        before="On a Mac that is signed in to Messages with an Apple account of the bot's own, install BlueBubbles"
        " Server and set its password.",
        after="For quicker answers add a webhook for New Messages in BlueBubbles, to"
        " <web.url>/channels/<instance>?token= followed by the webhook secret.",
        ask=(API_URL, PASSWORD, WEBHOOK_SECRET),
        optional=(WEBHOOK_SECRET,),
    ),
    tested_against="our emulator of 2026-11; never run against BlueBubbles",
)
