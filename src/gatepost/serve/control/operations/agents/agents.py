"""Agents, for the command line: the same service as behind the MCP server, in the command line's own words."""

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import UNSET

from gatepost.core.errors import Invalid, Unavailable
from gatepost.flow.requests.card_delivery import find_facts
from gatepost.serve.agents.providers import list_models as models_of
from gatepost.serve.agents.questions import make_answers
from gatepost.serve.agents.service import AgentService
from gatepost.serve.control.arguments.agents.agents import (
    LONGEST_WAIT_S,
    AgentNews,
    AgentRequest,
    AgentSnapshot,
    AgentSpec,
    AgentToken,
    AgentTokenArgs,
    AnswerRequestArgs,
    AnswerResult,
    ArchiveAgentArgs,
    FollowAgentArgs,
    KillAgentArgs,
    ListAgentsArgs,
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
from gatepost.store.rights import requests
from gatepost.store.sessions.timeline import TimelineEntry

MOST_ENTRIES = 1000
# The tools' arguments, by their option on the command line.
WORDS = {
    **{each.spec.tool: f"--{each.spec.name or each.name}" for each in list_fields(AgentSpec)},
    "provider": "--provider",
    "mode": "--mode",
    "prompt": "PROMPT",
    "agentId": "AGENT",
    "requestId": "REQUEST",
    "lasts": "--for",
}


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
