"""Agents, for the command line: the same service as behind the MCP server, in the command line's own words."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from gatepost.core.clock import iso
from gatepost.core.errors import Invalid, Unavailable
from gatepost.serve.agents.providers import models as models_of
from gatepost.serve.agents.questions import answers_to
from gatepost.serve.agents.service import Agents
from gatepost.serve.agents.timeline import curated, projected
from gatepost.serve.agents.wishes import Wanted
from gatepost.serve.control.contract import OPERATOR, Args, Nothing, Office, operation
from gatepost.store.timeline import Entry

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


class Named(Args, frozen=True):
    id: str


class Provider(Args, frozen=True):
    provider: str


class Listing(Args, frozen=True):
    archived: bool = False


class Prompt(Args, frozen=True):
    id: str
    text: str
    policy: str = "queue"
    mode: str = ""


class Wait(Args, frozen=True):
    id: str
    timeout_s: float = LONGEST_WAIT_S


class Logs(Args, frozen=True):
    id: str
    after: int = 0
    limit: int = 200


class Follow(Args, frozen=True):
    """`status` and `asked`: what whoever asks knows already; news is what differs."""

    id: str
    after: int | None = None
    limit: int = 200
    status: str = ""
    asked: list[str] = msgspec.field(default_factory=list)
    timeout_s: float = 0.0


class SetMode(Args, frozen=True):
    id: str
    mode: str


class Answer(Args, frozen=True):
    id: str
    allow: bool
    message: str = ""
    interrupt: bool = False
    answers: list[str] = msgspec.field(default_factory=list)  # to a question: one for each thing that it asks


@contextmanager
def _typed() -> Iterator[None]:
    """What is refused is named as whoever typed it knows it."""
    try:
        yield
    except Invalid as wrong:
        raise Invalid(WORDS.get(wrong.target, wrong.target), wrong.why) from None


def service_of(office: Office) -> Agents:
    service = office.extra.get("agents")
    if not isinstance(service, Agents):
        raise Unavailable("agents", "the gateway is not running; `gatepost up` starts it")
    return service


def _told(what: Any) -> Any:
    return msgspec.to_builtins(what)


@operation("agent.create", Wanted)
async def create(office: Office, args: Wanted) -> Any:
    service = service_of(office)
    parent = (await service.find(args.parent)).id if args.parent else ""
    wanted = msgspec.structs.replace(args, parent=parent)
    with _typed():
        return _told(await service.create(wanted, OPERATOR))


@operation("agent.list", Listing)
async def every(office: Office, args: Listing) -> Any:
    return _told(await service_of(office).every(archived=args.archived))


@operation("agent.show", Named)
async def show(office: Office, args: Named) -> Any:
    return _told(await service_of(office).status(args.id))


@operation("agent.prompt", Prompt)
async def prompt(office: Office, args: Prompt) -> Any:
    service = service_of(office)
    with _typed():
        await service.prompt(args.id, args.text, OPERATOR, policy=args.policy, mode=args.mode)
    return _told(await service.status(args.id))


@operation("agent.wait", Wait)
async def wait(office: Office, args: Wait) -> Any:
    return _told(await service_of(office).wait(args.id, min(max(args.timeout_s, 0), LONGEST_WAIT_S)))


@operation("agent.token", Named)
async def token(office: Office, args: Named) -> dict[str, str]:
    """A new one, told this once."""
    service = service_of(office)
    found = await service.find(args.id)
    return {"agentId": found.id, "token": await service.token(found.id, OPERATOR)}


@operation("agent.stop", Named)
async def stop(office: Office, args: Named) -> dict[str, Any]:
    service = service_of(office)
    with _typed():
        found = await service.find(args.id)
    return {"agentId": found.id, "stopped": await service.cancel(found.id, OPERATOR)}


@operation("agent.kill", Named)
async def kill(office: Office, args: Named) -> Any:
    service = service_of(office)
    await service.kill(args.id, OPERATOR)
    return _told(await service.status(args.id))


@operation("agent.archive", Named)
async def archive(office: Office, args: Named) -> Any:
    service = service_of(office)
    await service.archive(args.id, OPERATOR)
    return _told(await service.status(args.id))


@operation("agent.mode", SetMode)
async def set_mode(office: Office, args: SetMode) -> Any:
    service = service_of(office)
    with _typed():
        await service.set_mode(args.id, args.mode, OPERATOR)
    return _told(await service.status(args.id))


@operation("agent.logs", Logs)
async def logs(office: Office, args: Logs) -> dict[str, Any]:
    """Entries after a cursor, as they are and as lines."""
    epoch, entries = await service_of(office).entries(args.id, args.after, min(max(args.limit, 1), MOST_ENTRIES))
    return {
        "epoch": epoch,
        "next": entries[-1].seq if entries else args.after,
        "more": bool(entries) and len((await service_of(office).entries(args.id, entries[-1].seq, 1))[1]) > 0,
        "entries": list(map(_entry, entries)),
        "text": curated(projected(entries)) if entries else "",
    }


@operation("agent.follow", Follow)
async def follow(office: Office, args: Follow) -> dict[str, Any]:
    """What came after a cursor, as soon as there is something; how it stands, and what it asks."""
    seen = args.status, frozenset(args.asked)
    timeout, limit = min(max(args.timeout_s, 0), LONGEST_WAIT_S), min(max(args.limit, 1), MOST_ENTRIES)
    news = await service_of(office).follow(args.id, args.after, seen, timeout, limit)
    return {
        "agentId": news.agent.id,
        "title": news.agent.title,
        "provider": news.agent.provider,
        "status": news.status,
        "currentModeId": news.mode,
        "epoch": news.agent.id,
        "next": news.entries[-1].seq if news.entries else args.after or 0,
        "entries": list(map(_entry, news.entries)),
        "permissions": _told(news.permissions),
    }


def _entry(each: Entry) -> dict[str, Any]:
    return {"seq": each.seq, "at": iso(each.at), "turn": each.turn_id, "kind": each.kind, "data": each.data}


@operation("agent.providers", Nothing)
async def providers(office: Office, args: Nothing) -> Any:
    return _told(await service_of(office).providers())


@operation("agent.models", Provider)
async def models(office: Office, args: Provider) -> Any:
    return _told(models_of(office.home, args.provider))


@operation("permit.list", Nothing)
async def pending(office: Office, args: Nothing) -> list[dict[str, Any]]:
    return [{"agent": _told(each), "request": _told(request)} for each, request in await service_of(office).pending()]


@operation("permit.answer", Answer)
async def answer(office: Office, args: Answer) -> dict[str, Any]:
    service = service_of(office)
    with _typed():
        request = await service.request(args.id)
        name = request.id if request is not None else args.id  # what does not wait, the service answers
        given = answers_to(request, args.answers) if args.allow and request is not None else {}
        await service.respond(
            name, OPERATOR, allow=args.allow, updated=given, message=args.message, interrupt=args.interrupt
        )
    started = {"nextModeId": request.next_mode_id, "followUp": request.follow_up} if args.allow and request else {}
    return {"id": name, "allowed": args.allow, **{key: each for key, each in started.items() if each}}
