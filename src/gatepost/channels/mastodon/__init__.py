"""mastodon: an account of a Mastodon server, by its REST API and its stream.

`mastodon:feed` is the room of all that is public, each conversation a thread in it; `mastodon:direct/<account>` are
private mentions of one person. People are `mastodon:account/<id>`.
"""

from gatepost.channels.contract import (
    AddCheck,
    ChannelGuide,
    ChannelPace,
    declare_channel,
    import_later,
    make_ca_setting,
)
from gatepost.core.settings import setting
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Feature

API_URL = setting("channels.mastodon.api_url", "", help="The address of the server, such as https://mastodon.social.")
TOKEN = setting("channels.mastodon.token", "", help="The access token of the account.", secret=True)
VISIBILITY = setting(
    "channels.mastodon.visibility",
    "unlisted",
    help="The people who see unprompted posts of the bot. An answer is seen by those who see the question.",
    choices=("public", "unlisted", "private"),
)
CA_FILE = make_ca_setting("mastodon")

FEATURES = frozenset(
    {
        Feature.EDIT,
        Feature.DELETE,
        Feature.REACT,
        Feature.REPLY,
        Feature.FILES,
        Feature.THREADS,
        Feature.MARKDOWN,
        Feature.POST,
        Feature.QUOTE,
        Feature.REPOST,
        Feature.KEYED,
        Feature.DIRECT,
    }
)

declare_channel(
    "mastodon",
    "gatepost.channels.mastodon.adapter:MastodonChannel",
    features=FEATURES,
    settings=(API_URL, TOKEN, CA_FILE, VISIBILITY),
    title="Mastodon",
    per_server=True,
    max_text=460,  # of 500: an answer begins with the name of the person answered
    largest_file=16 * 1024 * 1024 - 1,  # less than 16 MiB
    pace=ChannelPace(everywhere=0.5, burst=5),
    deaf_after_s=150.0,
    verbs=frozenset({Verb.MENTION, Verb.LIKE, Verb.EDIT, Verb.DELETE, Verb.JOIN}),
    guide=ChannelGuide(
        before="On your server: Preferences > Development > New application, scopes read and write; copy the token.",
        after="Mention the account in a post, or write to it privately.",
        ask=(API_URL, TOKEN),
    ),
    unchecked={
        AddCheck.SECOND_POLLER: "several programs may receive, and each gets everything",
    },
    explain_reaction=import_later("gatepost.channels.mastodon.wire:explain_reaction"),
    tested_against="our emulator of 2026-11, with Mastodon.py 2.3; never run against a Mastodon server",
)
