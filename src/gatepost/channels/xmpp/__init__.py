"""XMPP: rooms (MUC) and private chats of an account. A room is its bare JID, a person theirs.

A person in a room is named by their real JID where the server shows it. Elsewhere they are only a nickname, which
anybody may use: what they say is received as untrusted.
"""

from enum import StrEnum

from gatepost.channels.contract import (
    ChannelGuide,
    ChannelPace,
    declare_channel,
    make_ca_setting,
    make_read_mark_setting,
)
from gatepost.core.settings import setting
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Feature
from gatepost.messages.text_size import TextUnit


class XmppSecurity(StrEnum):
    """How the connection to the server is encrypted."""

    STARTTLS = "starttls"
    TLS = "tls"  # from the first byte
    NONE = "none"  # not at all: for a server on this machine


USER = setting("channels.xmpp.user", "", help="The bot's account, such as bot@example.org.")
PASSWORD = setting("channels.xmpp.password", "", help="The account's password.", secret=True)
ROOMS = setting("channels.xmpp.rooms", (), help="Rooms that the bot joins, such as team@rooms.example.org.")
NICKNAME = setting("channels.xmpp.nickname", "", help="The bot's name in rooms; empty: the account's name.")
SERVER = setting("channels.xmpp.server", "", help="host:port of the server; empty: as the account's domain says.")
SECURITY = setting(
    "channels.xmpp.security",
    XmppSecurity.STARTTLS.value,
    help="How the connection is encrypted; `none` only for a server on this machine.",
    choices=tuple(XmppSecurity),
)
CA_FILE = make_ca_setting("xmpp")
FILE_HOSTS = setting(
    "channels.xmpp.file_hosts",
    (),
    help="Further hosts that files of messages are read from. Those of the bot's own domain always are.",
)
READ_MARKS = make_read_mark_setting("xmpp", True)

XMPP = declare_channel(
    "xmpp",
    "gatepost.channels.xmpp.adapter:Xmpp",
    asks_strangers=True,
    features=frozenset(
        {
            Feature.EDIT,
            Feature.DELETE,
            Feature.REACT,
            Feature.REPLY,
            Feature.FILES,
            Feature.MARKDOWN,
            Feature.TYPING,
            Feature.LOOKUP,
            Feature.DIRECT,
            Feature.HISTORY,
        }
    ),
    settings=(USER, PASSWORD, ROOMS, NICKNAME, SERVER, SECURITY, CA_FILE, FILE_HOSTS, READ_MARKS),
    max_text=10_000,  # a stanza then stays below 64 KiB, which common servers take
    text_unit=TextUnit.CHARACTERS,
    largest_file=10 * 1024 * 1024,  # what Prosody allows if it is not told otherwise
    pace=ChannelPace(everywhere=10.0, room=2.0, burst=10),
    deaf_after_s=120.0,
    title="XMPP",
    deletions_show=True,
    verbs=frozenset(
        {Verb.MESSAGE, Verb.MENTION, Verb.REPLY, Verb.LIKE, Verb.EDIT, Verb.DELETE, Verb.JOIN, Verb.UNTRUSTED}
    ),
    guide=ChannelGuide(
        before="Make an account for the bot on your server. Make the rooms non-anonymous, so that people are known by "
        "their accounts.",
        after="The bot joins the rooms of `rooms`. Anybody may write to its account.",
        ask=(USER, PASSWORD, ROOMS),
    ),
    tested_against="Prosody 0.12, ejabberd 23.01",
    extra="xmpp",
)
