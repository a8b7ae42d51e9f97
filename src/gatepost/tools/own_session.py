"""An agent's knowledge of itself: its work in hand (work.md), the facts of its session, and the names that it gives
both, a title and a branch. The caller is known by its socket or token; nobody names another."""

import os
from functools import partial
from typing import Annotated

from msgspec import Meta, Struct

from gatepost.access.tiers import Tier
from gatepost.core.clock import iso
from gatepost.core.errors import Invalid, NotFound, Unavailable
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.home import Home
from gatepost.flow.gateways.folder_check import check_here
from gatepost.gate.tool_answers import LISTED, shortened, size_of
from gatepost.messages.text import clean, one_line
from gatepost.store.messages import inbox, messages
from gatepost.store.port import Db
from gatepost.store.sessions import sessions, turns
from gatepost.store.sessions.sessions import SessionMode, SessionState
from gatepost.store.sessions.turns import Turn, TurnState
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import Body, tool

WORK = "work.md"
LARGEST_WORK = 256 * 1024
MOST_RECENT = 100
LONGEST_TITLE = 60
LONGEST_ERROR = 500  # characters of why a turn failed


class WorkFile(Struct, frozen=True):
    content: str
    exists: bool


class WorkSaved(Struct, frozen=True):
    ok: bool


class SessionInfo(Struct, frozen=True, kw_only=True):
    """One session. `room`: where it speaks now; None if it has no room."""

    session_id: str
    folder: str
    tier: int
    provider: str
    title: str
    state: SessionState
    mode: SessionMode
    seq: int  # the newest number of this session
    turn: str | None
    attempt: int
    room: str | None = None
    topic: str | None = None  # in this and what follows: None if it was not asked for
    received: int | None = None  # messages that it was given …
    sent: int | None = None  # … and that it sent
    last_error: str | None = None  # why a turn of it failed last; '' if none did
    last_reset: str | None = None  # when its conversation was last begun anew
    recent: list["RecentTurn"] | None = None  # oldest first


class RecentTurn(Struct, frozen=True, kw_only=True):
    """A turn of the session."""

    turn: str
    state: TurnState
    provider: str
    started_at: str
    ended_at: str | None
    error: str
    messages: int  # that it answers


class SessionTitle(Struct, frozen=True):
    success: bool
    title: str


class BranchName(Struct, frozen=True):
    success: bool
    branch: str


@tool(tier=Tier.WORKER, group="sessions", read_only=True, idempotent=True)
async def get_work(call: ToolCall) -> WorkFile:
    """Read your work.md: what is in hand, what blocks it, what comes next. Look here first when you pick up old work.

    Empty if there is none, cut if it is too large for one answer. To change it use set_work.
    """
    await check_here(call.deps.store, call.deps.home, call.caller.folder)  # a client over HTTP is anywhere
    return await call.in_thread(_read_work, call.deps.home, call.caller.folder)


@tool(tier=Tier.AGENT, group="sessions", effects=(), destructive=True, idempotent=True)
async def set_work(
    call: ToolCall, content: Annotated[Body, Meta(description="The whole new text; it replaces the old one.")]
) -> WorkSaved:
    """Replace your work.md: at the end of a turn, note what is in hand, what blocks it and what comes next.

    It replaces everything: read it with get_work first if something must stay.
    """
    data = clean(content).encode()
    if len(data) > LARGEST_WORK:
        raise Invalid("content", f"has {len(data)} bytes, more than {LARGEST_WORK}; keep details in files of their own")
    await check_here(call.deps.store, call.deps.home, call.caller.folder)
    await call.run_audited(partial(_write_work, call.deps.home, call.caller.folder, data))
    return WorkSaved(ok=True)


@tool(tier=Tier.WORKER, group="sessions", quick=True, read_only=True, idempotent=True)
async def inspect_session(
    call: ToolCall,
    topic: Annotated[str | None, Meta(description="Of your group's conversation about this topic in the room.")] = None,
    limit: Annotated[
        int | None, Meta(description="Its newest turns, at most so many (1–100); null: only which session it is.")
    ] = 10,
) -> SessionInfo:
    """Look at your own session: which conversation this is, how many messages it had, its last error and reset, and
    its newest turns.

    Use it when you doubt what context you are in, or whether it is healthy. For other sessions use list_sessions; to
    begin anew reset_session.
    """
    if topic is not None or limit is not None:
        return await call.read(_facts, call, topic, limit)
    caller, turn = call.caller, call.turn
    session = await call.read(sessions.get_overview, caller.session_id) if caller.session_id is not None else None
    if session is None:
        raise NotFound("session", caller.session_id or "", "this caller has none")
    return SessionInfo(
        session_id=caller.session_id or "",
        folder=session.folder,
        tier=int(caller.tier),
        provider=caller.provider or session.provider,
        title=session.title,
        state=session.state,
        mode=session.mode,
        seq=session.seq,
        turn=turn.id if turn else None,
        attempt=turn.attempt if turn else 0,
        room=(turn or session).address or None,
    )


