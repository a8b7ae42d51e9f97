"""Sandboxes: which walls a group's agents get, as the gateway itself sees this machine."""

import asyncio
from typing import Any

from gatepost.core.records import asdict
from gatepost.flow.sessions.isolation import ANYBODY, find_isolation
from gatepost.serve.control.contract import OperationArgs, OperationDeps, operation
from gatepost.store import groups


class IsolationArgs(OperationArgs, frozen=True):
    folder: str = ""  # '': a group that says nothing of sandboxes
    provider: str = ""


@operation("sandbox.walls", IsolationArgs)
async def get_isolation(office: OperationDeps, args: IsolationArgs) -> dict[str, Any]:
    group = await office.store.read(groups.get, args.folder) if args.folder else None
    return asdict(await asyncio.to_thread(find_isolation, office.config, group or ANYBODY, args.provider))
