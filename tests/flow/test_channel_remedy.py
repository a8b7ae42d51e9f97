"""The way out of a channel's end: whole commands for one that runs, and none for one that was never added."""

import pytest

from gatepost.channels.contract import CHANNELS, ChannelEnded, EndReason
from gatepost.core import registry
from gatepost.flow.channel_remedy import render_for_running, reword_for_new


@pytest.mark.parametrize(
    ("reason", "given", "running", "new"),
    [
        (
            EndReason.TOKEN,
            "set a valid one with `gatepost channel set`",
            "set a valid one with `gatepost channel set work --secret token`",
            "add the channel again with a valid one",
        ),
        (
            EndReason.TOKEN,
            "copy it from Settings, and set it with `gatepost channel set`",
            "copy it from Settings, and set it with `gatepost channel set work --secret token`",
            "copy it from Settings, and add the channel again with it",
        ),
        (
            EndReason.SETTING,
            "set its host with `gatepost channel set`",
            "set its host with `gatepost channel set work --set …`",
            "add the channel again with its host",
        ),
        (
            EndReason.SECOND_POLLER,
            "stop it, then start this channel again",
            "stop it, then `gatepost channel restart work`",
            "stop it, then add the channel again",
        ),
        (EndReason.SECOND_POLLER, "stop it", "stop it, then `gatepost channel restart work`", "stop it"),
        (EndReason.RIGHTS, "switch it on there", "switch it on there", "switch it on there"),
    ],
)
def test_the_way_out_has_whole_commands(reason: EndReason, given: str, running: str, new: str) -> None:
    registry.load_package("gatepost.channels")
    error = ChannelEnded(reason, "it no longer accepts the token", given)
    assert render_for_running(error, "work", CHANNELS["telegram"]) == running
    assert str(reword_for_new(error)) == f"it does not accept the token; {new}"


def test_of_several_secrets_none_is_named() -> None:
    registry.load_package("gatepost.channels")
    error = ChannelEnded(EndReason.TOKEN, "no", "set it with `gatepost channel set`")
    assert render_for_running(error, "work", CHANNELS["slack"]) == "set it with `gatepost channel set work`"
