"""The XMPP channel without a server: how stanzas are read and written."""

import asyncio
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import pytest
from slixmpp import ClientXMPP
from slixmpp.stanza import Presence
from slixmpp.xmlstream import tostring

from gatepost.channels.contract import ChannelDeps, ChannelEnded, MemoryCursor
from gatepost.channels.xmpp.adapter import XmppFiles
from gatepost.channels.xmpp.receiving import MOST_KNOWN, AskedMark, AskedMarks, KnownMessages
from gatepost.channels.xmpp.render import render_key, render_reactions, render_slot, render_time, render_words
from gatepost.channels.xmpp.session import IncomingStanza, XmppConnection, XmppRefusal, XmppSession, read_error
from gatepost.channels.xmpp.wire import (
    CLIENT,
    StanzaFacts,
    find_real_jid,
    get_occupant_address,
    is_named,
    read_address,
    read_message,
    read_time,
)
from gatepost.core.clock import SystemClock
from gatepost.core.errors import Unavailable
from gatepost.core.settings import Config, Setting
from gatepost.messages import address
from gatepost.messages.inbound import Inbound, Verb

ROOM = "team@rooms.example.org"
BOT = "bot@example.org"
GIVEN = f"<stanza-id xmlns='urn:xmpp:sid:0' by='{ROOM}' id='r1'/>"

MARKABLE = "<markable xmlns='urn:xmpp:chat-markers:0'/>"
ASKS = "<request xmlns='urn:xmpp:receipts'/>"
SASL = "urn:ietf:params:xml:ns:xmpp-sasl"
STREAM = (
    "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' id='1' version='1.0'>"
    f"<stream:features><mechanisms xmlns='{SASL}'><mechanism>PLAIN</mechanism></mechanisms></stream:features>"
)


def make_deps(port: int) -> ChannelDeps:
    async def read_secret(_: Setting[str]) -> str:
        return "the password"

    given = {"user": BOT, "server": f"127.0.0.1:{port}", "security": "none"}
    config = Config({f"channels.xmpp.{name}": value for name, value in given.items()})
    return ChannelDeps(instance="xmpp", config=config, clock=SystemClock(), secret=read_secret, cursor=MemoryCursor())


def read(inner: str, *, sender: str = f"{ROOM}/ann", kind: str = "groupchat", **facts: Any) -> list[Inbound]:
    stanza = fromstring(
        f"<message xmlns='jabber:client' from='{sender}' to='{BOT}/x' type='{kind}' id='a1'>{inner}</message>"
    )
    given = {"own_jid": BOT, "rooms": {ROOM: "bot"}, "real_jid": "ann@example.org", **facts}
    files = XmppFiles(BOT, ("files.elsewhere.org",))
    return read_message(stanza, StanzaFacts(**given), lambda who, own: f"{who}|{own}", files.open_url)


def test_a_message_of_a_room_has_the_rooms_id_and_the_real_sender() -> None:
    (event,) = read(f"<body>hello</body>{GIVEN}")
    assert (event.address, event.platform_id, event.sender) == (f"xmpp:{ROOM}", "r1", "xmpp:ann@example.org")
    assert (event.text, event.verb, event.direct, event.own) == ("hello", Verb.MESSAGE, False, False)


def test_a_nickname_without_an_account_is_untrusted() -> None:
    (event,) = read(f"<body>bot: hello</body>{GIVEN}", sender=f"{ROOM}/Ann of Ghent", real_jid="")
    assert (event.sender, event.verb) == (f"xmpp:{ROOM}/Ann%20of%20Ghent", Verb.UNTRUSTED)
    address.parse(event.sender)


@pytest.mark.parametrize(
    "inner",
    [
        "<reactions xmlns='urn:xmpp:reactions:0' id='r1'><reaction>👍</reaction></reactions>",
        "<retract xmlns='urn:xmpp:message-retract:1' id='r1'/>",
        "<body>new</body><replace xmlns='urn:xmpp:message-correct:0' id='a0'/>",
    ],
)
def test_a_nickname_without_an_account_changes_nothing_that_was_said(inner: str) -> None:
    assert len(read(inner + GIVEN)) == 1
    assert read(inner + GIVEN, real_jid="") == []


