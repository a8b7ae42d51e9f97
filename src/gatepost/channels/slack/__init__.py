"""Slack: an app of one workspace, by Socket Mode or by HTTP events, with the pane of an assistant."""

from enum import StrEnum

from gatepost.channels.contract import (
    ChannelConnection,
    ChannelGuide,
    ChannelKind,
    ChannelPace,
    declare_channel,
    import_later,
    make_draft_setting,
)
from gatepost.core.records import replace
from gatepost.core.settings import Config, setting
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Feature
from gatepost.messages.text_size import TextUnit


class SlackMode(StrEnum):
    SOCKET = "socket"  # a connection that we open
    HTTP = "http"  # requests that the platform sends to us


TOKEN = setting("channels.slack.token", "", help="The bot's token (xoxb-…), of the installed app.", secret=True)
APP_TOKEN = setting(
    "channels.slack.app_token",
    "",
    help="The app's token (xapp-…) for Socket Mode, with connections:write.",
    secret=True,
)
SIGNING_SECRET = setting(
    "channels.slack.signing_secret", "", help="The app's signing secret, for HTTP events.", secret=True
)
MODE = setting(
    "channels.slack.mode",
    SlackMode.SOCKET.value,
    help="How events come: by a socket that we open, or by HTTP to us.",
    choices=tuple(SlackMode),
)
API_URL = setting(
    "channels.slack.api_url", "https://slack.com/api/", help="The address of Slack's API. For an emulator."
)
PING_S = setting("channels.slack.ping_s", 15.0, help="How often to ask whether the socket is alive, in seconds.")

DRAFTS = make_draft_setting("slack")


def tailor(kind: ChannelKind, instance: str, config: Config) -> ChannelKind:
    by_hooks = SlackMode(config[MODE]) is SlackMode.HTTP
    return replace(kind, connection=ChannelConnection.ANY) if by_hooks else kind


declare_channel(
    "slack",
    "gatepost.channels.slack.adapter:SlackChannel",
    asks_strangers=True,
    title="Slack",
    settings=(TOKEN, APP_TOKEN, SIGNING_SECRET, MODE, API_URL, PING_S, DRAFTS),
    features=frozenset(
        {
            Feature.EDIT,
            Feature.DELETE,
            Feature.REACT,
            Feature.FILES,
            Feature.THREADS,
            Feature.MARKDOWN,
            Feature.TYPING,
            Feature.PIN,
            Feature.UNPIN_ALL,
            Feature.CARDS,
            Feature.PANE,
            Feature.LOOKUP,
            Feature.DIRECT,
            Feature.HISTORY,
        }
    ),
    verbs=frozenset({Verb.MESSAGE, Verb.MENTION, Verb.REPLY, Verb.EDIT, Verb.DELETE, Verb.LIKE, Verb.JOIN}),
    max_text=4000,
    text_unit=TextUnit.ESCAPED,  # `chat.update` refuses more; a longer post is split, also within a block of code
    largest_file=1024 * 1024 * 1024,
    pace=ChannelPace(room=1.0, burst=3),
    deaf_after_s=150.0,
    guide=ChannelGuide(
        before=(
            "Make your own app at https://api.slack.com/apps with the manifest of docs/channels/slack.md, install it "
            "to the workspace, and copy the Bot User OAuth Token. For Socket Mode make an app-level token, too."
        ),
        after="Invite the bot to a channel with /invite, or write to it directly, and use `gatepost pair`.",
        ask=(TOKEN, APP_TOKEN, SIGNING_SECRET),
        optional=(APP_TOKEN, SIGNING_SECRET),  # the one is for Socket Mode, the other for HTTP events
    ),
    fits_card=import_later("gatepost.channels.slack.render:fits_card"),
    explain_reaction=import_later("gatepost.channels.slack.wire:explain_reaction"),
    tested_against="our emulator of 2026-11, which slack-sdk 3.46 accepts; never run against Slack itself",
    extra="slack",
    tailor=tailor,
)
