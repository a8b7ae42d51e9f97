"""Matrix: rooms of a homeserver, with end-to-end encryption. A room is a room, a thread a thread.

The keys of encrypted rooms lie in the channel's own folder. Everybody who can read that folder can read the rooms.
"""

from enum import StrEnum

from gatepost.channels.contract import (
    AddCheck,
    ChannelGuide,
    ChannelPace,
    declare_channel,
    make_ca_setting,
    make_draft_setting,
    make_read_mark_setting,
)
from gatepost.core.settings import setting
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Feature
from gatepost.messages.text_size import TextUnit


class InvitePolicy(StrEnum):
    """The people whose invitations are accepted."""

    NOBODY = "nobody"
    LISTED = "listed"  # people of `inviters`
    ANYBODY = "anybody"


class DevicePolicy(StrEnum):
    """Which devices of the people in an encrypted room get its keys, and are believed."""

    ALL = "all"  # each that the homeserver names: it could add one of its own
    FIRST = "first"  # those that a person had when we first met; later ones once they are listed


API_URL = setting("channels.matrix.api_url", "", help="The homeserver, such as https://matrix.example.org.")
USER = setting("channels.matrix.user", "", help="The bot's own name, @bot:example.org; needed with a password only.")
TOKEN = setting("channels.matrix.token", "", help="An access token of the bot's account.", secret=True)
PASSWORD = setting("channels.matrix.password", "", help="The account's password, in place of a token.", secret=True)
CA_FILE = make_ca_setting("matrix")
INVITES = setting(
    "channels.matrix.invites",
    InvitePolicy.LISTED.value,
    help="The invitations that the bot accepts: of nobody, of the people in `inviters`, of anybody.",
    choices=tuple(InvitePolicy),
)
INVITERS = setting(
    "channels.matrix.inviters",
    (),
    help="People who may invite the bot: @ann:example.org, or *:example.org for a whole server.",
)
DEVICES = setting(
    "channels.matrix.devices",
    DevicePolicy.ALL.value,
    help="Which devices read and write in encrypted rooms: all, or those seen first and `trusted_devices`.",
    choices=tuple(DevicePolicy),
)
TRUSTED_DEVICES = setting(
    "channels.matrix.trusted_devices", (), help="Devices that joined later and are trusted: @ann:example.org/DEVICEID."
)

DRAFTS = make_draft_setting("matrix")
READ_MARKS = make_read_mark_setting("matrix", True)

MATRIX = declare_channel(
    "matrix",
    "gatepost.channels.matrix.adapter:Matrix",
    asks_strangers=True,
    features=frozenset(
        {
            Feature.EDIT,
            Feature.DELETE,
            Feature.REACT,
            Feature.REPLY,
            Feature.FILES,
            Feature.THREADS,
            Feature.MARKDOWN,
            Feature.TYPING,
            Feature.PIN,
            Feature.UNPIN_ALL,
            Feature.VOICE,
            Feature.KEYED,
            Feature.DIRECT,
            Feature.HISTORY,
        }
    ),
    settings=(API_URL, USER, TOKEN, PASSWORD, CA_FILE, INVITES, INVITERS, DEVICES, TRUSTED_DEVICES, DRAFTS, READ_MARKS),
    # An event has at most 65,536 bytes, encrypted as base64; before that, two bytes of UTF-8 are six of JSON.
    max_text=13_000,
    text_unit=TextUnit.BYTES,
    largest_file=50 * 1024 * 1024,  # what homeservers commonly allow; each has a limit of its own
    # Each edit is an event that a room keeps, and Synapse by default lets an account send one in five seconds.
    pace=ChannelPace(everywhere=5.0, room=2.0, burst=10, draft_s=5.0),
    deaf_after_s=180.0,
    title="Matrix",
    deletions_show=True,
    verbs=frozenset(
        {Verb.MESSAGE, Verb.MENTION, Verb.REPLY, Verb.LIKE, Verb.DISLIKE, Verb.EDIT, Verb.DELETE, Verb.JOIN}
        | {Verb.UNTRUSTED}
    ),
    guide=ChannelGuide(
        before="Make an account for the bot on your homeserver. Log in with it once, and copy its access token "
        "(Element: Settings, Help & About, Access Token), or use its password.",
        after="Invite the bot to a room. It accepts invitations of the people in `inviters`.",
        ask=(API_URL, TOKEN, INVITERS),
    ),
    unchecked={
        AddCheck.SECOND_POLLER: "several programs may receive, and each gets everything",
        AddCheck.RIGHTS: "rights are given in each room",
    },
    tested_against="Synapse 1.163",
    extra="matrix",
)
