"""irc: a nick on an IRC network.

Rooms are `irc:channel/<#name>` and `irc:direct/<nick>`. People are `irc:account/<name>` where the network proves who
they are, else `irc:nick/<nick>`, which anybody may take.
"""

from gatepost.channels.contract import ChannelGuide, ChannelPace, declare_channel, make_ca_setting
from gatepost.core.settings import setting
from gatepost.messages.inbound import Verb
from gatepost.messages.text_size import TextUnit

HOST = setting("channels.irc.host", "", help="The name of the server, such as irc.libera.chat.")
PORT = setting("channels.irc.port", 6697, help="The port of the server.")
TLS = setting("channels.irc.tls", True, help="Encrypt the connection.")
CA_FILE = make_ca_setting("irc")
NICK = setting("channels.irc.nick", "gatepost", help="The nick of the bot. If it is in use, underscores are added.")
ROOMS = setting("channels.irc.rooms", (), help="The channels that the bot joins, such as #team.")
ACCOUNT = setting("channels.irc.account", "", help="The account to log in with (SASL). Empty: no account.")
PASSWORD = setting("channels.irc.password", "", help="The password of that account.", secret=True)
TRUST_NICKS = setting(
    "channels.irc.trust_nicks",
    False,
    help="A nick alone proves who somebody is. Only for a server on which nobody can take another's nick.",
)

declare_channel(
    "irc",
    "gatepost.channels.irc.adapter:IrcChannel",
    features=frozenset(),
    settings=(HOST, PORT, TLS, CA_FILE, NICK, ROOMS, ACCOUNT, PASSWORD, TRUST_NICKS),
    title="IRC",
    per_server=True,
    max_text=340,  # bytes of a line, with names of any length before it
    text_unit=TextUnit.BYTES,
    pace=ChannelPace(everywhere=1.0, burst=4),
    deaf_after_s=120.0,
    verbs=frozenset({Verb.MESSAGE, Verb.MENTION, Verb.JOIN, Verb.UNTRUSTED}),
    guide=ChannelGuide(
        before="Choose a network and a nick; register the nick there (/msg NickServ HELP) to have an account.",
        after="Say the bot's nick in one of its channels, or write to it with /msg.",
        ask=(HOST, NICK, ROOMS, ACCOUNT, PASSWORD),
        optional=(ACCOUNT, PASSWORD),
    ),
    tested_against="ngIRCd 26.1, InspIRCd 3.15 with Atheme 7.2, and our own line server of 2026-11",
)
