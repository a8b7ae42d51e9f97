"""Sandboxes: which walls a group's agents get, as the gateway itself sees this machine."""

import asyncio

from gatepost.flow.sessions.sandbox.isolation import ANYBODY, find_isolation
from gatepost.flow.sessions.sandbox.isolation_report import SandboxIsolation
from gatepost.serve.control.arguments.sandboxes import IsolationArgs
from gatepost.serve.control.contract import OperationDeps, operation
from gatepost.store.sessions import groups


@operation
async def get_isolation(deps: OperationDeps, args: IsolationArgs) -> SandboxIsolation:
    group = await deps.store.read(groups.get, args.folder) if args.folder else None
    return await asyncio.to_thread(find_isolation, deps.config, group or ANYBODY, args.provider)
