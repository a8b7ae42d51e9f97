"""webhook: any program as a channel. It posts to a room's address, and gets what is said at a URL of its own.

Both ways a post has an idempotency key and is proved by one secret. The URL is the operator's setting alone: nothing
that is said can send a request elsewhere.
"""

from gatepost.channels.contract import AddCheck, ChannelConnection, ChannelGuide, declare_channel, make_ca_setting
from gatepost.core.settings import setting
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Feature

SECRET = setting(
    "channels.webhook.secret",
    "",
    help="The secret that proves a post, as a bearer token or by a signature; at least 16 signs.",
    secret=True,
)
URL = setting("channels.webhook.url", "", help="The address to post messages to (empty: nothing can be said).")
CA_FILE = make_ca_setting("webhook")

declare_channel(
    "webhook",
    "gatepost.channels.webhook.adapter:WebhookPosts",
    title="Webhook",
    per_server=True,
    connection=ChannelConnection.ANY,
    features=frozenset({Feature.MARKDOWN, Feature.REPLY, Feature.THREADS, Feature.KEYED}),
    settings=(SECRET, URL, CA_FILE),
    verbs=frozenset({Verb.MESSAGE, Verb.MENTION, Verb.REPLY}),
    guide=ChannelGuide(
        before="Choose a secret that both sides know: `openssl rand -hex 32` prints one.",
        after="Post to <web.url>/channels/<instance>/<room> with the header `Authorization: Bearer <secret>`. The page"
        " docs/channels/webhook.md has lines for curl.",
        ask=(SECRET, URL),
        optional=(URL,),
    ),
    unchecked={
        AddCheck.TOKEN: "programs show us the secret, not we them",
        AddCheck.NETWORK: "the program is not called: a request might be more to it than a question",
        AddCheck.SECOND_POLLER: "the program is not called: a request might be more to it than a question",
        AddCheck.RIGHTS: "the program is not called: a request might be more to it than a question",
    },
    tested_against="programs of our own over HTTP",
)
