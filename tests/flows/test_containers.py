"""A whole gateway whose agents live in containers."""

import shutil
from pathlib import Path

import pytest

from gatepost.core.settings import Config
from gatepost.sandboxes.docker import Docker
from gatepost.testing.channel import FakeChannel
from gatepost.testing.gateway import open_room, running_gateway, settled

from .conftest import ROOM, until

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", ["podman", "docker"])
async def test_a_message_is_answered_from_a_container_and_a_stop_ends_it(
    tmp_path: Path, channel: FakeChannel, kind: str
) -> None:
    if shutil.which(kind) is None or (kind == "docker" and Docker(Config()).trouble() is not None):
        pytest.skip(f"{kind} is not installed, or its daemon does not run")
    around = {"fake": (channel.kind, channel)}
    async with running_gateway(tmp_path / "h", around, sandbox__kind=kind) as gateway:
        await open_room(gateway, "fake", ROOM)
        await channel.say("hello")
        await channel.wait_for(1, timeout=30)
        account = await settled(gateway)

        assert channel.texts() == ["echo: hello"]
        assert account.unaccounted == 0
        (live,) = gateway.sessions.awake
        await gateway.sessions.stop(live.session.id, "a person")
        await until(lambda: gateway.sessions.awake == [], "the container to end")
