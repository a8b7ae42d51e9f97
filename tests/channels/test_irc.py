"""The IRC channel against a small server in this process. `tests/channels/test_irc_ngircd.py` has a real one."""

import asyncio
from collections.abc import Iterator

import pytest

from gatepost.channels.contract import CHANNELS, ChannelEnded, EndReason
from gatepost.channels.irc import ACCOUNT, PASSWORD, adapter, wire
from gatepost.channels.irc.adapter import ChannelMembers, IrcChannel
from gatepost.channels.irc.wire import CaseMapping, parse_line, read_join, read_mapping, read_message
from gatepost.core.errors import NotFound, Refused, Unavailable, Unsupported
from gatepost.flow.intake.intake import IntakeLimits, make_arrival
from gatepost.messages.inbound import Verb, is_untrusted
from gatepost.messages.outbound import Op, Outbound
from gatepost_testing.platforms.base import PlatformFault
from gatepost_testing.platforms.irc import CAPABILITIES, IrcPlatform
from gatepost_testing.platforms.wiring import ReceivedEvents, listening, make_channel
from gatepost_testing.waiting import PATIENCE_S, until


@pytest.fixture
def platform() -> Iterator[IrcPlatform]:
    with IrcPlatform() as running:
        assert isinstance(running, IrcPlatform)
        yield running


def make(platform: IrcPlatform, **more: object) -> IrcChannel:
    channel, _ = make_channel(platform, **more)  # type: ignore[arg-type]
    assert isinstance(channel, IrcChannel)
    return channel


async def connected(platform: IrcPlatform, channel: IrcChannel) -> None:
    await until(lambda: platform.count_clients() and channel.own_names)


async def test_what_people_say_is_received_in_our_words(platform: IrcPlatform) -> None:
    channel = make(platform)
    async with listening(channel) as received:
        await connected(platform, channel)
        first = platform.send("good \x02morning\x0f")
        platform.send("could you help", sender="bob", mention=True)
        platform.send("\x01ACTION waves\x01")
        platform.send("\x01VERSION\x01")
        platform.send("between us", room="direct:ann")
        platform.join("team", sender="eve")
        events = await received.wait_for(5)
    by_text = {each.text: each for each in events}
    plain = by_text["good morning"]
    assert (plain.address, plain.platform_id, plain.sender) == ("irc:channel/#team", first, "irc:account/ann")
    assert plain.verb == Verb.MESSAGE and plain.at is not None
    assert by_text["could you help"].verb == Verb.MENTION
    assert by_text["between us"].direct and by_text["between us"].address == "irc:direct/ann"
    assert "* ann waves" in by_text
    assert [each.sender for each in events if each.verb == Verb.JOIN] == ["irc:account/eve"]


async def test_a_nick_alone_proves_nothing_unless_the_operator_says_so(platform: IrcPlatform) -> None:
    platform.accounts = False
    for trusted, verb in ((False, Verb.UNTRUSTED), (True, Verb.MESSAGE)):
        channel = make(platform, trust_nicks=trusted)
        async with listening(channel) as received:
            await connected(platform, channel)
            platform.send("hello")
            (event,) = await received.wait_for(1)
        assert (event.sender, event.verb) == ("irc:nick/ann", verb)
        await until(lambda: not platform.count_clients())


@pytest.mark.slow
async def test_messages_go_out_line_by_line_and_no_word_is_a_command(platform: IrcPlatform) -> None:
    channel = make(platform)
    async with listening(channel):
        await connected(platform, channel)
        await channel.send("irc:channel/#team", Outbound(key="1", text="one\r\nQUIT :bye\n\ntwo\0three"))
        sent = await channel.send("irc:direct/ann", Outbound(key="2", text="psst"))
        assert platform.find(sent).text == "psst"
        assert platform.texts("team") == ["one\nQUIT :bye\ntwo three"]
        assert platform.texts("direct:ann") == ["psst"] and platform.count_clients() == 1
        with pytest.raises(NotFound, match="No such nick"):
            await channel.send("irc:direct/nobody", Outbound(key="3", text="x"))
        platform.fault(PlatformFault.FORBIDDEN)
        with pytest.raises(Refused, match="Cannot send"):
            await channel.send("irc:channel/#team", Outbound(key="4", text="x"))
        for address in ("irc:channel/team", "irc:channel/#a,#b", "irc:direct/a b", "irc:direct/#x"):
            with pytest.raises(NotFound):
                await channel.send(address, Outbound(key="5", text="x"))
        with pytest.raises(Unsupported):
            await channel.send("irc:channel/#team", Outbound(key="6", op=Op.EDIT, target="1", text="x"))


