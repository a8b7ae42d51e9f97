"""The operations on channels in a running gateway, and what `status` and `doctor` say of one that is not well."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gatepost.channels.contract import BotIdentity, ChannelEnded, ChannelState
from gatepost.core.errors import Invalid, NotFound, Refused
from gatepost.core.home import Home
from gatepost.core.process.listen_address import find_control_path
from gatepost.core.settings import Config
from gatepost.serve.control.channel_changes import render_after
from gatepost.serve.control.client import ControlClient, ControlError
from gatepost.store.rights import secrets
from gatepost.store.rooms import channel_instances
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.gateway import running_gateway, wait_for_channel
from gatepost_testing.operation_harness import OperationHarness
from gatepost_testing.storms.beacon import GOOD_TOKEN, BeaconChannel, BeaconPlatform, registered_beacon
from gatepost_testing.waiting import PATIENCE_S, block_until

pytestmark = pytest.mark.anyio


@pytest.fixture
def platform() -> Iterator[BeaconPlatform]:
    with registered_beacon() as made:
        yield made


class Office(OperationHarness):
    async def add(self, instance: str, **settings: str) -> Any:
        args: dict[str, Any] = {
            "kind": "beacon",
            "instance": instance,
            "settings": settings,
            "secrets": {"token": GOOD_TOKEN},
        }
        return await self.run("channel.add", **args)

    async def find(self, instance: str) -> Any:
        return next((each for each in await self.run("channel.list") if each["instance"] == instance), None)


@pytest.fixture
async def office(tmp_path: Path, platform: BeaconPlatform) -> AsyncIterator[Office]:
    async with running_gateway(tmp_path) as gateway:
        yield Office(gateway)


async def test_a_channel_that_is_added_runs_at_once(office: Office, platform: BeaconPlatform) -> None:
    made = await office.add("north", color="green")
    await wait_for_channel(office.gateway, "north", ChannelState.UP)
    row = await office.find("north")

    assert (made["bot"], made["is_running"]) == ("@north (Beacon)", True)
    assert (row["state"], row["settings"], row["origin"]) == ("up", {"color": "green"}, "store")
    assert row["beat_at"] is not None and row["tested_against"] == "nothing: it is made up"
    assert (await office.find("web"))["state"] == "up"


@pytest.mark.slow
async def test_a_change_restarts_that_one_alone(office: Office, platform: BeaconPlatform) -> None:
    await office.add("north")
    await office.add("south")
    await wait_for_channel(office.gateway, "north", ChannelState.UP)
    await wait_for_channel(office.gateway, "south", ChannelState.UP)
    await office.run("channel.set", instance="north", settings={"color": "blue"})
    await wait_for_channel(office.gateway, "north", ChannelState.UP)

    assert platform.colors == {"north": "blue", "south": "red"}
    assert sorted(platform.connects) == ["north", "north", "south"]

    await office.run("channel.set", instance="north", off=True)
    assert (await office.find("north"))["state"] == "off"
    assert "north" not in office.gateway.adapters
    await office.run("channel.set", instance="north", on=True)
    await wait_for_channel(office.gateway, "north", ChannelState.UP)


@pytest.mark.slow
async def test_a_change_that_the_platform_refuses_leaves_the_running_one_alone(
    office: Office, platform: BeaconPlatform
) -> None:
    await office.add("north")
    await wait_for_channel(office.gateway, "north", ChannelState.UP)
    with pytest.raises(ChannelEnded, match="no longer accepts the token"):
        await office.run("channel.set", instance="north", secrets={"token": "a-wrong-one"}, settings={"color": "blue"})

    assert (await office.find("north"))["settings"] == {}
    assert platform.connects == ["north"]
    assert (await office.run("channel.test", instance="north"))["bot"] == "@north (Beacon)"


async def test_one_that_has_ended_runs_again_with_a_valid_key(office: Office, platform: BeaconPlatform) -> None:
    await office.add("north")
    platform.tokens.clear()
    await wait_for_channel(office.gateway, "north", ChannelState.ENDED)
    assert (await office.run("channel.restart", instance="north"))["state"] == "ended"
    with pytest.raises(ChannelEnded):
        await office.run("channel.test", instance="north")
    platform.tokens.add("a-newer-key-9")
    await office.run("channel.set", instance="north", secrets={"token": "a-newer-key-9"})
    await wait_for_channel(office.gateway, "north", ChannelState.UP)


@pytest.mark.slow
async def test_a_removed_one_is_gone_with_its_secrets(office: Office, platform: BeaconPlatform) -> None:
    await office.add("north")
    await wait_for_channel(office.gateway, "north", ChannelState.UP)
    platform.push("hello")
    gone = await office.run("channel.remove", instance="north")

    assert gone["secrets"] == ["CHANNEL_NORTH_TOKEN"]
    assert await office.find("north") is None
    assert await office.gateway.store.read(channel_instances.list_all) == []
    assert await office.gateway.store.read(secrets.list_all) == []
    assert not (office.gateway.home.channels / "north").exists()
    with pytest.raises(Invalid, match="is part of the gateway"):
        await office.run("channel.remove", instance="web")


async def test_only_who_has_the_right_at_the_root_may(office: Office, platform: BeaconPlatform) -> None:
    for name, args in (("channel.list", {}), ("channel.remove", {"instance": "north"})):
        with pytest.raises(Refused, match=r"it needs op:channel\.(read|write) there"):
            await office.run(name, caller="web:user/9", **args)


def test_the_guide_names_the_instance_and_the_address_that_people_see() -> None:
    text = "Set the callback to <web.url>/channels/<instance>."
    assert render_after(text, "work", Config()) == "Set the callback to <web.url>/channels/work."
    public = Config({"web.url": "https://bot.example/"})
    assert render_after(text, "work", public) == "Set the callback to https://bot.example/channels/work."


PLUGIN = """
import os
from gatepost_testing.storms.beacon import BeaconChannel, BeaconPlatform, register_beacon

