"""Sessions: list the live ones, stop what one does, close one."""

import asyncio
from typing import Any

from gatepost.core.errors import NotFound
from gatepost.serve.control.contract import (
    NoArgs,
    OperationArgs,
    OperationDeps,
    operation,
    record_audit_soon,
    run_audited,
    to_json,
)
from gatepost.serve.control.operations.groups import end_session
from gatepost.store import sessions
from gatepost.store.port import Db

BY = "the operator"


class ListSessionsArgs(OperationArgs, frozen=True):
    folder: str = ""  # '': of every group


class SessionArgs(OperationArgs, frozen=True):
    id: str


def _get_live_session(db: Db, session_id: str) -> sessions.Session:
    session = sessions.get(db, session_id)
    if session is None or session.closed_at is not None:
        raise NotFound("live session", session_id)
    return session


@operation("session.list", ListSessionsArgs)
async def list_sessions(office: OperationDeps, args: ListSessionsArgs) -> list[dict[str, Any]]:
    return [to_json(session) for session in await office.store.read(sessions.list_open, args.folder or None)]


@operation("session.stop", SessionArgs)
async def stop(office: OperationDeps, args: SessionArgs) -> dict[str, Any]:
    """End the running turn now; the session itself goes on with the next message."""
    session = await office.store.read(_get_live_session, args.id)
    stopped = office.stop_session is not None and await office.stop_session(session.id, BY)
    await record_audit_soon(office, "session.stop", {"id": args.id})
    return {"id": args.id, "stopped": stopped}


@operation("session.stop_all", NoArgs)
async def stop_all(office: OperationDeps, args: NoArgs) -> list[dict[str, Any]]:
    """End every running turn, all at once: none waits for another to be gone."""
    live = [session.id for session in await office.store.read(sessions.list_open)]
    stop = office.stop_session
    done = [False] * len(live) if stop is None else await asyncio.gather(*(stop(each, BY) for each in live))
    answer = [{"id": each, "stopped": stopped} for each, stopped in zip(live, done, strict=True)]
    await record_audit_soon(office, "session.stop_all", {"stopped": sum(done)})
    return answer


@operation("session.close", SessionArgs)
async def close(office: OperationDeps, args: SessionArgs) -> dict[str, Any]:
    """The next message of the same conversation starts afresh."""
    session = await office.store.read(_get_live_session, args.id)
    if office.stop_session is not None:
        await office.stop_session(session.id, BY)
    now = office.clock.now()

    def end(db: Db) -> dict[str, Any]:
        end_session(db, session.id, "closed by the operator", now)
        return {"id": session.id, "closed": True}

    return await run_audited(office, "session.close", {"id": args.id}, end)
