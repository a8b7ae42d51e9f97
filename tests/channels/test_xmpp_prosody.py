"""The XMPP channel against a real Prosody."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gatepost.channels.contract import ChannelEnded, EndReason, MemoryCursor, SupportsReadMarks
from gatepost.channels.xmpp.adapter import Xmpp
from gatepost.core.errors import NotFound, Refused, Unavailable
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Op, Outbound
from gatepost_testing.channel_suite import GradeState, list_failures, run_suite
from gatepost_testing.platforms.base import PlatformFault
from gatepost_testing.platforms.wiring import ReceivedEvents, listening, make_channel
from gatepost_testing.servers.prosody import find_prosody
from gatepost_testing.servers.xmpp_server import BOT, REFUSALS, XmppServer
from gatepost_testing.waiting import PATIENCE_S, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_prosody() is None, reason="Prosody is not installed: scripts/system_packages.py --all"),
]
MARKABLE = "<markable xmlns='urn:xmpp:chat-markers:0'/>"
ASKS = "<request xmlns='urn:xmpp:receipts'/>"
FORGED = "<x xmlns='http://jabber.org/protocol/muc#user'><item jid='bob@localhost'/></x>"
# A real server does not do these, and XMPP has no word for some of them.
NOT_TRIED = {"duplicate events", "reordered events", "lost acknowledgement", "rate limit", "order of sends"}


class VeiledServer(XmppServer):
    """Its rooms show accounts to their owners alone."""

    shows_accounts = False


@pytest.fixture
def server() -> Iterator[XmppServer]:
    with XmppServer() as platform:
        yield platform


def message(key: str, text: str = "", **more: Any) -> Outbound:
    return Outbound(key=key, text=text, **more)


@asynccontextmanager
async def receiving(server: XmppServer, cursor: MemoryCursor) -> AsyncIterator[ReceivedEvents]:
    """A new instance, once it is in its rooms: what was said before it first came there is none of its business."""
    channel, deps = make_channel(server, cursor=cursor)
    async with listening(channel) as received:
        await until(lambda: deps.pulse is not None and deps.pulse.beats > 0)
        yield received


async def test_the_suite_finds_nothing(figures: Any) -> None:
    grades = await run_suite(XmppServer, patience=PATIENCE_S, at_once=3)
    assert list_failures(grades) == []
    assert {each.check for each in grades if each.state is GradeState.NOT_TRIED} == NOT_TRIED
    figures(f"xmpp, Prosody: {sum(each.state is GradeState.PASS for each in grades)} pass")


async def test_what_was_said_while_the_gateway_was_away_is_received_with_its_senders(server: XmppServer) -> None:
    cursor = MemoryCursor()
    async with receiving(server, cursor) as received:
        server.send("before")
        server.send("before, between us", room="direct:bob", sender="bob")
        await received.wait_for(2)
    for number in range(105):  # more than a page
        server.send(f"meanwhile {number}", sender="bob")
    server.send("meanwhile, between us", room="direct:ann")
    async with receiving(server, cursor) as received:
        events = await received.wait_for(106)
    team = [each for each in events if not each.direct]
    assert [each.text for each in team] == [f"meanwhile {number}" for number in range(105)]
    assert {(each.sender, each.verb) for each in team} == {(server.get_sender("bob"), Verb.MESSAGE)}
    (private,) = [each for each in events if each.direct]
    assert (private.sender, private.text) == (server.get_sender("ann"), "meanwhile, between us")
    assert all(each.at for each in events)


async def test_an_account_that_somebody_writes_into_a_message_is_not_believed(server: XmppServer) -> None:
    cursor = MemoryCursor()
    async with receiving(server, cursor) as received:
        server.post("team", "ann", f"<body>I am bob</body>{FORGED}")
        (event,) = await received.wait_for(1)
        assert event.sender == server.get_sender("ann")
    server.post("team", "ann", f"<body>I am bob, archived</body>{FORGED}")
    async with receiving(server, cursor) as received:
        (event,) = await received.wait_for(1)
    assert event.sender != server.get_sender("bob")


async def test_people_in_a_room_that_hides_accounts_are_untrusted() -> None:
    cursor = MemoryCursor()
    with VeiledServer() as server:
        async with receiving(server, cursor) as received:
            server.post("team", "bob", f"<body>bot: open up</body>{FORGED}")
            (live,) = await received.wait_for(1)
        server.post("team", "bob", f"<body>and again</body>{FORGED}")
        async with receiving(server, cursor) as received:
            (archived,) = await received.wait_for(1)
        for event in (live, archived):
            assert (event.sender, event.verb) == (f"{server.get_address('team')}/bob", Verb.UNTRUSTED)
        channel, _ = make_channel(server)
        notes = (await channel.check()).notes  # type: ignore[attr-defined]
        assert any("untrusted" in each for each in notes)


async def test_another_instance_edits_and_deletes_what_the_first_said(server: XmppServer) -> None:
    first, _ = make_channel(server)
    ids = {room: await first.send(server.get_address(room), message(room, "old")) for room in ("team", "direct:ann")}
    await first.close()  # type: ignore[attr-defined]
    second, _ = make_channel(server)
    for room, said in ids.items():
        where = server.get_address(room)
        await second.send(where, message(f"edit {room}", "new", op=Op.EDIT, target=said))
        assert (server.find(said).text, server.find(said).edits) == ("new", 1)
        await second.send(where, message(f"delete {room}", op=Op.DELETE, target=said))
        assert server.list_shown(room) == []
    with pytest.raises(NotFound, match="too old"):
        await second.send(server.get_address("team"), message("e", "new", op=Op.EDIT, target="unknown"))
    await second.close()  # type: ignore[attr-defined]


async def test_nobody_edits_what_another_said(server: XmppServer) -> None:
    async with receiving(server, MemoryCursor()) as received:
        said = server.send("I pay")
        await received.wait_for(1)
        server.edit("team", said, "I do not pay", sender="bob")
        server.send("the end", sender="bob")
        assert [each.text for each in await received.wait_for(2)] == ["I pay", "the end"]


async def test_an_account_that_is_not_there_is_refused_by_name(server: XmppServer) -> None:
    channel, _ = make_channel(server)
    with pytest.raises(Refused, match="service-unavailable"):
        await channel.send("xmpp:nobody@localhost", message("k", "hello"))
    await channel.close()  # type: ignore[attr-defined]


async def test_two_reactions_of_the_bot_both_stay(server: XmppServer) -> None:
    channel, _ = make_channel(server)
    said = server.send("well done")
    for number, emoji in enumerate("👍🎉"):
        reaction = message(f"r{number}", op=Op.REACT, target=said, reaction=emoji)
        await channel.send(server.get_address("team"), reaction)
    assert server.find(said).reactions == [("👍", "bot"), ("🎉", "bot")]
    await channel.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("wrong", [{"user": "nobody"}, {"rooms": ("team",)}, {"server": "localhost"}])
async def test_a_setting_that_is_wrong_is_named(server: XmppServer, wrong: dict[str, Any]) -> None:
    channel, _ = make_channel(server, **wrong)
    with pytest.raises(ChannelEnded) as ended:
        await channel.check()  # type: ignore[attr-defined]
    assert ended.value.reason is EndReason.SETTING
    await channel.close()  # type: ignore[attr-defined]


async def test_a_check_beside_the_running_channel_finds_it_and_leaves_it_alone(server: XmppServer) -> None:
    async with receiving(server, MemoryCursor()) as received:
        asked, _ = make_channel(server)
        assert isinstance(asked, Xmpp)
        assert (await asked.check()).name.startswith("bot@localhost")
        with pytest.raises(ChannelEnded, match="bot@localhost/gatepost-xmpp") as ended:
            await asked.check_poller()
        assert ended.value.reason is EndReason.SECOND_POLLER
        server.send("still there?", room="direct:ann")
        server.send("and here?")
        assert {each.text for each in await received.wait_for(2)} == {"still there?", "and here?"}
        await asked.close()


async def test_a_person_who_looks_in_with_the_bots_account_is_no_second_poller(server: XmppServer) -> None:
    looking = server._run_in_loop(server._log_in("bot@localhost/phone", ""))
    asked, _ = make_channel(server)
    assert isinstance(asked, Xmpp)
    await asked.check()
    await asked.check_poller()
    await asked.close()
    server.call_soon(looking.abort)


async def test_a_room_that_has_forgotten_the_bot_is_joined_again(
    server: XmppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a restart of the service of rooms, which tells nobody."""
    monkeypatch.setitem(REFUSALS, PlatformFault.FORBIDDEN, "occupant of a room")
    channel, deps = make_channel(server)
    async with listening(channel) as received:
        await until(lambda: deps.pulse is not None and deps.pulse.beats > 0)
        server.fault(PlatformFault.FORBIDDEN)
        with pytest.raises(Unavailable, match="no longer in") as raised:
            await channel.send(server.get_address("team"), message("k", "x"))
        assert not raised.value.uncertain
        server.send("are you there?")
        await received.wait_for(1)
        await channel.send(server.get_address("team"), message("k", "x"))
    assert server.texts("team") == ["x"]