async def test_a_line_whose_arrival_nobody_confirmed_is_uncertain(platform: IrcPlatform) -> None:
    channel = make(platform)
    with pytest.raises(Unavailable) as away:
        await make(platform, port=1).send("irc:channel/#team", Outbound(key="0", text="x"))
    assert not away.value.uncertain
    async with listening(channel):
        await connected(platform, channel)
        platform.fault(PlatformFault.NO_ANSWER)
        with pytest.raises(Unavailable) as lost:
            await channel.send("irc:channel/#team", Outbound(key="1", text="once"))
        assert lost.value.uncertain and platform.texts("team") == ["once"]


@pytest.mark.slow
async def test_it_comes_back_after_a_lost_connection(platform: IrcPlatform) -> None:
    channel = make(platform)
    async with listening(channel) as received:
        await connected(platform, channel)
        platform.fault(PlatformFault.DROPPED)
        await until(lambda: not platform.count_clients())
        await connected(platform, channel)
        platform.fault(PlatformFault.DUPLICATE)
        platform.send("again")
        platform.send("and again")
        await received.wait_for(2)
    assert received.texts == ["again", "and again"]


async def test_an_event_that_intake_cannot_take_is_kept(platform: IrcPlatform) -> None:
    channel, received = make(platform), ReceivedEvents()
    async with listening(channel, received):
        await connected(platform, channel)
        received.error = Unavailable("the store")
        platform.send("hold on")
        await until(lambda: received.calls)
        received.error = None
        await received.wait_for(1)


async def test_another_nick_is_used_if_it_is_taken(platform: IrcPlatform) -> None:
    platform.taken |= {"porter", "porter_"}
    assert (await make(platform).check()).name == "porter__"


async def test_a_refused_password_ends_the_channel(platform: IrcPlatform) -> None:
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(ChannelEnded) as ended:
            await make(platform, secrets={"password": "wrong"}).listen(ReceivedEvents().receive)
        assert ended.value.reason == EndReason.TOKEN
        with pytest.raises(ChannelEnded, match="server"):
            await make(platform, host="").check()
        with pytest.raises(ChannelEnded, match="nick"):
            await make(platform, nick="a b").check()
        with pytest.raises(ChannelEnded, match="channel"):
            await make(platform, rooms=("team",)).check()
        with pytest.raises(Unavailable, match="cannot be reached"):
            await make(platform, port=1).check()


async def test_a_long_password_goes_in_pieces(platform: IrcPlatform) -> None:
    platform.password = "x" * 700
    assert (await make(platform).check()).name == "porter"


async def test_lines_are_sent_at_a_pace_that_is_no_flood(platform: IrcPlatform) -> None:
    channel = make(platform)
    pauses = [channel._get_pause() for _ in range(8)]
    assert pauses[: adapter.LINES.burst] == [0.0] * adapter.LINES.burst and pauses[-1] > 2.0


def say(account: str, mapping: CaseMapping = CaseMapping.ASCII) -> str:
    line = parse_line(f"@account={account} :nick!u@h PRIVMSG #team :hello\r\n".encode())
    read = read_message(line, "porter", "1", False, mapping)
    assert read is not None
    return read.sender


def test_two_accounts_are_two_people() -> None:
    """Networks with CASEMAPPING=ascii tell `bob[1]` from `bob{1}`, and no network takes the Kelvin sign for a k."""
    assert say("bob[1]") != say("bob{1}")
    assert say("Bob[1]", CaseMapping.RFC1459) == say("bob{1}", CaseMapping.RFC1459)
    assert say("b^", CaseMapping.RFC1459_STRICT) != say("b~", CaseMapping.RFC1459_STRICT)
    for mapping in CaseMapping:
        assert say("\u212aate", mapping) != say("Kate", mapping) == say("kate", mapping)


@pytest.mark.parametrize(
    ("told", "mapping"),
    [
        ("CASEMAPPING=ascii", CaseMapping.ASCII),
        ("CASEMAPPING=RFC1459", CaseMapping.RFC1459),
        ("CASEMAPPING=rfc1459-strict", CaseMapping.RFC1459_STRICT),
        ("CASEMAPPING=rfc7613", CaseMapping.ASCII),
        ("NICKLEN=30", None),
    ],
)
def test_which_names_are_one_is_for_the_network_to_say(told: str, mapping: CaseMapping | None) -> None:
    line = parse_line(f":irc.test 005 porter CHANTYPES=# {told} :are supported by this server\r\n".encode())
    assert read_mapping(line) == mapping


