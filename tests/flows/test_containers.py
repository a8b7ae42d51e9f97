"""A whole gateway whose agents live in containers."""

import importlib.util
import shutil
from pathlib import Path

import pytest

from gatepost.core.settings import Config
from gatepost.sandboxes.contract import trouble_of
from gatepost.sandboxes.docker import Docker
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.models import ModelEndpoint
from gatepost_testing.waiting import until

from .conftest import ROOM
from .test_claude import KEY, PATIENCE, SCRIPT, a_gateway, texts

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", ["podman", "docker"])
async def test_a_message_is_answered_from_a_container_and_a_stop_ends_it(
    tmp_path: Path, channel: FakeChannel, kind: str
) -> None:
    if shutil.which(kind) is None or (kind == "docker" and trouble_of(Docker(Config())) is not None):
        pytest.skip(f"{kind} is not installed, or its daemon does not run")
    channels = {"fake": (channel.kind, channel)}
    async with running_gateway(tmp_path / "h", channels, sandbox__kind=kind) as gateway:
        await open_room(gateway, "fake", ROOM)
        await channel.say("hello")
        await channel.wait_for(1)
        account = await wait_until_settled(gateway)

        assert channel.texts() == ["echo: hello"]
        assert account.unaccounted == 0
        (live,) = gateway.sessions.awake
        await gateway.sessions.stop(live.session.id, "a person")
        await until(lambda: gateway.sessions.awake == [], "the container to end")


@pytest.mark.skipif(shutil.which("podman") is None, reason="podman is not installed")
@pytest.mark.skipif(importlib.util.find_spec("claude_agent_sdk") is None, reason="claude-agent-sdk is not installed")
async def test_claude_remembers_over_a_restart_in_containers_with_no_key_inside(
    tmp_path: Path, channel: FakeChannel
) -> None:
    later = FakeChannel()
    async with ModelEndpoint(SCRIPT) as endpoint:
        async with a_gateway(tmp_path / "h", channel, endpoint, sandbox="podman") as gateway:
            await channel.say("please remember the word plum")
            await channel.wait_for(1, timeout=PATIENCE)
            await wait_until_settled(gateway)

            assert texts(channel) == ["I will remember plum."]
            assert (gateway.home.group("home") / "work.md").read_text() == "word: plum"
        async with a_gateway(tmp_path / "h", later, endpoint, sandbox="podman") as gateway:
            await later.say("which word was it?", platform_id="later-1")
            await later.wait_for(1, timeout=PATIENCE)
            account = await wait_until_settled(gateway)
            (live,) = gateway.sessions.awake

            assert texts(later) == ["The word is plum."]
            assert account.unaccounted == 0
            for folder in (gateway.home.session(live.session.id), gateway.home.group("home")):
                assert not [path for path in folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert endpoint.calls[-1].count_text("remember the word plum") == 1
