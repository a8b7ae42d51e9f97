"""Several instances: whose rights, whose folder, and two operators at once."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.channels.contract import BotIdentity
from gatepost.core.errors import GatepostError, SetupError
from gatepost.core.registry import load_package
from gatepost.core.settings import Config
from gatepost.flow.channel_specs import list_file_specs
from gatepost.flow.intake.intake import make_arrival
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.testing.beacon import GOOD_TOKEN, BeaconChannel, BeaconPlatform, registered_beacon
from gatepost.testing.gateway import running_gateway
from gatepost.testing.platforms.wiring import listening, make_channel
from gatepost.testing.platforms.zulip import ZulipPlatform

SOON_S = 10.0


async def _hear(sender: str) -> Any:
    with ZulipPlatform() as platform:
        channel, _ = make_channel(platform)
        async with asyncio.timeout(SOON_S), listening(channel) as received:
            await platform.until(lambda: any("register" in path for _, path in platform.requests))
            platform.send("/approve", sender=sender, room=f"direct:{sender}")
            return (await received.wait_for(1))[0]


async def test_two_people_of_two_servers_of_one_kind_are_two_people() -> None:
    """Zulip and Mastodon count accounts from one on each server, IRC has accounts by network, a webhook names its
    senders itself. Rights go by the sender's address alone (`users.get_roles`), so eve is ann."""
    ann, eve = await _hear("ann"), await _hear("eve")
    office = make_arrival("office", ann, Config(), 1, 0).inbound.sender
    club = make_arrival("club", eve, Config(), 1, 0).inbound.sender
    assert office != club


def test_an_instance_of_the_list_has_a_name_and_no_path() -> None:
    """`make_folder` joins it to the home: the folder lies elsewhere."""
    load_package("gatepost.channels")
    with pytest.raises(SetupError):
        list_file_specs(Config({"channels.on": ("../../elsewhere=irc",)}))


class SlowBeacon:
    """A platform that takes its time to say who the bot is."""

    def __init__(self) -> None:
        self.asked, self.answers = asyncio.Event(), asyncio.Event()

    async def check(self, channel: BeaconChannel) -> BotIdentity:
        self.asked.set()
        await self.answers.wait()
        return BotIdentity(name="@it")


@pytest.fixture
def platform() -> Iterator[BeaconPlatform]:
    with registered_beacon() as made:
        yield made


@pytest.fixture
async def gateway(tmp_path: Path, platform: BeaconPlatform) -> AsyncIterator[Gateway]:
    load_package("gatepost.serve.control.operations")
    async with running_gateway(tmp_path) as made:
        yield made


async def _run(gateway: Gateway, name: str, /, **args: Any) -> Any:
    deps = OperationDeps(
        home=gateway.home,
        store=gateway.store,
        clock=gateway.clock,
        config=gateway.config,
        bells=gateway.bells,
        caller="operator",
        extra={"channels": gateway.supervisor},
    )
    return await OPERATIONS[name](deps, args)


async def _change_slowly(gateway: Gateway, monkeypatch: pytest.MonkeyPatch, name: str, **args: Any) -> list[Any]:
    """The channels, after somebody set a color while another did this."""
    await _run(gateway, "channel.add", kind="beacon", instance="north", settings={}, secrets={"token": GOOD_TOKEN})
    slow = SlowBeacon()
    monkeypatch.setattr(BeaconChannel, "check", lambda channel: slow.check(channel))
    first = asyncio.create_task(_run(gateway, "channel.set", instance="north", settings={"color": "red"}))
    async with asyncio.timeout(SOON_S):
        await slow.asked.wait()
        await _run(gateway, name, instance="north", **args)
        slow.answers.set()
        with contextlib.suppress(GatepostError):
            await first
    return [each for each in await _run(gateway, "channel.list") if each["instance"] == "north"]


async def test_a_channel_that_was_removed_meanwhile_does_not_come_back(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`set` reads the row, asks the platform for up to 40 seconds, and writes the whole row: also one that is gone."""
    assert await _change_slowly(gateway, monkeypatch, "channel.remove") == []


async def test_a_channel_that_was_switched_off_meanwhile_stays_off(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    (north,) = await _change_slowly(gateway, monkeypatch, "channel.set", off=True)
    assert north["state"] == "off"
