"""Agents, for the command line: the same service as behind the MCP server, in the command line's own words. Connectors:
which there are, what each offers, and whether it answers. Values of a connector's environment never go out."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from msgspec import UNSET

from gatepost.core import settings
from gatepost.core.errors import Invalid, NotFound, Unavailable, did_you_mean
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.flow.requests.card_delivery import find_facts
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
from gatepost.serve.agents.pending_requests import make_answers
from gatepost.serve.agents.providers import list_models as models_of
from gatepost.serve.agents.service import AgentService
from gatepost.serve.control.arguments.agents import (
    LONGEST_WAIT_S,
    AcceptConnectorToolsArgs,
    AcceptedTools,
    AgentNews,
    AgentRequest,
    AgentSnapshot,
    AgentSpec,
    AgentToken,
    AgentTokenArgs,
    AnswerRequestArgs,
    AnswerResult,
    ArchiveAgentArgs,
    CheckConnectorArgs,
    ConnectorChanges,
    ConnectorItem,
    FollowAgentArgs,
    KillAgentArgs,
    ListAgentsArgs,
    ListConnectorChangesArgs,
    ListConnectorsArgs,
    ListModelsArgs,
    ListProvidersArgs,
    ListRequestsArgs,
    LogEntry,
    ModelInfo,
    PromptAgentArgs,
    ProviderInfo,
    SetAgentModeArgs,
    ShowAgentArgs,
    StopAgentArgs,
    StopAgentResult,
    WaitForAgentArgs,
    WaitOutcome,
)
from gatepost.serve.control.contract import OperationDeps, operation
from gatepost.serve.control.declaration import list_fields
from gatepost.store.port import Db
from gatepost.store.rights import connector_tools, requests
from gatepost.store.rights.connector_tools import ConnectorCheck
from gatepost.store.sessions.timeline import TimelineEntry

MOST_ENTRIES = 1000
# The tools' arguments, by their option on the command line.
WORDS = {
    **{each.spec.tool: f"--{each.spec.name or each.name}" for each in list_fields(AgentSpec)},
    "provider": "--provider",
    "mode": "--mode",
    "prompt": "PROMPT",
    "agentId": "AGENT",
    "requestId": "",  # the reason says which
    "lasts": "--for",
}

LONGEST_CONNECTOR_CHECK_S = 30.0
MOST_CONNECTOR_CHECKS = 4  # at once, of all callers
_connector_checks = asyncio.Semaphore(MOST_CONNECTOR_CHECKS)


@contextmanager
def _with_option_names() -> Iterator[None]:
    """Name a refused argument by its option on the command line, not by the argument of the tool."""
    try:
        yield
    except Invalid as wrong:
        raise Invalid(WORDS.get(wrong.target, wrong.target), wrong.why) from None


def get_agent_service(deps: OperationDeps) -> AgentService:
    service = deps.extra.get("agents")
    if not isinstance(service, AgentService):
        raise Unavailable("agents", "the gateway is not running; `gatepost up` starts it")
    return service


@operation
async def create(deps: OperationDeps, args: AgentSpec) -> AgentSnapshot:
    with _with_option_names():
        return await get_agent_service(deps).create(args, deps.caller)


@operation
async def list_agents(deps: OperationDeps, args: ListAgentsArgs) -> list[AgentSnapshot]:
    return await get_agent_service(deps).every(archived=args.archived)


@operation
async def show(deps: OperationDeps, args: ShowAgentArgs) -> AgentSnapshot:
    return await get_agent_service(deps).status(args.id)


@operation
async def prompt(deps: OperationDeps, args: PromptAgentArgs) -> AgentSnapshot:
    service = get_agent_service(deps)
    with _with_option_names():
        await service.prompt(args.id, args.text, deps.caller, policy=args.policy, mode=args.mode)
    return await service.status(args.id)


@operation
async def wait(deps: OperationDeps, args: WaitForAgentArgs) -> WaitOutcome:
    return await get_agent_service(deps).wait(args.id, min(max(args.timeout_s, 0), LONGEST_WAIT_S))


@operation
async def token(deps: OperationDeps, args: AgentTokenArgs) -> AgentToken:
    service = get_agent_service(deps)
    found = await service.find(args.id)
    return AgentToken(found.id, await service.token(found.id, deps.caller))


@operation
async def stop(deps: OperationDeps, args: StopAgentArgs) -> StopAgentResult:
    service = get_agent_service(deps)
    with _with_option_names():
        found = await service.find(args.id)
    return StopAgentResult(found.id, await service.cancel(found.id, deps.caller))


@operation
async def kill(deps: OperationDeps, args: KillAgentArgs) -> AgentSnapshot:
    service = get_agent_service(deps)
    await service.kill(args.id, deps.caller)
    return await service.status(args.id)


@operation
async def archive(deps: OperationDeps, args: ArchiveAgentArgs) -> AgentSnapshot:
    service = get_agent_service(deps)
    await service.archive(args.id, deps.caller)
    return await service.status(args.id)


@operation
async def set_mode(deps: OperationDeps, args: SetAgentModeArgs) -> AgentSnapshot:
    service = get_agent_service(deps)
    with _with_option_names():
        await service.set_mode(args.id, args.mode, deps.caller)
    return await service.status(args.id)


@operation
async def follow(deps: OperationDeps, args: FollowAgentArgs) -> AgentNews:
    seen = args.status, frozenset(args.asked)
    timeout, limit = min(max(args.timeout_s, 0), LONGEST_WAIT_S), min(max(args.limit, 1), MOST_ENTRIES)
    news = await get_agent_service(deps).follow(args.id, args.after, seen, timeout, limit)
    return AgentNews(
        agent_id=news.agent.id,
        title=news.agent.title,
        provider=news.agent.provider,
        status=news.status,
        current_mode_id=news.mode,
        epoch=news.agent.id,
        next=news.entries[-1].seq if news.entries else args.after or 0,
        entries=list(map(_make_entry, news.entries)),
        permissions=news.permissions,
    )


def _make_entry(each: TimelineEntry) -> LogEntry:
    return LogEntry(each.seq, each.at, each.turn_id, each.kind, each.data)


@operation
async def providers(deps: OperationDeps, args: ListProvidersArgs) -> list[ProviderInfo]:
    return await get_agent_service(deps).providers()


@operation
async def models(deps: OperationDeps, args: ListModelsArgs) -> list[ModelInfo]:
    return models_of(deps.home, args.provider)


@operation
async def list_pending(deps: OperationDeps, args: ListRequestsArgs) -> list[AgentRequest]:
    found = await get_agent_service(deps).pending(args.after, args.limit)
    names = await deps.store.read(_list_askers, [request.id for _, request in found])
    return [AgentRequest(each, request, names.get(request.id, "")) for each, request in found]


def _list_askers(db: Db, ids: list[str]) -> dict[str, str]:
    """Return the person behind each of these requests, by its id."""
    known = [request for name in ids if (request := requests.get(db, name)) is not None]
    return {request.id: find_facts(db, request).asked_by for request in known}


@operation
async def answer_request(deps: OperationDeps, args: AnswerRequestArgs) -> AnswerResult:
    service = get_agent_service(deps)
    with _with_option_names():
        request = await service.request(args.id)
        name = request.id if request is not None else args.id  # what does not wait, the service answers
        given = make_answers(request, args.answers) if args.allow and request is not None else {}
        given = given or args.input
        awaited = await service.respond(
            name,
            deps.caller,
            allow=args.allow,
            updated=given,
            message=args.message,
            interrupt=args.interrupt,
            lasts=args.lasts,
        )
    if awaited:
        return AnswerResult(id=name, allowed=False, awaited=awaited)
    if not args.allow or request is None:
        return AnswerResult(id=name, allowed=args.allow)
    return AnswerResult(
        id=name, allowed=True, next_mode_id=request.next_mode_id or UNSET, follow_up=request.follow_up or UNSET
    )


@operation
async def list_connectors(deps: OperationDeps, args: ListConnectorsArgs) -> list[ConnectorItem]:
    return await asyncio.to_thread(_read_connectors, deps.home)


def _read_connectors(home: Home) -> list[ConnectorItem]:
    declared = settings.load_declared(home.path, CONNECTORS)[CONNECTORS]
    return [_make_connector_item(home, name, each) for name, each in sorted(declared.items())]


def _make_connector_item(home: Home, name: str, each: Connector) -> ConnectorItem:
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
    declared = await _load_connectors(deps)
    names = [_check_connector_declared(args.name, declared)] if args.name else sorted(declared)
    found = []
    for name in names:
        cached = await asyncio.to_thread(read_cached_tools, deps.home, name, declared[name])
        accepted = await deps.store.read(connector_tools.list_accepted, name)
        if changed := await asyncio.to_thread(list_changes, name, cached, accepted):
            found.append(ConnectorChanges(name, get_digest(choose_seen(cached)), changed))
    return found


@operation
async def accept_connector_tools(deps: OperationDeps, args: AcceptConnectorToolsArgs) -> AcceptedTools:
    declared, now = await _load_connectors(deps), deps.clock.now()
    name = _check_connector_declared(args.name, declared)
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


async def _load_connectors(deps: OperationDeps) -> Mapping[str, Connector]:
    return (await asyncio.to_thread(settings.load_declared, deps.home.path, CONNECTORS))[CONNECTORS]


def _check_connector_declared(name: str, declared: Mapping[str, Connector]) -> str:
    if name not in declared:
        near = did_you_mean(name, declared)
        raise NotFound("connector", name, f"[connectors.NAME] in gatepost.toml declares one{near}")
    return name


@operation
async def check_connector(deps: OperationDeps, args: CheckConnectorArgs) -> ConnectorCheck:
    declared = await _load_connectors(deps)
    each = declared[_check_connector_declared(args.name, declared)]
    if _connector_checks.locked():
        raise Unavailable("the check", "others are checked now; try again in a while")
    async with _connector_checks:
        quick = replace(each, timeout_s=min(each.timeout_s, LONGEST_CONNECTOR_CHECK_S))
        [found] = await check_connectors(deps.home, {args.name: quick})
    return found
