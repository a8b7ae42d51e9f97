"""Surroundings and questions of a provider, for tests of one by itself: no sandbox, no runner."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from gatepost.inside.providers.contract import Batch, Event, Item, ItemKind, ProviderContext
from gatepost_testing.waiting import PATIENCE_S


def make_context(path: Path, **fields: Any) -> ProviderContext:
    """The group `home`, with its folders below `path`. `fields`: what shall be otherwise."""
    usual = {
        "workspace": path,
        "agent": path / "agent",
        "start": path / "agent",
        "state": path / "state",
        "router": path / "run" / "router.sock",
        "folder": "home",
        "name": "Home",
        "model": "",
        "timezone": "UTC",
    }
    return ProviderContext(**{**usual, **fields})


def make_batch(text: str, row: int = 1, turn: str = "t-1", *, continued: bool = False, **content: Any) -> Batch:
    """One message."""
    item = Item(row=row, seq=row, kind=ItemKind.CHAT, sender="ann", text=text, content=content)
    return Batch(turn=turn, prompt=text, items=(item,), continued=continued)


async def read_all(events: AsyncIterator[Event]) -> list[Event]:
    """Those of a whole turn."""
    async with asyncio.timeout(PATIENCE_S):
        return [event async for event in events]
