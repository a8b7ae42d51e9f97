"""Agents as others see them: a snapshot, what waiting came to, and what is new. Read in one transaction."""

import json
from collections.abc import Container
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from gatepost.core.clock import iso
from gatepost.core.errors import NotFound
from gatepost.serve.agents.modes import Mode, modes_of
from gatepost.store import agents, permissions, sessions, timeline, turns
from gatepost.store.permissions import Permission
from gatepost.store.port import Db
from gatepost.store.sessions import Session


class Request(Struct, frozen=True, rename="camel", kw_only=True):
    """What an agent's provider asks before it acts."""

    id: str
    kind: str
    name: str
    input: dict[str, Any]
    asked_at: str
    next_mode_id: str | None = None  # of a plan: the agent's mode once it is allowed
    follow_up: str | None = None  # and the prompt of the turn that carries it out, if the same turn cannot


class Snapshot(Struct, frozen=True, rename="camel", kw_only=True):
    """An agent as it stands."""

    agent_id: str
    type: str
    folder: str
    title: str
    cwd: str  # on the host; '': its group's folder
    status: str  # initializing | idle | running | error | interrupted | closed
    model: str
    current_mode_id: str
    available_modes: list[Mode]
    labels: dict[str, str]
    parent_agent_id: str | None
    created_at: str
    updated_at: str
    archived_at: str | None
    last_error: str | None
    last_message: str | None
    pending_permissions: list[Request]


class Outcome(Struct, frozen=True, rename="camel", kw_only=True):
    """What waiting came to."""

    agent_id: str
    status: str
    last_message: str | None
    permission: Request | None = None
    waited_out: bool = False  # it still runs


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What somebody who looks on has not seen yet, and how the agent stands."""

    agent: Session
    status: str
    mode: str
    entries: list[timeline.Entry]
    permissions: list[Request]


def snapshot(db: Db, session: Session, replacing: Container[str]) -> Snapshot:
    """`replacing`: those whose turn gives way to another, whom nobody sees idle meanwhile."""
    status = state(db, session, replacing)
    return Snapshot(
        agent_id=session.id,
        type=session.provider,
        folder=session.folder,
        title=session.title,
        cwd=session.cwd,
        status=status,
        model=session.model,
        current_mode_id=mode_of(session),
        available_modes=list(modes_of(session.provider)),
        labels=json.loads(session.labels),
        parent_agent_id=session.parent or None,
        created_at=iso(session.created_at) or "",
        updated_at=iso(session.active_at) or "",
        archived_at=iso(session.archived_at),
        last_error=agents.last_error(db, session.id) or None if status == "error" else None,
        last_message=agents.last_said(db, session.id) or None,
        pending_permissions=[request_of(each) for each in permissions.pending(db, session.id)],
    )


def state(db: Db, session: Session, replacing: Container[str]) -> str:
    if session.closed_at is not None:
        return "closed"
    turn, waiting = turns.open_of(db, session.id), agents.waiting(db, session.id)
    if turn is not None:
        return "interrupted" if turn.state == "interrupted" else "running"
    if session.id in replacing:
        return "running"
    if waiting:
        return "running" if turns.of_session(db, session.id, 2**62, 1) else "initializing"
    return "error" if session.state == "error" else "idle"


def news(db: Db, session_id: str, after: int | None, limit: int, replacing: Container[str]) -> News:
    """After a cursor; None: the newest."""
    session = _there(db, session_id)
    return News(
        agent=session,
        status=state(db, session, replacing),
        mode=mode_of(session),
        entries=timeline.last(db, session_id, limit) if after is None else timeline.after(db, session_id, after, limit),
        permissions=[request_of(each) for each in permissions.pending(db, session_id)],
    )


def outcome(db: Db, session_id: str, replacing: Container[str]) -> Outcome:
    session = _there(db, session_id)
    asked = permissions.pending(db, session_id)
    return Outcome(
        agent_id=session_id,
        status=state(db, session, replacing),
        last_message=agents.last_said(db, session_id) or None,
        permission=request_of(asked[0]) if asked else None,
    )


def _there(db: Db, session_id: str) -> Session:
    session = sessions.get(db, session_id)
    if session is None:
        raise NotFound("agent", session_id, "it is gone")
    return session


def request_of(asked: Permission) -> Request:
    return Request(
        id=asked.id,
        kind=asked.kind,
        name=asked.tool,
        input=asked.input,
        asked_at=iso(asked.asked_at) or "",
        next_mode_id=asked.next_mode or None,
        follow_up=asked.follow_up or None,
    )


def mode_of(session: Session) -> str:
    return session.permission_mode or modes_of(session.provider)[0].id
