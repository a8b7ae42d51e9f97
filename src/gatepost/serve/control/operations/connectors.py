"""Connectors: which there are, what each offers, and whether it answers. Values of its environment never go out."""

import asyncio

from msgspec import Struct

from gatepost.core import settings
from gatepost.core.errors import NotFound, Unavailable
from gatepost.core.home import Home
from gatepost.core.name_suggestions import did_you_mean
from gatepost.core.records import replace
from gatepost.gate.connectors import CONNECTORS, Connector, ConnectorCheck, check_connectors, list_cached_tools
from gatepost.serve.control.arguments.connectors import CheckConnectorArgs, ListConnectorsArgs
from gatepost.serve.control.contract import OperationDeps, operation

LONGEST_CHECK_S = 30.0
MOST_CHECKS = 4  # at once, of all callers


class ConnectorItem(Struct, frozen=True, kw_only=True):
    """`variables`: the names alone. `tools`: as agents call them, when it was last asked."""

    name: str
    program: str
    tier: str
    timeout_s: float
    variables: tuple[str, ...]
    secrets: tuple[str, ...]
    tools: tuple[str, ...]


_checks = asyncio.Semaphore(MOST_CHECKS)


@operation
async def list_connectors(deps: OperationDeps, args: ListConnectorsArgs) -> list[ConnectorItem]:
    return await asyncio.to_thread(_read_connectors, deps.home)


def _read_connectors(home: Home) -> list[ConnectorItem]:
    declared = settings.load_declared(home.path, CONNECTORS)[CONNECTORS]
    return [_make_item(name, each, list_cached_tools(home, name, each)) for name, each in sorted(declared.items())]


def _make_item(name: str, each: Connector, tools: tuple[str, ...]) -> ConnectorItem:
    return ConnectorItem(
        name=name,
        program=each.command[0],
        tier=each.tier,
        timeout_s=each.timeout_s,
        variables=tuple(entry.partition("=")[0] for entry in each.env),
        secrets=tuple(each.secrets.values()),
        tools=tools,
    )


@operation
async def check_connector(deps: OperationDeps, args: CheckConnectorArgs) -> ConnectorCheck:
    declared = (await asyncio.to_thread(settings.load_declared, deps.home.path, CONNECTORS))[CONNECTORS]
    each = declared.get(args.name)
    if each is None:
        near = did_you_mean(args.name, declared)
        raise NotFound("connector", args.name, f"[connectors.NAME] in gatepost.toml declares one{near}")
    if _checks.locked():
        raise Unavailable("the check", "others are checked now; try again in a while")
    async with _checks:
        quick = replace(each, timeout_s=min(each.timeout_s, LONGEST_CHECK_S))
        [found] = await check_connectors(deps.home, {args.name: quick})
    return found
