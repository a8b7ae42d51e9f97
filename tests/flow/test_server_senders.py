"""People of two servers of one kind: rights that somebody has on one are no rights on the other."""

from pathlib import Path

import pytest

from gatepost.channels.contract import CHANNELS, MYSELF
from gatepost.core.records import replace
from gatepost.core.registry import load_package
from gatepost.flow.server_senders import add_server, remove_server
from gatepost.messages.inbound import Inbound, Quote
from gatepost.store.messages import messages
from gatepost.store.people import users
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import running_gateway

ANN = "fake:user/10"
SHARED = replace(FakeChannel().kind, per_server=False)
APART = replace(FakeChannel().kind, per_server=True)


def make_event(event: str = "message", sender: str = ANN) -> Inbound:
    quote = Quote(platform_id="1", sender="fake:user/11", text="before")
    return Inbound(address="fake:room/1", platform_id="2", sender=sender, text="x", event=event, reply_to=quote)


def test_the_same_id_on_two_servers_is_two_people() -> None:
    office, club = add_server(APART, "office", make_event()), add_server(APART, "club", make_event())
    assert (office.sender, club.sender) == ("fake:office/user/10", "fake:club/user/10")
    assert office.reply_to is not None and office.reply_to.sender == "fake:office/user/11"
    assert (office.address, office.event) == ("fake:room/1", "message")


@pytest.mark.parametrize("begin", ["reaction:👍:", "reaction:a:b:", "join:"])
def test_an_event_that_names_its_sender_names_the_same_one(begin: str) -> None:
    assert add_server(APART, "club", make_event(begin + ANN)).event == f"{begin}fake:club/user/10"


def test_the_instance_that_is_named_like_its_kind_keeps_plain_addresses() -> None:
    assert add_server(APART, "fake", make_event()) == make_event()
    assert add_server(SHARED, "club", make_event()) == make_event()


@pytest.mark.parametrize("sender", [MYSELF, "untrusted:fake/user/10"])
def test_who_is_nobody_of_the_platform_is_the_same_everywhere(sender: str) -> None:
    assert add_server(APART, "club", make_event(sender=sender)).sender == sender


@pytest.mark.parametrize(
    ("instance", "identity", "plain"),
    [
        ("club", "fake:club/user/10", ANN),
        ("club", ANN, ""),
        ("club", "fake:office/user/10", ""),
        ("club", "other:club/user/10", ""),
        ("fake", ANN, ANN),
        ("fake", "other:user/10", ""),
    ],
)
def test_a_channel_is_asked_for_its_own_people_by_their_plain_ids(instance: str, identity: str, plain: str) -> None:
    assert remove_server(APART, instance, identity) == plain


def test_where_ids_hold_everywhere_every_instance_can_be_asked() -> None:
    assert remove_server(SHARED, "club", ANN) == ANN


async def test_in_a_gateway_an_owner_of_one_server_is_a_stranger_on_the_other(tmp_path: Path) -> None:
    office, club = FakeChannel(), FakeChannel()
    async with running_gateway(tmp_path, {"office": (APART, office), "club": (APART, club)}) as gateway:
        for channel in (office, club):
            await channel.say("hello", address="fake:room/1", sender=ANN, platform_id="7")
        found = [
            await gateway.store.read(messages.find, instance, "fake:room/1", "in", "7")
            for instance in ("office", "club")
        ]
        senders = [each.sender for each in found if each is not None]
        await gateway.store.write(users.add, senders[0], "Ann", gateway.clock.now())
        known = [(await gateway.store.read(users.get_roles, each)).known for each in senders]
    assert senders == ["fake:office/user/10", "fake:club/user/10"]
    assert known == [True, False]


def test_the_kinds_whose_servers_count_their_people_themselves_say_so() -> None:
    load_package("gatepost.channels")
    apart = {name for name, kind in CHANNELS.items() if kind.per_server}
    assert apart >= {"irc", "mastodon", "mattermost", "ntfy", "webhook", "zulip"}
    assert not apart & {"telegram", "discord", "slack", "matrix", "email", "bluesky", "signal", "remote"}