def test_an_id_of_another_archive_is_not_believed() -> None:
    (event,) = read("<body>x</body><stanza-id xmlns='urn:xmpp:sid:0' by='evil@example.com' id='forged'/>")
    assert event.platform_id == "a1"


def test_a_second_element_that_names_an_account_proves_nothing() -> None:
    item = "<x xmlns='http://jabber.org/protocol/muc#user'><item jid='{}'/></x>"
    one = fromstring(f"<message xmlns='jabber:client'>{item.format('ann@example.org/desk')}</message>")
    two = fromstring(f"<message xmlns='jabber:client'>{item.format('boss@example.org') * 2}</message>")
    assert (find_real_jid(one), find_real_jid(two)) == ("ann@example.org", "")


def test_a_private_message_is_direct_and_one_out_of_a_room_is_left_out() -> None:
    (event,) = read("<body>psst</body>", sender="ann@example.org/desk", kind="chat", real_jid="")
    assert (event.address, event.sender, event.direct) == ("xmpp:ann@example.org", "xmpp:ann@example.org", True)
    assert event.verb is Verb.MESSAGE
    assert read("<body>psst</body>", sender=f"{ROOM}/ann", kind="chat") == []


def test_our_own_words_are_own_in_a_room_and_in_the_archive_of_chats() -> None:
    assert read(f"<body>x</body>{GIVEN}", sender=f"{ROOM}/bot", real_jid="")[0].own
    archived = fromstring(
        "<message xmlns='jabber:client' from='bot@example.org/x' to='ann@example.org' type='chat' id='k'>"
        "<body>x</body></message>"
    )
    facts = StanzaFacts(own_jid=BOT, rooms={}, archive_id="7")
    (event,) = read_message(archived, facts, lambda *_: "", lambda _: None)
    assert (event.own, event.address, event.platform_id) == (True, "xmpp:ann@example.org", "k")


@pytest.mark.parametrize("sender", ["no-at-sign", "a b@example.org", "", f"{'x' * 300}@example.org", "other@rooms.x/y"])
def test_what_is_no_account_of_ours_is_left_out(sender: str) -> None:
    assert read("<body>x</body>", sender=sender, kind="groupchat") == []
    assert sender.startswith("other") or read("<body>x</body>", sender=sender, kind="chat") == []


def test_an_edit_is_of_the_authors_own_message() -> None:
    (event,) = read(f"<body>new</body><replace xmlns='urn:xmpp:message-correct:0' id='a0'/>{GIVEN}")
    assert (event.platform_id, event.event, event.verb) == ("xmpp:ann@example.org|a0", "edit:r1", Verb.EDIT)


def test_reactions_are_one_event_each_and_bounded() -> None:
    many = "".join(f"<reaction>{chr(0x1F600 + number)}</reaction>" for number in range(50))
    events = read(f"<reactions xmlns='urn:xmpp:reactions:0' id='r0'>{many}</reactions>{GIVEN}")
    assert len(events) == 10 and {each.platform_id for each in events} == {"r0"}
    assert events[0].event == "reaction:😀:xmpp:ann@example.org"


def test_the_quotation_for_older_programs_is_no_part_of_an_answer() -> None:
    inner = (
        "<body>&gt; the question\nthe answer</body><reply xmlns='urn:xmpp:reply:0' id='r0'/>"
        "<fallback xmlns='urn:xmpp:fallback:0' for='urn:xmpp:reply:0'><body start='0' end='15'/></fallback>"
    )
    (event,) = read(inner + GIVEN)
    assert (event.text, event.verb) == ("the answer", Verb.REPLY)
    assert event.reply_to is not None
    assert (event.reply_to.platform_id, event.reply_to.text) == ("r0", "the question")


