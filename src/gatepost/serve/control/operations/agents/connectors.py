"""Connectors: which there are, what each offers, and whether it answers. Values of its environment never go out."""

import asyncio
from collections.abc import Mapping

from gatepost.core import settings
from gatepost.core.errors import Invalid, NotFound, Unavailable, did_you_mean
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.gate.connectors import (
    CONNECTORS,
    LONGEST_NAME,
    MOST_NAMED,
    Connector,
    check_connectors,
    choose_seen,
    get_digest,
    list_cached_tools,
    list_changes,
    read_cached_tools,
    record_accepted,
)
from gatepost.messages.visible_text import show_hidden
from gatepost.serve.control.arguments.agents.connectors import (
    AcceptConnectorToolsArgs,
    AcceptedTools,
    CheckConnectorArgs,
    ConnectorChanges,
    ConnectorItem,
    ListConnectorChangesArgs,
    ListConnectorsArgs,
)
from gatepost.serve.control.contract import OperationDeps, operation
from gatepost.store.rights import connector_tools
from gatepost.store.rights.connector_tools import ConnectorCheck

LONGEST_CHECK_S = 30.0
MOST_CHECKS = 4  # at once, of all callers


_checks = asyncio.Semaphore(MOST_CHECKS)


@operation
async def list_connectors(deps: OperationDeps, args: ListConnectorsArgs) -> list[ConnectorItem]:
    return await asyncio.to_thread(_read_connectors, deps.home)


def _read_connectors(home: Home) -> list[ConnectorItem]:
    declared = settings.load_declared(home.path, CONNECTORS)[CONNECTORS]
    return [_make_item(home, name, each) for name, each in sorted(declared.items())]


def _make_item(home: Home, name: str, each: Connector) -> ConnectorItem:
    held = read_cached_tools(home, name, each).held
    return ConnectorItem(
        name=name,
        program=each.command[0],
        tier=each.tier,
        timeout_s=each.timeout_s,
        variables=tuple(entry.partition("=")[0] for entry in each.env),
        secrets=tuple(each.secrets.values()),
        tools=list_cached_tools(home, name, each),
        held=tuple(show_hidden(tool[:LONGEST_NAME]) for tool in held if each.offers(tool)),
    )


@operation
async def list_connector_changes(deps: OperationDeps, args: ListConnectorChangesArgs) -> list[ConnectorChanges]:
    declared = await _load_declared(deps)
    names = [_check_declared(args.name, declared)] if args.name else sorted(declared)
    found = []
    for name in names:
        cached = await asyncio.to_thread(read_cached_tools, deps.home, name, declared[name])
        accepted = await deps.store.read(connector_tools.list_accepted, name)
        if changed := await asyncio.to_thread(list_changes, name, cached, accepted):
            found.append(ConnectorChanges(name, get_digest(choose_seen(cached)), changed))
    return found


@operation
async def accept_connector_tools(deps: OperationDeps, args: AcceptConnectorToolsArgs) -> AcceptedTools:
    declared, now = await _load_declared(deps), deps.clock.now()
    name = _check_declared(args.name, declared)
    cached = await asyncio.to_thread(read_cached_tools, deps.home, name, declared[name])
    seen = choose_seen(cached, args.tool)
    if not seen:
        raise NotFound("change", args.tool or name, "`gatepost connector changes` shows what waits to be accepted")
    if args.digest and args.digest != get_digest(seen):
        raise Invalid("digest", "something else waits by now; look again: `gatepost connector changes`")
    tools = tuple(show_hidden(each.tool[:LONGEST_NAME]) for each in seen)
    await deps.write(
        lambda db: connector_tools.accept(db, name, seen, deps.caller, now),
        tools=list(tools[:MOST_NAMED]),
        digests=[each.digest for each in seen[:MOST_NAMED]],
    )
    await asyncio.to_thread(record_accepted, deps.home, name, cached, seen)
    if (running := deps.extra.get("connectors")) is not None:
        running.reload(name)
    return AcceptedTools(name, tools)


async def _load_declared(deps: OperationDeps) -> Mapping[str, Connector]:
    return (await asyncio.to_thread(settings.load_declared, deps.home.path, CONNECTORS))[CONNECTORS]


def _check_declared(name: str, declared: Mapping[str, Connector]) -> str:
    if name not in declared:
        near = did_you_mean(name, declared)
        raise NotFound("connector", name, f"[connectors.NAME] in gatepost.toml declares one{near}")
    return name


@operation
async def check_connector(deps: OperationDeps, args: CheckConnectorArgs) -> ConnectorCheck:
    declared = await _load_declared(deps)
    each = declared[_check_declared(args.name, declared)]
    if _checks.locked():
        raise Unavailable("the check", "others are checked now; try again in a while")
    async with _checks:
        quick = replace(each, timeout_s=min(each.timeout_s, LONGEST_CHECK_S))
        [found] = await check_connectors(deps.home, {args.name: quick})
    return found