class FilePlatform(BeaconPlatform):
    def check(self, token):
        self.tokens = set(open(os.environ["GATEPOST_HOME"] + "/tokens").read().split())
        super().check(token)

BeaconChannel.platform = FilePlatform()
register_beacon()
"""


@pytest.mark.slow
def test_a_revoked_token_is_named_in_status_and_doctor_of_a_real_gateway(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.prepare()
    (home.plugins / "channels" / "beacon.py").write_text(PLUGIN)
    (home.path / "tokens").write_text(GOOD_TOKEN)
    with DaemonProcess(home.path) as daemon:
        control = ControlClient(find_control_path(home), home.path)

        def post(name: str, **args: Any) -> Any:
            return control.post(f"/v1/ops/{name}", args, 30)["result"]

        def health() -> Any:
            return next((each for each in daemon.json("status")["channel_health"] if each["instance"] == "north"), None)

        with pytest.raises(ControlError, match="does not accept the token"):
            post("channel.add", kind="beacon", instance="north", secrets={"token": "wrong-key"})
        assert health() is None
        post("channel.add", kind="beacon", instance="north", secrets={"token": GOOD_TOKEN})
        block_until(lambda: health()["state"] == "up", "the channel is up")
        assert "channel    " not in daemon.gatepost("status").stdout
        block_until(lambda: "north is up" in daemon.gatepost("doctor").stdout, "the doctor says that it is up")

        (home.path / "tokens").write_text("")
        block_until(lambda: health()["state"] == "ended", "the end is in status")
        remedy = "set a valid one with `gatepost channel set north --secret token`"
        line = f"north is ended: beacon no longer accepts the token; {remedy}"
        assert line in daemon.gatepost("status").stdout
        assert "north is ended: beacon no longer accepts the token" in daemon.gatepost("doctor").stdout
        assert "a channel has ended" in daemon.gatepost("channel", "logs", "north").stdout
        said = daemon.stderr() + "".join(path.read_text() for path in home.logs.iterdir())
        assert GOOD_TOKEN not in said and "wrong-key" not in said
        assert GOOD_TOKEN not in str(daemon.json("audit", "list"))
    assert os.listdir(home.channels) == ["north"]


async def _set_slowly(office: Office, monkeypatch: pytest.MonkeyPatch, name: str, **args: Any) -> Any:
    """The channel, after somebody did this while another's `channel set` waited for the platform."""
    await office.add("north")
    asked, answers = asyncio.Event(), asyncio.Event()

    async def check(channel: BeaconChannel) -> BotIdentity:
        asked.set()
        await answers.wait()
        return BotIdentity(name="@it")

    monkeypatch.setattr(BeaconChannel, "check", check)
    first = asyncio.create_task(office.run("channel.set", instance="north", settings={"color": "green"}))
    async with asyncio.timeout(PATIENCE_S):
        await asked.wait()
        await office.run(name, instance="north", **args)
        answers.set()
        with suppress(NotFound):
            await first
    return await office.find("north")


async def test_a_channel_that_was_removed_while_it_was_set_does_not_come_back(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await _set_slowly(office, monkeypatch, "channel.remove") is None
    assert await office.gateway.store.read(channel_instances.list_secret_names, "north", ()) == []
    assert office.gateway.supervisor.find_report("north") is None


@pytest.mark.slow
async def test_a_channel_that_was_switched_off_while_it_was_set_stays_off(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    north = await _set_slowly(office, monkeypatch, "channel.set", off=True)
    assert (north["state"], north["settings"]) == ("off", {"color": "green"})
