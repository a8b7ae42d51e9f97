"""A few tools for tests of whatever serves tools: one for each thing that can become of a call."""

import asyncio
from dataclasses import dataclass

from gatepost.access.tiers import Tier
from gatepost.core.errors import Unavailable
from gatepost.core.registry import Registry
from gatepost.tools.contract import Call, Tool, tool

FEW: Registry[Tool] = Registry("tool")


class Gates:
    """What the slow tool waits for. Renew it in each test: its events are of that test's loop."""

    opened: asyncio.Event
    entered: asyncio.Event
    cancelled: asyncio.Event

    @classmethod
    def renew(cls) -> None:
        cls.opened, cls.entered, cls.cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()


@dataclass(frozen=True, slots=True)
class Measured:
    text: str
    size: int


@tool(tier=Tier.WORKER, group="few", quick=True, registry=FEW)
async def echo(call: Call, text: str) -> str:
    """Say it again."""
    return text


@tool(tier=Tier.WORKER, group="few", registry=FEW)
async def measure(call: Call, text: str) -> Measured:
    """Say how long it is."""
    return Measured(text, len(text))


@tool(tier=Tier.WORKER, group="few", registry=FEW)
async def fail(call: Call) -> str:
    """Be away."""
    raise Unavailable("the moon", "it is day")


@tool(tier=Tier.WORKER, group="few", registry=FEW)
async def count_to(call: Call, number: int) -> str:
    """Count."""
    for at in range(number):
        call.progress(at + 1, number, f"at {at + 1}")
    return "done"


@tool(tier=Tier.WORKER, group="few", registry=FEW)
async def wait(call: Call) -> str:
    """Wait for the test."""
    Gates.entered.set()
    try:
        await Gates.opened.wait()
    except asyncio.CancelledError:
        Gates.cancelled.set()
        raise
    return "waited"


@tool(tier=Tier.ROOT, group="few", registry=FEW)
async def rule(call: Call) -> str:
    """For the root group alone."""
    return "ruled"
