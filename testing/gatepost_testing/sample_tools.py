"""A few tools for tests of whatever serves tools: one for each thing that can become of a call."""

import asyncio

from msgspec import Struct

from gatepost.access.tiers import Tier
from gatepost.core.errors import Unavailable
from gatepost.core.registry import Registry
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import Tool, tool

FEW: Registry[Tool] = Registry("tool")


class SlowToolEvents:
    """Events that the slow tool waits for. Renew it in each test: its events are of that test's loop."""

    opened: asyncio.Event
    entered: asyncio.Event
    cancelled: asyncio.Event

    @classmethod
    def renew(cls) -> None:
        cls.opened, cls.entered, cls.cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()


class MeasureResult(Struct, frozen=True):
    text: str
    size: int


@tool(tier=Tier.WORKER, group="few", effects=(), quick=True, registry=FEW)
async def echo(call: ToolCall, text: str) -> str:
    """Say it again."""
    return text


@tool(tier=Tier.WORKER, group="few", effects=(), registry=FEW)
async def measure(call: ToolCall, text: str) -> MeasureResult:
    """Say how long it is."""
    return MeasureResult(text, len(text))


@tool(tier=Tier.WORKER, group="few", effects=(), registry=FEW)
async def fail(call: ToolCall) -> str:
    """Be away."""
    raise Unavailable("the moon", "it is day")


@tool(tier=Tier.WORKER, group="few", effects=(), registry=FEW)
async def count_to(call: ToolCall, number: int, padding: int = 0) -> str:
    """Count, and make each word of it longer by so many characters."""
    for at in range(number):
        call.progress(at + 1, number, f"at {at + 1}" + "." * padding)
    return "done"


@tool(tier=Tier.WORKER, group="few", effects=(), registry=FEW)
async def wait(call: ToolCall) -> str:
    """Wait for the test."""
    SlowToolEvents.entered.set()
    try:
        await SlowToolEvents.opened.wait()
    except asyncio.CancelledError:
        SlowToolEvents.cancelled.set()
        raise
    return "waited"


@tool(tier=Tier.ROOT, group="few", effects=(), registry=FEW)
async def rule(call: ToolCall) -> str:
    """For the root group alone."""
    return "ruled"
