"""Sessions: list the live ones, stop them all, set the provider and model of one, close, fork or copy one."""

import asyncio

from gatepost.core.errors import Invalid, NotFound
from gatepost.flow.sessions.forking import TOPIC_EXISTS, ForkRequest, SessionForker, parse_topic
from gatepost.serve.control.arguments.agents.sessions import (
    CloseResult,
    CloseSessionArgs,
    CopySessionArgs,
    ForkSessionArgs,
    ListSessionsArgs,
    SetSessionArgs,
    StopAllSessionsArgs,
    StopResult,
)
from gatepost.serve.control.contract import OperationDeps, operation, read_operation
from gatepost.serve.control.operations.rooms.groups import check_provider, end_session
from gatepost.store.port import Db
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.forks import ForkedSession
from gatepost.store.sessions.sessions import Session

DEFAULT = "default"  # what takes a session's own provider or model back


def _get_live_session(db: Db, session_id: str) -> Session:
    session = sessions.get(db, session_id)
    if session is None or session.closed_at is not None:
        raise NotFound("live session", session_id, "`gatepost session list` shows them")
    return session


@read_operation
def list_sessions(db: Db, args: ListSessionsArgs, now: int) -> list[Session]:
    if args.folder and groups.get(db, args.folder) is None:
        raise NotFound("group", args.folder[:200], "`gatepost group list` shows them")
    return sessions.list_open(db, args.folder or None)


@operation
async def stop_all(deps: OperationDeps, args: StopAllSessionsArgs) -> list[StopResult]:
    live = [session.id for session in await deps.store.read(sessions.list_open)]
    stop = deps.stop_session
    done = (
        [False] * len(live) if stop is None else await asyncio.gather(*(stop(each, deps.caller_name) for each in live))
    )
    await deps.record_soon(stopped=sum(done))
    return list(map(StopResult, live, done))


@operation
async def close(deps: OperationDeps, args: CloseSessionArgs) -> CloseResult:
    session = await deps.store.read(_get_live_session, args.id)
    if deps.stop_session is not None:
        await deps.stop_session(session.id, deps.caller_name)
    now = deps.clock.now()

    def end(db: Db) -> CloseResult:
        end_session(db, session.id, f"closed by {deps.caller_name}", now)
        return CloseResult(session.id, True)

    return await deps.write(end)


@operation
async def set_session(deps: OperationDeps, args: SetSessionArgs) -> Session:
    if not args.provider and not args.model:
        raise Invalid("session", "name what is to be set: --provider or --model")
    provider = check_provider(deps.home, "" if args.provider == DEFAULT else args.provider)

    def change(db: Db) -> Session:
        session = _get_live_session(db, args.id)
        if args.provider and not provider and session.agent:
            raise Invalid("provider", f"{session.id} is a managed agent, which has a provider of its own; name one")
        if args.provider and provider != session.provider:
            sessions.set_provider(db, session.id, provider)
        if args.model:
            sessions.set_model(db, session.id, "" if args.model == DEFAULT else args.model)
        return _get_live_session(db, session.id)

    changed = await deps.write(change)
    if deps.renew_session is not None:
        deps.renew_session(changed.id)
    return changed


@operation
async def fork(deps: OperationDeps, args: ForkSessionArgs) -> ForkedSession:
    try:
        topic = parse_topic(args.topic)
        wish = ForkRequest(parent_id=args.id, topic=topic, force=args.force, by=deps.caller_name)
        return await _get_forker(deps).fork(wish, deps.write)
    except Invalid as error:
        if error.target != "child":  # what the tool calls a topic
            raise
        way = ", or replace it with --force" if error.why.startswith(TOPIC_EXISTS) else ""
        raise Invalid("topic", f"{error.why}{way}") from None


@operation
async def copy(deps: OperationDeps, args: CopySessionArgs) -> ForkedSession:
    wish = ForkRequest(parent_id=args.id, topic=None, title=args.title, by=deps.caller_name)
    return await _get_forker(deps).fork(wish, deps.write)


def _get_forker(deps: OperationDeps) -> SessionForker:
    forker = deps.extra.get("forker")
    assert isinstance(forker, SessionForker), "only a running gateway forks"
    return forker
