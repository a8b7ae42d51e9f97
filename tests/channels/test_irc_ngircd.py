"""The IRC channel against a real ngIRCd."""

from collections.abc import Iterator

import pytest

from gatepost.channels.irc.adapter import IrcChannel
from gatepost.core.errors import NotFound
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Outbound
from gatepost_testing.platforms.base import PlatformFault
from gatepost_testing.platforms.wiring import listening, make_channel
from gatepost_testing.servers.irc_server import NgircdPlatform, find_ngircd
from gatepost_testing.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_ngircd() is None, reason="ngircd is not installed; make test-all installs it"),
]


@pytest.fixture
def server() -> Iterator[NgircdPlatform]:
    with NgircdPlatform() as running:
        assert isinstance(running, NgircdPlatform)
        yield running


async def test_messages_go_both_ways_and_outlive_a_restart_of_the_server(server: NgircdPlatform) -> None:
    channel, deps = make_channel(server)
    assert isinstance(channel, IrcChannel)
    async with listening(channel) as received:
        await until(server.is_present)
        server.send("hello", sender="ann")
        server.send("could you help", sender="bob", mention=True)
        server.send("between us", room="direct:ann")
        events = await received.wait_for(lambda found: sum(each.verb != Verb.JOIN for each in found) == 3)
        by_text = {each.text: each for each in events}
        assert by_text["hello"].address == "irc:channel/#team" and by_text["hello"].sender == "irc:nick/ann"
        assert by_text["could you help"].verb == Verb.MENTION and by_text["between us"].direct

        await channel.send("irc:channel/#team", Outbound(key="1", text="hi all\nQUIT"))
        await channel.send("irc:direct/bob", Outbound(key="2", text="psst"))
        await server.until(
            lambda: server.texts("team") == ["hi all", "QUIT"] and server.texts("direct:bob") == ["psst"]
        )
        with pytest.raises(NotFound, match="No such nick"):
            await channel.send("irc:direct/nobody", Outbound(key="3", text="x"))

        server.fault(PlatformFault.DROPPED)
        await until(server.is_present)
        server.send("still there?")
        await received.wait_for(lambda found: found[-1].text == "still there?")
        assert deps.pulse is not None and deps.pulse.beats > 0


async def test_a_nick_in_use_gets_an_underscore(server: NgircdPlatform) -> None:
    channel, _ = make_channel(server, nick="ann")
    assert isinstance(channel, IrcChannel)
    assert (await channel.check()).name == "ann_"
