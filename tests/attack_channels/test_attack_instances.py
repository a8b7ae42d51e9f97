"""Several instances: whose rights, whose folder, and two operators at once."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.channels.contract import BotIdentity
from gatepost.core.errors import GatepostError
from gatepost.core.registry import load_package
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.testing.beacon import GOOD_TOKEN, BeaconChannel, BeaconPlatform, registered_beacon
from gatepost.testing.gateway import running_gateway

SOON_S = 10.0


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
