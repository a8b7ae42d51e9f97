"""Agents, for the command line: the same service as behind the MCP server, in the command line's own words."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from gatepost.core.clock import iso
from gatepost.core.errors import Invalid, Unavailable
from gatepost.serve.agents.agent_spec import AgentSpec
from gatepost.serve.agents.providers import list_models as models_of
from gatepost.serve.agents.questions import make_answers
from gatepost.serve.agents.service import AgentService
from gatepost.serve.agents.timeline import merge_entries, render_entries
from gatepost.serve.control.contract import OPERATOR, NoArgs, OperationArgs, OperationDeps, operation
from gatepost.store.timeline import TimelineEntry

LONGEST_WAIT_S = 50.0  # of one request; who wants to wait longer asks again
MOST_ENTRIES = 1000
# What the tools call a thing, as somebody writes it who types.
WORDS = {
    **{name: f"--{name}" for name in ("cwd", "title", "provider", "model", "mode", "folder", "policy")},
    "worktreeName": "--worktree",
    "baseBranch": "--base",
    "labels": "--label",
    "prompt": "PROMPT",
    "agentId": "AGENT",
    "requestId": "REQUEST",
}


class AgentArgs(OperationArgs, frozen=True):
    id: str


class ProviderArgs(OperationArgs, frozen=True):
    provider: str


class ListAgentsArgs(OperationArgs, frozen=True):
    archived: bool = False


class PromptAgentArgs(OperationArgs, frozen=True):
    id: str
    text: str
    policy: str = "queue"
    mode: str = ""


class WaitForAgentArgs(OperationArgs, frozen=True):
    id: str
    timeout_s: float = LONGEST_WAIT_S


class AgentLogsArgs(OperationArgs, frozen=True):
    id: str
    after: int = 0
    limit: int = 200


class FollowAgentArgs(OperationArgs, frozen=True):
    """`status` and `asked`: what whoever asks knows already; news is what differs."""

    id: str
    after: int | None = None
    limit: int = 200
    status: str = ""
    asked: list[str] = msgspec.field(default_factory=list)
    timeout_s: float = 0.0


class SetAgentModeArgs(OperationArgs, frozen=True):
    id: str
    mode: str


class AnswerRequestArgs(OperationArgs, frozen=True):
    id: str
    allow: bool
    message: str = ""
    interrupt: bool = False
    answers: list[str] = msgspec.field(default_factory=list)  # to a question: one for each thing that it asks


@contextmanager
def _with_option_names() -> Iterator[None]:
    """What is refused is named as whoever typed it knows it."""
    try:
        yield
    except Invalid as wrong:
        raise Invalid(WORDS.get(wrong.target, wrong.target), wrong.why) from None


def get_agent_service(office: OperationDeps) -> AgentService:
    service = office.extra.get("agents")
    if not isinstance(service, AgentService):
        raise Unavailable("agents", "the gateway is not running; `gatepost up` starts it")
    return service


def _to_json(what: Any) -> Any:
    return msgspec.to_builtins(what)


@operation("agent.create", AgentSpec)
async def create(office: OperationDeps, args: AgentSpec) -> Any:
    service = get_agent_service(office)
    parent = (await service.find(args.parent)).id if args.parent else ""
    wanted = msgspec.structs.replace(args, parent=parent)
    with _with_option_names():
        return _to_json(await service.create(wanted, OPERATOR))


@operation("agent.list", ListAgentsArgs)
async def list_agents(office: OperationDeps, args: ListAgentsArgs) -> Any:
    return _to_json(await get_agent_service(office).every(archived=args.archived))


@operation("agent.show", AgentArgs)
async def show(office: OperationDeps, args: AgentArgs) -> Any:
    return _to_json(await get_agent_service(office).status(args.id))


@operation("agent.prompt", PromptAgentArgs)
async def prompt(office: OperationDeps, args: PromptAgentArgs) -> Any:
    service = get_agent_service(office)
    with _with_option_names():
        await service.prompt(args.id, args.text, OPERATOR, policy=args.policy, mode=args.mode)
    return _to_json(await service.status(args.id))


@operation("agent.wait", WaitForAgentArgs)
async def wait(office: OperationDeps, args: WaitForAgentArgs) -> Any:
    return _to_json(await get_agent_service(office).wait(args.id, min(max(args.timeout_s, 0), LONGEST_WAIT_S)))


@operation("agent.token", AgentArgs)
async def token(office: OperationDeps, args: AgentArgs) -> dict[str, str]:
    """A new one, told this once."""
    service = get_agent_service(office)
    found = await service.find(args.id)
    return {"agentId": found.id, "token": await service.token(found.id, OPERATOR)}


@operation("agent.stop", AgentArgs)
async def stop(office: OperationDeps, args: AgentArgs) -> dict[str, Any]:
    service = get_agent_service(office)
    with _with_option_names():
        found = await service.find(args.id)
    return {"agentId": found.id, "stopped": await service.cancel(found.id, OPERATOR)}


@operation("agent.kill", AgentArgs)
async def kill(office: OperationDeps, args: AgentArgs) -> Any:
    service = get_agent_service(office)
    await service.kill(args.id, OPERATOR)
    return _to_json(await service.status(args.id))


@operation("agent.archive", AgentArgs)
async def archive(office: OperationDeps, args: AgentArgs) -> Any:
    service = get_agent_service(office)
    await service.archive(args.id, OPERATOR)
    return _to_json(await service.status(args.id))


@operation("agent.mode", SetAgentModeArgs)
async def set_mode(office: OperationDeps, args: SetAgentModeArgs) -> Any:
    service = get_agent_service(office)
    with _with_option_names():
        await service.set_mode(args.id, args.mode, OPERATOR)
    return _to_json(await service.status(args.id))


@operation("agent.logs", AgentLogsArgs)
async def logs(office: OperationDeps, args: AgentLogsArgs) -> dict[str, Any]:
    """Entries after a cursor, as they are and as lines."""
    epoch, entries = await get_agent_service(office).entries(args.id, args.after, min(max(args.limit, 1), MOST_ENTRIES))
    return {
        "epoch": epoch,
        "next": entries[-1].seq if entries else args.after,
        "more": bool(entries) and len((await get_agent_service(office).entries(args.id, entries[-1].seq, 1))[1]) > 0,
        "entries": list(map(_entry_to_json, entries)),
        "text": render_entries(merge_entries(entries)) if entries else "",
    }


@operation("agent.follow", FollowAgentArgs)
async def follow(office: OperationDeps, args: FollowAgentArgs) -> dict[str, Any]:
    """What came after a cursor, as soon as there is something; how it stands, and what it asks."""
    seen = args.status, frozenset(args.asked)
    timeout, limit = min(max(args.timeout_s, 0), LONGEST_WAIT_S), min(max(args.limit, 1), MOST_ENTRIES)
    news = await get_agent_service(office).follow(args.id, args.after, seen, timeout, limit)
    return {
        "agentId": news.agent.id,
        "title": news.agent.title,
        "provider": news.agent.provider,
        "status": news.status,
        "currentModeId": news.mode,
        "epoch": news.agent.id,
        "next": news.entries[-1].seq if news.entries else args.after or 0,
        "entries": list(map(_entry_to_json, news.entries)),
        "permissions": _to_json(news.permissions),
    }


def _entry_to_json(each: TimelineEntry) -> dict[str, Any]:
    return {"seq": each.seq, "at": iso(each.at), "turn": each.turn_id, "kind": each.kind, "data": each.data}


@operation("agent.providers", NoArgs)
async def providers(office: OperationDeps, args: NoArgs) -> Any:
    return _to_json(await get_agent_service(office).providers())


@operation("agent.models", ProviderArgs)
async def models(office: OperationDeps, args: ProviderArgs) -> Any:
    return _to_json(models_of(office.home, args.provider))


@operation("permit.list", NoArgs)
async def list_pending(office: OperationDeps, args: NoArgs) -> list[dict[str, Any]]:
    return [
        {"agent": _to_json(each), "request": _to_json(request)}
        for each, request in await get_agent_service(office).pending()
    ]


@operation("permit.answer", AnswerRequestArgs)
async def answer_request(office: OperationDeps, args: AnswerRequestArgs) -> dict[str, Any]:
    service = get_agent_service(office)
    with _with_option_names():
        request = await service.request(args.id)
        name = request.id if request is not None else args.id  # what does not wait, the service answers
        given = make_answers(request, args.answers) if args.allow and request is not None else {}
        await service.respond(
            name, OPERATOR, allow=args.allow, updated=given, message=args.message, interrupt=args.interrupt
        )
    started = {"nextModeId": request.next_mode_id, "followUp": request.follow_up} if args.allow and request else {}
    return {"id": name, "allowed": args.allow, **{key: each for key, each in started.items() if each}}
