"""Refusals of an XMPP server: the kind and condition of each error, then the words of Prosody, the server of tests.

The words are compared with Prosody's source of the release that tests run, 0.12.3.
"""

from typing import Any

from gatepost_testing.platform_rules.rule import PlatformRule, index_rules

READ = "2026-11-18"
RFC = "https://www.rfc-editor.org/rfc"
PROSODY = "https://github.com/bjc/prosody/blob/0.12.3"  # a mirror of hg.prosody.im
XEP = "https://xmpp.org/extensions"
SESSION = "channels/xmpp/session.py"
ADAPTER = "channels/xmpp/adapter.py"
MUC = "<x xmlns='http://jabber.org/protocol/muc'/>"
UPLOAD = "urn:xmpp:http:upload:0"


def _rule(name: str, refusal: str, source: str, stanza: str, **more: Any) -> PlatformRule:
    """`$bare`: the stanza is written on a stream that has not logged in. No rule has a status."""
    given = {each: more.pop(each) for each in ("bare", "faults") if each in more}
    call = (stanza, {f"${each}": value for each, value in given.items()})
    return PlatformRule(name=name, status=0, refusal=refusal, source=source, call=call, read_on=READ, **more)


def _auth(mechanism: str, words: str) -> str:
    return f"<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='{mechanism}'>{words}</auth>"


def _make_message(to: str, kind: str) -> str:
    return f"<message to='{to}' type='{kind}' id='$new'><body>x</body></message>"


def _ask(to: str, inner: str, kind: str = "get") -> str:
    return f"<iq to='{to}' type='{kind}' id='$new'>{inner}</iq>"