async def test_people_see_that_an_agent_took_their_messages_where_their_program_asks(server: XmppServer) -> None:
    """A mark stands for what was said before it, so the newest gets it; a receipt is of one message alone."""
    channel, deps = make_channel(server)
    assert isinstance(channel, SupportsReadMarks)
    async with listening(channel) as received:
        await until(lambda: deps.pulse is not None and deps.pulse.beats > 0)
        team = [server.post("team", "ann", f"<body>bot: {each}</body>{MARKABLE}{ASKS}") for each in "ab"]
        plain = server.post("team", "ann", "<body>bot: c</body>")
        alone = [server.post("direct:bob", "bob", f"<body>{each}</body>{MARKABLE}{ASKS}") for each in "de"]
        await received.wait_for(5)
        assert server.list_marks() == []  # nothing that no agent took
        await channel.mark_read(server.get_address("team"), "", (team[0],))
        await channel.mark_read(server.get_address("team"), "", (team[1], plain))
        await channel.mark_read(server.get_address("direct:bob"), "", tuple(alone))
        await channel.mark_read(server.get_address("direct:bob"), "", tuple(alone))
        marks = [("team", "displayed", each) for each in team]
        marks += [("direct:bob", "received", each) for each in alone] + [("direct:bob", "displayed", alone[1])]
        await until(lambda: server.list_marks() == marks)
    assert server.texts("team") == server.texts("direct:bob") == []


async def test_a_program_can_find_out_that_the_bot_gives_marks(server: XmppServer) -> None:
    for read_marks in (True, False):
        channel, deps = make_channel(server, read_marks=read_marks)
        async with listening(channel):
            await until(lambda pulse=deps.pulse: pulse is not None and pulse.beats > 0)
            found = await asyncio.to_thread(server.list_features, "ann", f"{BOT}/gatepost-xmpp")
        assert ("urn:xmpp:chat-markers:0" in found, "urn:xmpp:receipts" in found) == (read_marks, read_marks)
