"""A channel in trouble, on a real daemon: who looks at `status` sees which one, why, and what to do."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gatepost_testing.platforms.base import PlatformFault
from gatepost_testing.platforms.telegram import TelegramPlatform
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.waiting import block_until

from .channel_desk import ChannelDesk


@pytest.fixture
def platform() -> Iterator[TelegramPlatform]:
    with TelegramPlatform() as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "named"),
    [
        (PlatformFault.UNAUTHORIZED, "no longer accepts the token"),
        pytest.param(PlatformFault.CONFLICT, "another program", marks=pytest.mark.slow),
    ],
)
def test_a_revoked_token_and_a_second_poller_are_named_and_nothing_is_lost(
    platform: TelegramPlatform, tmp_path: Path, fault: PlatformFault, named: str
) -> None:
    with ChannelDesk(tmp_path, platform, ScriptBuilder().otherwise().say("echo: {text}")) as desk:
        platform.send("before")
        desk.wait_for_text("echo: before")

        platform.fault(fault)
        block_until(lambda: named in desk.daemon.gatepost("status").stdout, f"{fault} in the status")
        assert named in desk.daemon.gatepost("doctor").stdout
        (found,) = [each for each in desk.daemon.json("channel", "list") if each["instance"] == "telegram"]
        assert found["state"] == "ended" and found["remedy"]
        platform.send("meanwhile")  # the platform keeps it

        platform.heal()
        desk.run("channel", "restart", "telegram")
        desk.wait_for_text("echo: meanwhile")
        desk.wait_until_settled()
        assert platform.texts("team") == ["echo: before", "echo: meanwhile"]
        assert named not in desk.daemon.gatepost("status").stdout
