"""Sandboxes: which walls a group's agents get, as the gateway itself sees this machine."""

import asyncio
from dataclasses import asdict
from typing import Any

from gatepost.flow.sessions.walls import ANYBODY, walls_for
from gatepost.serve.control.contract import Args, Office, operation
from gatepost.store import groups


class WallsOf(Args, frozen=True):
    folder: str = ""  # '': a group that says nothing of sandboxes
    provider: str = ""


@operation("sandbox.walls", WallsOf)
async def walls(office: Office, args: WallsOf) -> dict[str, Any]:
    group = await office.store.read(groups.get, args.folder) if args.folder else None
    return asdict(await asyncio.to_thread(walls_for, office.config, group or ANYBODY, args.provider))
