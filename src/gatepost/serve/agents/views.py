"""Agents as others see them: a snapshot, what waiting came to, and what is new. Read in one transaction."""

import json
from collections.abc import Container

from msgspec import Struct

from gatepost.core.clock import iso
from gatepost.core.errors import NotFound
from gatepost.core.home import Home
from gatepost.flow.sessions.sandbox.start_folder import parse_worktree_path
from gatepost.serve.agents.providers import modes_of
from gatepost.serve.control.arguments.agents import AgentSnapshot, PendingRequest, WaitOutcome
from gatepost.store.port import Db
from gatepost.store.rights import waiting_requests
from gatepost.store.rights.requests import Request
from gatepost.store.sessions import agents, sessions, timeline, turns, worktrees
from gatepost.store.sessions.sessions import Session, SessionState
from gatepost.store.sessions.turns import TurnState

# The order of a list: who needs somebody first, then who works.
ORDER = (
    SessionState.RUNNING,
    SessionState.INITIALIZING,
    SessionState.INTERRUPTED,
    SessionState.IDLE,
    SessionState.ERROR,
    SessionState.CLOSED,
)


class ViewContext(Struct, frozen=True):
    """Facts that are known besides the store. `replacing`: those whose turn gives way to another, whom nobody sees idle
    meanwhile."""

    home: Home
    replacing: Container[str]


class AgentUpdate(Struct, frozen=True, kw_only=True):
    """News that somebody who looks on has not seen yet, and how the agent stands."""

    agent: Session
    status: SessionState
    mode: str
    entries: list[timeline.TimelineEntry]
    permissions: list[PendingRequest]


def read_snapshot(db: Db, session: Session, viewer: ViewContext) -> AgentSnapshot:
    status = read_state(db, session, viewer)
    place = parse_worktree_path(viewer.home, session.cwd) if session.cwd else None
    worktree = worktrees.get(db, *place[:2]) if place else None
    return AgentSnapshot(
        agent_id=session.id,
        type=session.provider,
        folder=session.folder,
        title=session.title,
        cwd=session.cwd,
        worktree=worktree.name if worktree else None,
        setup_state=worktree.setup_state if worktree else None,
        status=status,
        model=session.model,
        current_mode_id=get_mode(session, viewer),
        available_modes=list(modes_of(viewer.home, session.provider)),
        labels=json.loads(session.labels),
        parent_agent_id=session.parent or None,
        created_at=iso(session.created_at) or "",
        updated_at=iso(session.active_at) or "",
        archived_at=iso(session.archived_at),
        last_error=_read_error(db, session.id, status),
        last_message=agents.get_last_text(db, session.id) or None,
        pending_permissions=[make_pending_request(each) for each in waiting_requests.list_pending(db, session.id)],
    )


def list_snapshots(db: Db, archived: bool, viewer: ViewContext) -> list[AgentSnapshot]:
    """Those that wait for an answer first, then by how busy they are, then the latest."""
    found = [read_snapshot(db, each, viewer) for each in agents.list_all(db, archived=archived)]
    return sorted(found, key=lambda each: -1 if each.pending_permissions else ORDER.index(each.status))


def _read_error(db: Db, session_id: str, status: SessionState) -> str | None:
    return agents.get_last_error(db, session_id) or None if status == SessionState.ERROR else None


def read_state(db: Db, session: Session, viewer: ViewContext) -> SessionState:
    if session.closed_at is not None:
        return SessionState.CLOSED
    turn, waiting = turns.find_open(db, session.id), agents.count_waiting(db, session.id)
    if turn is not None:
        return SessionState.INTERRUPTED if turn.state == TurnState.INTERRUPTED else SessionState.RUNNING
    if session.id in viewer.replacing:
        return SessionState.RUNNING
    if waiting:
        begun = turns.list_for_session(db, session.id, 2**62, 1)
        return SessionState.RUNNING if begun else SessionState.INITIALIZING
    return SessionState.ERROR if session.state == SessionState.ERROR else SessionState.IDLE


def read_update(db: Db, session_id: str, after: int | None, limit: int, viewer: ViewContext) -> AgentUpdate:
    """After a cursor; None: the newest."""
    session = _get_session(db, session_id)
    return AgentUpdate(
        agent=session,
        status=read_state(db, session, viewer),
        mode=get_mode(session, viewer),
        entries=timeline.list_last(db, session_id, limit)
        if after is None
        else timeline.list_after(db, session_id, after, limit),
        permissions=[make_pending_request(each) for each in waiting_requests.list_pending(db, session_id)],
    )


def read_outcome(db: Db, session_id: str, viewer: ViewContext) -> WaitOutcome:
    session = _get_session(db, session_id)
    status = read_state(db, session, viewer)
    asked = waiting_requests.list_pending(db, session_id)
    return WaitOutcome(
        agent_id=session_id,
        title=session.title,
        status=status,
        last_message=agents.get_last_text(db, session_id) or None,
        last_error=_read_error(db, session_id, status),
        permission=make_pending_request(asked[0]) if asked else None,
    )


def _get_session(db: Db, session_id: str) -> Session:
    session = sessions.get(db, session_id)
    if session is None:
        raise NotFound("agent", session_id, "it is gone")
    return session


def make_pending_request(asked: Request) -> PendingRequest:
    return PendingRequest(
        id=asked.id,
        kind=asked.kind,
        name=asked.tool,
        input=asked.input,
        asked_at=iso(asked.asked_at) or "",
        next_mode_id=asked.next_mode or None,
        follow_up=asked.follow_up or None,
        editable=asked.editable,
        cut=asked.cut,
        why=asked.why,
        preview=asked.preview,
    )


def get_mode(session: Session, viewer: ViewContext) -> str:
    return session.permission_mode or modes_of(viewer.home, session.provider)[0].id