@pytest.mark.parametrize(
    ("url", "fetched"),
    [
        ("https://upload.example.org/1/cat.png", True),
        ("https://files.elsewhere.org/1/cat.png", True),
        ("http://upload.example.org/1/cat.png", False),
        ("http://169.254.169.254/latest", False),
        ("https://example.org.evil.com/cat.png", False),
        ("https://user@upload.example.org/cat.png", False),
        ("file:///etc/passwd", False),
        ("https://[broken", False),
    ],
)
def test_a_file_is_fetched_only_from_hosts_that_were_named(url: str, fetched: bool) -> None:
    (event,) = read(f"<body>look\n{url}</body><x xmlns='jabber:x:oob'><url>{url}</url></x>{GIVEN}")
    assert bool(event.attachments) is fetched
    assert event.text == ("look" if fetched else f"look\n{url}")


def test_a_mention_is_the_whole_nickname() -> None:
    assert is_named("Bot: hello", "bot") and is_named("hi @bot!", "bot")
    assert not is_named("a robot", "bot") and not is_named("bottom", "bot") and not is_named("anything", "")


def test_a_message_goes_out_with_its_key_and_no_marks() -> None:
    stanza = render_words(ROOM, True, render_key("k/1"), "**bold**", reply_to="r1", urls=["https://x.org/a"])
    assert stanza.get("id") == render_key("k/1") != render_key("k/2")
    assert stanza.findtext("{jabber:client}body") == "bold\nhttps://x.org/a"
    assert _find(stanza, "urn:xmpp:sid:0", "origin-id").get("id") == stanza.get("id")
    assert _find(stanza, "urn:xmpp:reply:0", "reply").get("id") == "r1"
    reactions = _find(render_reactions(ROOM, True, "k", "r1", ["👍", "🎉"]), "urn:xmpp:reactions:0", "reactions")
    assert [each.text for each in reactions] == ["👍", "🎉"]


def _find(stanza: Element, namespace: str, name: str) -> Element:
    found = stanza.find(f"{{{namespace}}}{name}")
    assert found is not None
    return found


@pytest.mark.parametrize("forbidden", ["\ufffe", "\uffff", "\x1b", "\x0c"])
def test_a_stanza_has_no_character_that_xml_forbids(forbidden: str) -> None:
    """A server ends the connection for one, and the same words would end the next one, too."""
    words, name = f"a{forbidden}b", f"a{forbidden}b.txt"
    for each in (render_words(ROOM, True, "k", words, urls=[]), render_slot(name, 1, "text/plain")):
        assert fromstring(tostring(each)).tag == each.tag
    assert render_slot(name, 1, "text/plain").get("filename") == "a\ufffdb.txt"


@pytest.mark.parametrize(
    ("condition", "expected"),
    [("not-authorized", ChannelEnded), ("account-disabled", ChannelEnded), ("temporary-auth-failure", Unavailable)],
)
async def test_a_server_that_cannot_check_a_password_now_is_asked_again_later(
    condition: str, expected: type[Exception]
) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"<stream:stream")
        writer.write(STREAM.encode())
        await reader.readuntil(b"</auth>")
        writer.write(f"<failure xmlns='{SASL}'><{condition}/></failure>".encode())
        await reader.read()
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        session = XmppSession(make_deps(server.sockets[0].getsockname()[1]))
        with pytest.raises(expected):
            await session.connect()


def test_times_go_there_and_back() -> None:
    assert read_time(render_time(1_700_000_000_123_456)) == 1_700_000_000_123_456
    assert [read_time(each) for each in ("", None, "yesterday", "2026-01-01T00:00:00")] == [None] * 4


