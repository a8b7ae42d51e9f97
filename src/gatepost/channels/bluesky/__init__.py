"""bluesky: an account of the AT network, by its server's XRPC methods.

`bluesky:feed` is the room of all that is public, the answers to a post are a thread in it; `bluesky:direct/<id>` are
private conversations. People are `bluesky:user/<did>`.
"""

from gatepost.channels.contract import AddCheck, ChannelGuide, ChannelPace, declare_channel, import_later
from gatepost.core.settings import setting
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Feature

API_URL = setting("channels.bluesky.api_url", "https://bsky.social", help="The server of the account.")
HANDLE = setting("channels.bluesky.handle", "", help="The account's name, such as porter.bsky.social.")
PASSWORD = setting("channels.bluesky.app_password", "", help="An app password of the account.", secret=True)
POLL_S = setting("channels.bluesky.poll_s", 5.0, help="How often to ask for news, in seconds.")

FEATURES = frozenset(
    {
        Feature.DELETE,
        Feature.REACT,
        Feature.REPLY,
        Feature.FILES,
        Feature.THREADS,
        Feature.POST,
        Feature.QUOTE,
        Feature.REPOST,
        Feature.LOOKUP,
        Feature.DIRECT,
    }
)

declare_channel(
    "bluesky",
    "gatepost.channels.bluesky.adapter:BlueskyChannel",
    features=FEATURES,
    settings=(API_URL, HANDLE, PASSWORD, POLL_S),
    title="Bluesky",
    max_text=300,
    largest_file=1_000_000,
    pace=ChannelPace(everywhere=0.4, burst=5),
    deaf_after_s=120.0,
    verbs=frozenset({Verb.MENTION, Verb.LIKE, Verb.JOIN}),
    guide=ChannelGuide(
        before="In Bluesky: Settings > Privacy and security > App passwords > Add; tick direct messages if wanted.",
        after="Mention the account in a post, or write to it privately.",
        ask=(HANDLE, PASSWORD),
    ),
    unchecked={
        AddCheck.SECOND_POLLER: "several programs may receive, and each gets everything",
    },
    explain_reaction=import_later("gatepost.channels.bluesky.wire:explain_reaction"),
    tested_against="our emulator of 2026-11, with atproto 0.0.73; never run against Bluesky",
)