async def test_a_name_is_folded_as_the_network_says(platform: IrcPlatform) -> None:
    for told, sender in (("rfc1459", "irc:account/bob{1}"), ("ascii", "irc:account/bob[1]")):
        platform.mapping = told
        channel = make(platform)
        async with listening(channel) as received:
            await connected(platform, channel)
            platform.send("hello", sender="Bob[1]")
            (event,) = await received.wait_for(1)
        assert event.sender == sender
        await until(lambda: not platform.count_clients())


@pytest.mark.parametrize("trusted", [False, True])
def test_a_join_under_an_unproven_nick_is_untrusted_as_a_message_is(trusted: bool) -> None:
    joined = read_join(parse_line(b":ann!u@h JOIN #team\r\n"), "porter", "1", trusted)
    assert joined is not None and joined.verb is Verb.JOIN
    assert is_untrusted(make_arrival("irc", joined, IntakeLimits(), 1, 0).inbound.sender) is not trusted


def test_lines_are_cut_by_bytes_and_never_inside_of_a_character() -> None:
    text = "ä" * 1000 + " words " * 200
    lines = wire.render_lines(text)
    assert all(len(each.encode()) <= wire.LONGEST_TEXT for each in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert len(wire.render_lines("a\n" * 60)) == 2


@pytest.mark.parametrize(
    ("raw", "command", "params", "nick"),
    [
        (b":a!b@c PRIVMSG #x :hi :there\r\n", "PRIVMSG", ("#x", "hi :there"), "a"),
        (b"@a=1;b=x\\sy :s 001 me\r\n", "001", ("me",), "s"),
        (b"PING :x\r\n", "PING", ("x",), ""),
        (b"\r\n", "", (), ""),
        (b"@\r\n", "", (), ""),
        (b":\xff\xfe :\r\n", "", ("",), "\ufffd\ufffd"),
    ],
)
def test_lines_are_read(raw: bytes, command: str, params: tuple[str, ...], nick: str) -> None:
    line = wire.parse_line(raw)
    assert (line.command, line.params, line.nick) == (command, params, nick)


def test_an_account_is_optional() -> None:
    assert CHANNELS["irc"].guide.optional == (ACCOUNT, PASSWORD)


async def test_a_network_whose_accounts_are_away_is_tried_until_they_are_back(platform: IrcPlatform) -> None:
    platform.capabilities = ("message-tags",)
    channel = make(platform)
    with pytest.raises(Unavailable, match="no way to log in with an account now; if it never does, set account"):
        await channel.check()
    async with listening(channel):
        platform.capabilities = CAPABILITIES
        await connected(platform, channel)


def test_who_comes_back_with_the_server_is_no_newcomer() -> None:
    members, mapping = ChannelMembers(), CaseMapping.RFC1459

    def is_back(line: str) -> bool:
        return members.note(parse_line(line.encode()), mapping)

    assert not is_back(":irc.test 353 porter = #team :@ann bob +carl porter")
    assert not is_back(":dan!d@x JOIN #Team")
    assert not is_back(":bob!b@x PART #team :bye")
    assert not is_back(":carl!c@x NICK carla")
    members.lose_connection()
    assert is_back(":Ann!a@x JOIN #team") and is_back(":dan!d@x JOIN #team") and is_back(":carla!c@x JOIN #team")
    assert not is_back(":bob!b@x JOIN #team"), "they had left before"

    assert not is_back(":ann!a@x QUIT :Quit: bye")
    assert not is_back(":ann!a@x JOIN #team"), "they went by themselves"
    assert not is_back(":dan!d@x QUIT :irc.test hub.test")
    assert is_back(":dan!d@x JOIN #team"), "the network fell apart"
    assert not is_back(":dan!d@x JOIN #other")


@pytest.mark.parametrize("address", ["irc:channel/#registered", "irc:direct/ann-registered", "irc:direct/ann-closed"])
async def test_words_that_the_server_does_not_pass_on_are_refused(platform: IrcPlatform, address: str) -> None:
    channel = make(platform)
    with pytest.raises(Refused, match=r"register|permitted"):
        await channel.send(address, Outbound(key="k", text="x"))
    await channel.close()


async def test_words_to_a_channel_that_refuses_the_bot_fail_with_its_reason(platform: IrcPlatform) -> None:
    channel = make(platform, rooms=("#team", "#invited"))
    async with listening(channel) as received:
        await connected(platform, channel)
        platform.send("hello")
        await received.wait_for(1)
        with pytest.raises(Refused, match=r"Cannot join channel \(\+i\)"):
            await channel.send("irc:channel/#invited", Outbound(key="k", text="x"))
