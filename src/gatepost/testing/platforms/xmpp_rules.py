"""Refusals of an XMPP server: the kind and condition of each error, then the words of Prosody, the server of tests."""

from typing import Any

from gatepost.testing.platforms.rules import PlatformRule, index_rules

RFC = "https://www.rfc-editor.org/rfc"
XEP = "https://xmpp.org/extensions"
SESSION = "channels/xmpp/session.py"
ADAPTER = "channels/xmpp/adapter.py"
MUC = "<x xmlns='http://jabber.org/protocol/muc'/>"
UPLOAD = "urn:xmpp:http:upload:0"


def _rule(name: str, refusal: str, source: str, stanza: str, **more: Any) -> PlatformRule:
    """`$bare`: the stanza is written on a stream that has not logged in. No rule has a status."""
    given = {each: more.pop(each) for each in ("bare", "faults") if each in more}
    call = (stanza, {f"${each}": value for each, value in given.items()})
    return PlatformRule(name=name, status=0, refusal=refusal, source=source, call=call, **more)


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
        f"{RFC}/rfc6120#section-6.5.10",
        _auth("PLAIN", "AGJvdAB3cm9uZw=="),
        bare=True,
        adapter=f"{SESSION}: ChannelEnded",
    ),
    _rule("known mechanism", "invalid-mechanism", f"{RFC}/rfc6120#section-6.5.7", _auth("LOUD", ""), bare=True),
    _rule(
        "encoding of a password",
        "incorrect-encoding",
        f"{RFC}/rfc6120#section-6.5.5",
        _auth("PLAIN", "!!!"),
        bare=True,
    ),
    _rule(
        "well-formed XML",
        "not-well-formed",
        f"{RFC}/rfc6120#section-4.9.3.13",
        "<a></b>",
        adapter="channels/xmpp/render.py: built, not written",
    ),
    _rule(
        "occupant of a room",
        "cancel not-acceptable: You are not currently connected to this chat",
        f"{XEP}/xep-0045.html#message: a sender who is not in the room",
        _make_message("team@rooms.localhost", "groupchat"),
        adapter=f"{ADAPTER}: send",
    ),
    _rule(
        "known room",
        "cancel item-not-found",
        f"{XEP}/xep-0045.html#message",
        _make_message("unknown@rooms.localhost", "groupchat"),
        adapter=f"{ADAPTER}: send",
    ),
    _rule(
        "known person",
        "cancel service-unavailable",
        f"{RFC}/rfc6121#section-8.5.1: an account that does not exist",
        _make_message("nobody@localhost", "chat"),
        adapter=f"{ADAPTER}: send",
    ),
    _rule(
        "way to a server",
        "cancel not-allowed: Communication with remote domains is not enabled",
        f"{RFC}/rfc6120#section-10.4; Prosody without s2s",
        _make_message("ann@elsewhere.test", "chat"),
        adapter=f"{ADAPTER}: send",
    ),
    _rule(
        "rights in a room",
        "auth forbidden",
        f"{XEP}/xep-0045.html#message: a visitor in a moderated room",
        _make_message("ann@localhost", "chat"),
        faults=["forbidden"],
        adapter=f"{ADAPTER}: send",
    ),
    _rule(
        "pace",
        "wait resource-constraint",
        f"{RFC}/rfc6120#section-8.3.3.18",
        _make_message("ann@localhost", "chat"),
        faults=["busy"],
        adapter=f"{ADAPTER}: send",
    ),
    _rule(
        "free nick",
        "cancel conflict",
        f"{XEP}/xep-0045.html#enter-conflict",
        f"<presence to='team@rooms.localhost/ann' id='$new'>{MUC}</presence>",
        adapter=SESSION,
    ),
    _rule(
        "ban of a room",
        "auth forbidden",
        f"{XEP}/xep-0045.html#enter-banned",
        f"<presence to='team@rooms.localhost/bot' id='$new'>{MUC}</presence>",
        faults=["no_rights"],
        adapter=SESSION,
    ),
    _rule(
        "some nick",
        "cancel service-unavailable",
        f"{XEP}/xep-0045.html#enter-nonick; Prosody's condition differs from the specified jid-malformed",
        f"<presence to='team@rooms.localhost' id='$new'>{MUC}</presence>",
        adapter=SESSION,
    ),
    _rule(
        "right to change a room",
        "cancel not-allowed",
        f"{XEP}/xep-0045.html#grantowner",
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
        f"{XEP}/xep-0363.html#errors: file-too-large, with the size that the server takes",
        _ask("files.localhost", f"<request xmlns='{UPLOAD}' filename='a.txt' size='10485761'/>"),
        limit=10_485_760,
        adapter="channels/xmpp/files.py",
    ),
    _rule(
        "name of a file",
        "modify bad-request: Invalid filename",
        f"{XEP}/xep-0363.html#request",
        _ask("files.localhost", f"<request xmlns='{UPLOAD}' size='1'/>"),
        adapter="channels/xmpp/files.py",
    ),
    _rule(
        "place in an archive",
        "modify item-not-found",
        f"{XEP}/xep-0313.html#query-paging: an id that the archive does not have",
        "<iq type='set' id='$new'><query xmlns='urn:xmpp:mam:2'><set xmlns='http://jabber.org/protocol/rsm'>"
        "<max>5</max><after>nothing</after></set></query></iq>",
        adapter="channels/xmpp/archive.py",
    ),
    _rule(
        "known request",
        "cancel service-unavailable",
        f"{RFC}/rfc6120#section-8.3.3.19",
        _ask("localhost", "<query xmlns='urn:nothing'/>"),
    ),
)
BY_NAME = index_rules(RULES)
