"""The terminal channel's declaration."""

from gatepost.channels import terminal
from gatepost.channels.contract import CHANNELS
from gatepost.messages.address import parse
from gatepost.messages.outbound import Feature


def test_terminal_is_always_there_and_cannot_take_anything_back() -> None:
    kind = CHANNELS["terminal"]

    assert kind.always and kind.make is terminal.TerminalChannel
    assert Feature.KEYED in kind.features
    assert Feature.DELETE not in kind.features


def test_its_room_and_its_owner_are_addresses_of_its_platform() -> None:
    assert {parse(terminal.TerminalChannel.main_room).platform, parse(terminal.TerminalChannel.owner).platform} == {
        "terminal"
    }
