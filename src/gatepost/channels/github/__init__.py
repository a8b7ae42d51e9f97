"""github: issues and pull requests of repositories as rooms. Comments come by webhooks, and by asking now and then.

GitHub does not repeat a delivery that failed, so the adapter also lists what changed since it last asked. Without a
public address that alone works too, only later.
"""

from gatepost.channels.contract import (
    AddCheck,
    ChannelConnection,
    ChannelGuide,
    ChannelPace,
    declare_channel,
    import_later,
)
from gatepost.core.settings import setting
from gatepost.messages.inbound import SUBJECT_VERBS, Verb
from gatepost.messages.outbound import Feature

REPOSITORIES = setting(
    "channels.github.repositories", (), help="The repositories whose issues are rooms, each as owner/name."
)
TOKEN = setting(
    "channels.github.token",
    "",
    help="A token of the bot's own account, with the permissions Issues and Pull requests: read and write.",
    secret=True,
)
WEBHOOK_SECRET = setting(
    "channels.github.webhook_secret",
    "",
    help="The secret of the webhook, which signs what GitHub sends to us (empty: no webhook, only asking).",
    secret=True,
)
NAME = setting(
    "channels.github.name", "", help="The name by which people mention the bot (empty: that of the token's account)."
)
POLL_S = setting(
    "channels.github.poll_s", 120.0, help="How often to ask for what the webhook may have missed, in seconds."
)
API_URL = setting(
    "channels.github.api_url",
    "https://api.github.com",
    help="The REST API; on GitHub Enterprise https://<host>/api/v3.",
)

declare_channel(
    "github",
    "gatepost.channels.github.adapter:GitHubComments",
    title="GitHub",
    connection=ChannelConnection.ANY,
    per_server=True,  # an Enterprise server numbers its people itself
    features=frozenset(
        {Feature.EDIT, Feature.DELETE, Feature.REACT, Feature.MARKDOWN, Feature.LOOKUP, Feature.HISTORY}
    ),
    settings=(REPOSITORIES, TOKEN, WEBHOOK_SECRET, NAME, POLL_S, API_URL),
    max_text=32_000,  # of 65,536: escapes make a text twice as long at most
    verbs=frozenset({Verb.MESSAGE, Verb.MENTION, Verb.EDIT, Verb.DELETE}) | SUBJECT_VERBS,
    pace=ChannelPace(everywhere=1.0, burst=5),
    deaf_after_s=900.0,
    guide=ChannelGuide(
        before="Make an account for the bot, invite it to the repositories, and make a fine-grained token for it with"
        " the permissions Issues and Pull requests: read and write.",
        after="In each repository, under Settings > Webhooks, add <web.url>/channels/<instance> with the content type"
        " application/json, the same secret, and the events Issues, Issue comments, Pull requests, Pull request"
        " reviews and Pull request review comments.",
        ask=(REPOSITORIES, TOKEN, WEBHOOK_SECRET),
        optional=(WEBHOOK_SECRET,),  # asking alone works, too
    ),
    unchecked={
        AddCheck.SECOND_POLLER: "several programs may receive, and each gets everything",
    },
    explain_reaction=import_later("gatepost.channels.github.wire:explain_reaction"),
    tested_against="our emulator of 2026-11; never run against GitHub itself",
)
