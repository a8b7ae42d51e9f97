"""x: an account at X (Twitter), by its API v2. Posts that mention it are read, and answered in their conversations.

Rooms are `x:conversation/<id of its first post>`, people `x:user/<id>`.
"""

from gatepost.channels.contract import AddCheck, ChannelGuide, ChannelPace, declare_channel, import_later
from gatepost.core.settings import setting
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Feature
from gatepost.messages.text_size import TextUnit

API_KEY = setting("channels.x.api_key", "", help="The app's API key (consumer key).", secret=True)
API_SECRET = setting("channels.x.api_secret", "", help="The app's API key secret.", secret=True)
TOKEN = setting("channels.x.token", "", help="The account's access token, with the right to write.", secret=True)
TOKEN_SECRET = setting("channels.x.token_secret", "", help="The account's access token secret.", secret=True)
POLL_S = setting(
    "channels.x.poll_s", 300.0, help="How often to ask for mentions, in seconds. X bills what is read, and limits it."
)
API_URL = setting("channels.x.api_url", "https://api.x.com", help="The API.")

declare_channel(
    "x",
    "gatepost.channels.x.adapter:XAccount",
    title="X",
    features=frozenset({Feature.DELETE, Feature.REACT, Feature.REPLY, Feature.POST, Feature.QUOTE, Feature.REPOST}),
    settings=(API_KEY, API_SECRET, TOKEN, TOKEN_SECRET, POLL_S, API_URL),
    max_text=280,
    text_unit=TextUnit.WEIGHTED,
    pace=ChannelPace(everywhere=0.1, burst=3),
    deaf_after_s=3600.0,
    verbs=frozenset({Verb.MENTION}),
    guide=ChannelGuide(
        before="At developer.x.com make an app with the right Read and write; copy the API key and secret, and make"
        " an access token and secret for the bot's own account.",
        after="Mention the account in a post. X bills each post that is read or made; set a limit there, too.",
        ask=(API_KEY, API_SECRET, TOKEN, TOKEN_SECRET),
    ),
    unchecked={
        AddCheck.SECOND_POLLER: "several programs may receive, and each gets everything",
    },
    explain_reaction=import_later("gatepost.channels.x.wire:explain_reaction"),
    tested_against="our emulator of 2026-11; never run against X",
)