def _facts(db: Db, call: ToolCall, topic: str | None, limit: int | None) -> SessionInfo:
    """The same of a conversation of the group in this room, with what was done in it."""
    caller, turn = call.caller, call.turn
    session = sessions.get(db, caller.session_id) if caller.session_id is not None else None
    if session is not None and topic is not None and topic != session.thread:
        there = [each for each in sessions.list_in_room(db, (turn or session).address) if each.folder == caller.folder]
        session, turn = next((each for each in there if each.thread == topic), None), None
    if session is None:
        raise NotFound("session", (topic or "")[:80], "use list_sessions to see them")
    most = min(max(10 if limit is None else limit, 1), MOST_RECENT)
    recent = turns.list_for_session(db, session.id, 2**62, most)
    received, sent = messages.count_for_session(db, session.id)
    counts = inbox.count_by_turn(db, [each.id for each in recent])
    return SessionInfo(
        session_id=session.id,
        folder=session.folder,
        tier=int(caller.tier),
        provider=session.provider or caller.provider,
        title=session.title,
        state=session.state,
        mode=session.mode,
        seq=session.next_seq - 1,
        turn=turn.id if turn else None,
        attempt=turn.attempt if turn else 0,
        room=(turn or session).address or None,
        topic=session.thread,
        received=received,
        sent=sent,
        last_error=turns.get_last_error(db, session.id)[:LONGEST_ERROR],
        last_reset=iso(session.reset_at),
        recent=[_recent(each, counts.get(each.id, 0)) for each in recent],
    )


def _recent(turn: Turn, count: int) -> RecentTurn:
    return RecentTurn(
        turn=turn.id,
        state=turn.state,
        provider=turn.provider,
        started_at=iso(turn.started_at) or "",
        ended_at=iso(turn.ended_at),
        error=turn.error[:LONGEST_ERROR],
        messages=count,
    )


def _read_work(home: Home, folder: str) -> WorkFile:
    try:
        with open_untrusted(home.group(folder)) as root:
            text = root.read_bytes(WORK, LARGEST_WORK).decode("utf-8", "replace")
            return WorkFile(shortened(text, len(text), lambda some: size_of(some) <= LISTED), True)
    except NotFound:
        return WorkFile("", False)


def _write_work(home: Home, folder: str, data: bytes) -> None:
    place = home.group(folder)
    with open_untrusted(place) as root:
        # The folder's owner is who runs inside: the file must stay theirs to write.
        root.write_bytes(WORK, data, uid=os.lstat(place).st_uid if os.geteuid() == 0 else None)


@tool(tier=Tier.WORKER, group="self", effects=(), idempotent=True)
async def set_title(
    call: ToolCall, title: Annotated[str, Meta(description="What it is about, 1 to 60 characters.")]
) -> SessionTitle:
    """Give your session a title, once you know what it is about: people find it by that in lists.

    It names this session alone. To rename the branch you work on use set_branch.
    """
    session_id, text = _get_own_id(call), one_line(title)
    if not text:
        raise Invalid("NOT_ALLOWED", "a title must not be blank")
    if len(text) > LONGEST_TITLE:
        raise Invalid("title", f"must have 1 to {LONGEST_TITLE} characters, not {len(text)}")

    def change(db: Db) -> str:
        session = sessions.get(db, session_id)
        if session is None or session.closed_at is not None:
            raise NotFound("agent", session_id)
        sessions.set_title(db, session_id, text)
        return session.address

    address = await call.write(change)
    instance = address.partition(":")[0]
    call.deps.events.change(instance, address)
    return SessionTitle(True, text)


@tool(tier=Tier.WORKER, group="self", effects=())
async def set_branch(
    call: ToolCall, name: Annotated[str, Meta(description="a-z, 0-9, - and /; no hyphen at an end, none doubled.")]
) -> BranchName:
    """Name the branch of the worktree that you were given, once you know what the work is about. Once only.

    For any other branch, and for renaming again, use git yourself.
    """
    session_id = _get_own_id(call)
    if call.deps.worktrees is None:
        raise Unavailable("git", "no sandbox runs here")
    await call.note()
    return BranchName(True, await call.deps.worktrees.rename(session_id, name.strip()))


def _get_own_id(call: ToolCall) -> str:
    if call.caller.session_id is None:
        raise Invalid("NOT_ALLOWED", "only an agent in a session of its own has a title and a branch")
    return call.caller.session_id