def test_an_error_that_passes_is_told_from_one_that_stays() -> None:
    def make(kind: str, condition: str) -> Element:
        inner = f"<{condition} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>"
        return fromstring(f"<message xmlns='jabber:client' type='error'><error type='{kind}'>{inner}</error></message>")

    assert isinstance(read_error(make("wait", "resource-constraint"), "send"), Unavailable)
    refusal = read_error(make("auth", "forbidden"), "send a message")
    assert isinstance(refusal, XmppRefusal) and "forbidden" in str(refusal)


def test_what_is_known_of_rooms_is_bounded_and_an_id_stays_with_its_first_message() -> None:
    known = KnownMessages()
    known.add(ROOM, "xmpp:ann@x", "a1", "r1", f"{ROOM}/ann")
    known.add(ROOM, "xmpp:ann@x", "a1", "r2", f"{ROOM}/ann")
    assert (known.find_id(ROOM, "xmpp:ann@x", "a1"), known.find_id(ROOM, "xmpp:bob@x", "a1")) == ("r1", "")
    for number in range(MOST_KNOWN + 10):
        known.add(ROOM, "xmpp:bob@x", f"b{number}", f"s{number}", "")
    assert len(known._by_author) == len(known._by_id) == MOST_KNOWN


def make_stanza(inner: str) -> Element:
    return fromstring(f"<message xmlns='jabber:client' id='a1'>{inner}</message>")


def test_a_mark_names_the_rooms_id_and_a_receipt_that_of_the_sender() -> None:
    asked, both = AskedMarks(), make_stanza(MARKABLE + ASKS)
    asked.add(ROOM, "r1", both, group=True)
    asked.add(ROOM, "a1", both, group=True)  # of a room that gives no ids
    asked.add("ann@example.org", "a1", both, group=False)
    asked.add("bob@example.org", "a1", make_stanza(ASKS), group=False)
    asked.add("eve@example.org", "a1", make_stanza("<body>x</body>"), group=False)
    assert asked.pop(ROOM, ("r1", "a1", "r2")) == [AskedMark("r1", ""), AskedMark("a1", "")]
    assert asked.pop("ann@example.org", ("a1",)) == [AskedMark("a1", "a1")]
    assert asked.pop("bob@example.org", ("a1",)) == [AskedMark("", "a1")]
    assert asked.pop("eve@example.org", ("a1",)) == asked.pop(ROOM, ("r1",)) == []


def test_marks_that_nobody_takes_are_bounded() -> None:
    asked, stanza = AskedMarks(), make_stanza(MARKABLE)
    for number in range(MOST_KNOWN + 1):
        asked.add(ROOM, f"r{number}", stanza, group=True)
    assert asked.pop(ROOM, ("r0",)) == [] and len(asked.pop(ROOM, ("r1",))) == 1


def test_addresses_of_rooms_and_people_go_there_and_back() -> None:
    assert read_address(f"xmpp:{ROOM}") == ROOM
    assert [read_address(each) for each in ("matrix:a@b", "xmpp:nobody", get_occupant_address(ROOM, "ann"))] == [""] * 3


async def test_who_was_in_a_room_when_the_connection_broke_is_no_newcomer_afterwards() -> None:
    def come(connection: XmppConnection, nickname: str) -> None:
        stanza = Presence(xml=fromstring(f"<presence xmlns='{CLIENT}' from='{ROOM}/{nickname}'/>"))
        connection.note(stanza)

    def join(before: XmppConnection | None) -> XmppConnection:
        made = XmppConnection(ClientXMPP("bot@example.org", "x"), "bot@example.org", before.real_jids if before else ())
        made.rooms[ROOM] = "bot"
        return made

    first = join(None)
    come(first, "ann")
    second = join(first)
    come(second, "ann")
    come(second, "bob")

    assert [str(each.stanza.get("from")) for each in list_waiting(first)] == [f"{ROOM}/ann"]
    assert [str(each.stanza.get("from")) for each in list_waiting(second)] == [f"{ROOM}/bob"]


def list_waiting(connection: XmppConnection) -> list[IncomingStanza]:
    return [connection.incoming.get_nowait() for _ in range(connection.incoming.qsize())]