RULES = (
    _rule(
        "password",
        "not-authorized: Unable to authorize you with the authentication credentials you've sent.",
        f"{RFC}/rfc6120#section-6.5.10; {PROSODY}/util/sasl/plain.lua",
        _auth("PLAIN", "AGJvdAB3cm9uZw=="),
        bare=True,
        adapter=f"{SESSION}: ChannelEnded",
    ),
    _rule(
        "known mechanism",
        "invalid-mechanism",
        f"{RFC}/rfc6120#section-6.5.7; {PROSODY}/plugins/mod_saslauth.lua",
        _auth("LOUD", ""),
        bare=True,
    ),
    _rule(
        "encoding of a password",
        "incorrect-encoding",
        f"{RFC}/rfc6120#section-6.5.5; {PROSODY}/plugins/mod_saslauth.lua",
        _auth("PLAIN", "!!!"),
        bare=True,
    ),
    _rule(
        "well-formed XML",
        "not-well-formed",
        f"{RFC}/rfc6120#section-4.9.3.13; {PROSODY}/plugins/mod_c2s.lua",
        "<a></b>",
        adapter="channels/xmpp/render.py: built, not written",
    ),
    _rule(
        "characters of XML",
        "not-well-formed",
        f"{RFC}/rfc6120#section-4.9.3.13: also a character that XML 1.0 does not have; {PROSODY}/plugins/mod_c2s.lua",
        "<message to='ann@localhost' type='chat' id='$new'><body>\uffff</body></message>",
        adapter="messages/markdown/blocks.py: clean_text",
    ),
    _rule(
        "stanza size",
        "policy-violation: XML stanza is too big",
        f"{PROSODY}/plugins/mod_c2s.lua: c2s_stanza_size_limit, in bytes",
        f"<message to='ann@localhost' type='chat' id='$new'><body>{'x' * 400_000}</body></message>",
        limit=262_144,
        adapter="channels/xmpp/__init__.py: max_text",
    ),
    _rule(
        "occupant of a room",
        "cancel not-acceptable: You are not currently connected to this chat",
        f"{XEP}/xep-0045.html#message: a sender who is not in the room; {PROSODY}/plugins/muc/muc.lib.lua",
        _make_message("team@rooms.localhost", "groupchat"),
        adapter=f"{ADAPTER}: send",
    ),
    _rule(
        "known room",
        "cancel item-not-found",
        f"{PROSODY}/plugins/muc/mod_muc.lua: only a presence makes a room",
        _make_message("unknown@rooms.localhost", "groupchat"),
        adapter=f"{ADAPTER}: send",
    ),
    _rule(
        "known person",
        "cancel service-unavailable",
        f"{RFC}/rfc6121#section-8.5.1: an account that does not exist; {PROSODY}/plugins/mod_message.lua",
        _make_message("nobody@localhost", "chat"),
        adapter=f"{ADAPTER}: send",
    ),
    _rule(
        "way to a server",
        "cancel not-allowed: Communication with remote domains is not enabled",
        f"{RFC}/rfc6120#section-10.4: by the policy of a server; {PROSODY}/core/stanza_router.lua, without s2s",
        _make_message("ann@elsewhere.test", "chat"),
        adapter=f"{ADAPTER}: send",
    ),
    _rule(
        "rights in a room",
        "auth forbidden: You do not currently have permission to speak in this chat",
        f"{XEP}/xep-0045.html#message: a visitor in a moderated room; {PROSODY}/plugins/muc/muc.lib.lua",
        _make_message("team@rooms.localhost", "groupchat"),
        faults=["forbidden"],
        adapter=f"{ADAPTER}: send",
    ),
    _rule(
        "pace",
        "wait resource-constraint",
        f"{RFC}/rfc6120#section-8.3.3.18: the kind is wait",
        _make_message("ann@localhost", "chat"),
        faults=["busy"],
        adapter=f"{ADAPTER}: send",
    ),
    _rule(
        "free nick",
        "cancel conflict",
        f"{XEP}/xep-0045.html#enter-conflict; {PROSODY}/plugins/muc/muc.lib.lua",
        f"<presence to='team@rooms.localhost/ann' id='$new'>{MUC}</presence>",
        adapter=SESSION,
    ),
    _rule(
        "ban of a room",
        "auth forbidden",
        f"{XEP}/xep-0045.html#enter-banned; {PROSODY}/plugins/muc/muc.lib.lua",
        f"<presence to='team@rooms.localhost/bot' id='$new'>{MUC}</presence>",
        faults=["no_rights"],
        adapter=SESSION,
    ),
    _rule(
        "some nick",
        "cancel service-unavailable",
        f"{XEP}/xep-0045.html#enter-muc: modify jid-malformed; {PROSODY}/core/stanza_router.lua differs",
        f"<presence to='team@rooms.localhost' id='$new'>{MUC}</presence>",
        adapter=SESSION,
    ),
    _rule(
        "right to change a room",
        "cancel not-allowed",
        f"{XEP}/xep-0045.html#modifyowner: forbidden; {PROSODY}/plugins/muc/muc.lib.lua differs",
        _ask(
            "team@rooms.localhost",
            "<query xmlns='http://jabber.org/protocol/muc#admin'>"
            "<item affiliation='owner' jid='bot@localhost'/></query>",
            "set",
        ),
    ),
    _rule(
        "file size",
        "modify not-acceptable: File too large",
        f"{XEP}/xep-0363.html#errors: file-too-large, with the size that the server takes;"
        f" {PROSODY}/plugins/mod_http_file_share.lua: 10 MiB if it is not told otherwise",
        _ask("files.localhost", f"<request xmlns='{UPLOAD}' filename='a.txt' size='10485761'/>"),
        limit=10_485_760,
        adapter="channels/xmpp/adapter.py: XmppFiles",
    ),
    _rule(
        "name of a file",
        "modify bad-request: Invalid filename",
        f"{XEP}/xep-0363.html#request: filename and size are required; {PROSODY}/plugins/mod_http_file_share.lua",
        _ask("files.localhost", f"<request xmlns='{UPLOAD}' size='1'/>"),
        adapter="channels/xmpp/adapter.py: XmppFiles",
    ),
    _rule(
        "form of a size",
        "modify bad-request: File size must be positive integer",
        f"{XEP}/xep-0363.html#request: in bytes; {PROSODY}/plugins/mod_http_file_share.lua, which takes 0",
        _ask("files.localhost", f"<request xmlns='{UPLOAD}' filename='a.txt' size='-1'/>"),
        adapter="channels/xmpp/adapter.py: XmppFiles",
    ),
    _rule(
        "files of a day",
        "wait resource-constraint: Daily quota reached",
        f"{XEP}/xep-0363.html#errors: for later; {PROSODY}/plugins/mod_http_file_share.lua: 100 MiB",
        _ask("files.localhost", f"<request xmlns='{UPLOAD}' filename='a.txt' size='10485760'/>") * 11,
        limit=104_857_600,
        adapter=f"{SESSION}: read_error",
    ),
    _rule(
        "place in an archive",
        "modify item-not-found",
        f"{XEP}/xep-0313.html#query-paging-request: an id that the archive does not have;"
        f" {PROSODY}/plugins/mod_mam/mod_mam.lua",
        "<iq type='set' id='$new'><query xmlns='urn:xmpp:mam:2'><set xmlns='http://jabber.org/protocol/rsm'>"
        "<max>5</max><after>nothing</after></set></query></iq>",
        adapter="channels/xmpp/archive.py",
    ),
    _rule(
        "known request",
        "cancel service-unavailable",
        f"{RFC}/rfc6120#section-8.3.3.19; {PROSODY}/core/stanza_router.lua",
        _ask("localhost", "<query xmlns='urn:nothing'/>"),
    ),
)
BY_NAME = index_rules(RULES)
