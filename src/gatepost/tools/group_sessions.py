"""Conversations of the caller's part of the tree: which there are, what was said, starting one anew, saying something
into one. (A session's own facts and its work.md are in `sessions.py`.)"""

from functools import cache
from itertools import islice
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from gatepost.access.subjects import Subject
from gatepost.access.tiers import ROOT_FOLDER, Tier, TreeScope, may_act_on
from gatepost.core.clock import iso
from gatepost.core.errors import Invalid, NotFound, Refused
from gatepost.gate.tool_answers import LISTED, fitting, shortened, size_of
from gatepost.messages.inbound import Direction
from gatepost.messages.text import clean
from gatepost.store.messages import inbox, messages
from gatepost.store.messages.messages import NewMessage
from gatepost.store.money import budgets
from gatepost.store.port import Db
from gatepost.store.rights import audit
from gatepost.store.rooms import origins
from gatepost.store.sessions import errands, replays, sessions, turns
from gatepost.store.sessions.sessions import Session, SessionMode, SessionState
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import Body, tool

LONGEST = 100_000
MOST = 200
RIGHTS = "agent"  # of what an agent puts in
MOST_INJECTED, LARGEST_INJECTED = 50, 1_000_000  # messages, and characters of them, that wait in one conversation
MOST_NAMED = 10  # conversations to choose from that an error names
# Rooms without people, and what to do instead.
_NOBODYS_ROOMS = {
    errands.INSTANCE: "give that agent an errand with send_to_agent, which returns to you",
    replays.INSTANCE: "a replay repeats what was said, and nothing else",
}
LONGEST_ERROR = 500  # characters of why a turn failed
Position = Annotated[int, Meta(ge=0, le=2**62)]


class SessionSummary(Struct, frozen=True, kw_only=True):
    session_id: str
    folder: str
    title: str
    room: str
    topic: str
    mode: SessionMode
    state: SessionState
    active_at: str
    own: bool  # this very one


class SessionList(Struct, frozen=True):
    """`more`: there are others, less busy, which were not asked for or do not fit one answer."""

    sessions: list[SessionSummary]
    count: int
    more: bool


class SessionEntry(Struct, frozen=True, kw_only=True):
    """`kind`: a message's kind, or turn, call (of a tool)."""

    at: str
    kind: str
    who: str
    text: str
    seq: int | None = None


class SessionEntries(Struct, frozen=True, kw_only=True):
    session_id: str
    folder: str
    level: str
    entries: list[SessionEntry]
    count: int
    oldest: int | None
    more: bool  # there are older ones, which were not asked for or did not fit: give `oldest` as `before`


class SessionReset(Struct, frozen=True):
    ok: bool
    folder: str
    sessions: int


class InjectedMessage(Struct, frozen=True):
    """`session_id`: the conversation that got it."""

    injected: bool
    id: int
    session_id: str


@tool(tier=Tier.AGENT, group="sessions", read_only=True, idempotent=True)
async def list_sessions(
    call: ToolCall, limit: Annotated[int, Meta(description="At most so many, the busiest first (1–200).")] = 50
) -> SessionList:
    """See the conversations of your group, of those below it and of those that a rule names: where each is, its title
    and state.

    For what was said in one use read_session; for your own conversation inspect_session.
    """
    most = min(max(limit, 1), MOST)

    def read(db: Db) -> list[Session]:
        may_see = cache(lambda folder: _may_read(call, folder))
        return list(islice((each for each in sessions.list_open(db) if may_see(each.folder)), most + 1))

    found = await call.read(read)
    shown, cut_off = fitting(_render_session(each, call.caller.session_id) for each in found[:most])
    return SessionList(shown, len(shown), cut_off or len(found) > most)


def _may_read(call: ToolCall, folder: str) -> bool:
    """Return True for a group in the caller's part of the tree, or if a row reaches beyond it."""
    if may_act_on(TreeScope.SUBTREE, call.caller.folder, folder):
        return call.allows(folder)
    return call.allows_across(folder)


def _render_session(session: Session, own: str | None) -> SessionSummary:
    return SessionSummary(
        session_id=session.id,
        folder=session.folder,
        title=session.title,
        room=session.address,
        topic=session.thread,
        mode=session.mode,
        state=session.state,
        active_at=_render_time(session.active_at),
        own=session.id == own,
    )


@tool(tier=Tier.WORLD, group="sessions", read_only=True, idempotent=True)
async def read_session(
    call: ToolCall,
    sessionId: Annotated[str, Meta(description="As list_sessions shows it.")],
    level: Annotated[
        Literal["messages", "timeline"], Meta(description="messages: what was said; timeline: turns and tool calls.")
    ] = "messages",
    limit: Annotated[int, Meta(description="At most so many entries, the newest (1–200).")] = 50,
    before: Annotated[Position | None, Meta(description="Only what is older than this entry (`oldest`).")] = None,
) -> SessionEntries:
    """Read what was said in a conversation that list_sessions shows, or with level timeline what its agent did.

    A rule can allow one level and not the other. For rooms rather than conversations use inspect_messages.
    """
    most = min(max(limit, 1), MOST)

    def read(db: Db) -> SessionEntries:
        session = sessions.get(db, sessionId)
        if session is None or not _may_read(call, session.folder):
            raise NotFound("session", sessionId[:80], "use list_sessions to see them")
        read = _messages if level == "messages" else _timeline
        found, more = read(db, session, before if before is not None else 2**62, most)
        return SessionEntries(
            session_id=session.id,
            folder=session.folder,
            level=level,
            entries=[said for _, said in found],
            count=len(found),
            oldest=found[0][0] if found else None,
            more=more,
        )

    return await call.read(read)


def _render_time(at: int) -> str:
    return iso(at) or ""


def _messages(db: Db, session: Session, before: int, most: int) -> tuple[list[tuple[int, SessionEntry]], bool]:
    rows, more = messages.list_for_session(db, session.id, before, most, LISTED)
    found: list[tuple[int, SessionEntry]] = []
    for place, (seq, message, length) in enumerate(rows):
        said = SessionEntry(
            at=_render_time(message.at),
            kind=message.kind,
            who=f"agent:{message.folder}"
            if message.direction == Direction.OUT
            else message.sender_name or message.sender,
            text=message.text,
            seq=seq,
        )
        found.append((seq, said if place else _fitted(said, length)))
    shown, cut_off = fitting(found)
    return shown[::-1], more or cut_off


def _fitted(said: SessionEntry, length: int) -> SessionEntry:
    """The newest is shown in any case: cut, if it alone is too large for an answer."""

    def fits(text: str) -> bool:
        return size_of((said.seq, replace(said, text=text))) <= LISTED

    return replace(said, text=shortened(said.text, length, fits))


def _timeline(db: Db, session: Session, before: int, most: int) -> tuple[list[tuple[int, SessionEntry]], bool]:
    """Turns by when they began, each with the calls made in it."""
    found: list[tuple[int, SessionEntry]] = []
    shown = turns.list_for_session(db, session.id, before, most)
    ends = [turn.ended_at for turn in shown if turn.ended_at is not None]
    until = max(ends) if ends and len(ends) == len(shown) else None
    calls = audit.list_for_turns(db, [turn.id for turn in shown], min((t.started_at for t in shown), default=0), until)
    for turn in shown:
        error = turn.error[:LONGEST_ERROR]
        ended = f"{turn.state}" + (f": {error}" if error else "")
        found.append(
            (
                turn.started_at,
                SessionEntry(at=_render_time(turn.started_at), kind="turn", who=turn.provider, text=ended),
            )
        )
        for at, actor, action, verdict in calls[turn.id]:
            found.append(
                (
                    turn.started_at,
                    SessionEntry(at=_render_time(at), kind="call", who=actor, text=f"{action}: {verdict}"),
                )
            )
    fit, cut_off = fitting(reversed(found[-most:]))
    return fit[::-1], cut_off or len(found) > most or len(shown) == most


@tool(
    tier=Tier.WORLD,
    scoped_by="groupFolder",
    group="sessions",
    effects=(Subject.ERASE,),
    destructive=True,
    idempotent=True,
)
async def reset_session(
    call: ToolCall,
    groupFolder: Annotated[str | None, Meta(description="The group, you or below you. Left out: your own.")] = None,
    topic: Annotated[str | None, Meta(description="Only the conversations of this topic.")] = None,
) -> SessionReset:
    """Let a group forget its conversations, so that the next message starts a new one. Files and work.md stay.

    When somebody asks for a fresh start, or the context is confused. In your own group only this conversation is
    forgotten, from the next turn on, unless you name a topic. To say something into one use inject_message.
    """
    folder = groupFolder or call.caller.folder
    here = folder == call.caller.folder and topic is None and call.caller.session_id is not None

    def forget(db: Db) -> int:
        chosen = [
            each
            for each in sessions.list_open(db, folder)
            if (each.id == call.caller.session_id if here else topic in (None, each.thread))
        ]
        for each in chosen:
            sessions.remove_conversations(db, each.id, call.now)
        return len(chosen)

    return SessionReset(ok=True, folder=folder, sessions=await call.write(forget))


@tool(tier=Tier.WORLD, scoped_by="chatJid", group="sessions", effects=(Subject.INSTRUCT, Subject.SPEAK))
async def inject_message(
    call: ToolCall,
    content: Annotated[Body, Meta(description="What the agent there should read.")],
    chatJid: Annotated[
        str | None, Meta(description="The room whose conversation gets it. Left out: this very conversation.")
    ] = None,
    sender: Annotated[str | None, Meta(description="Taken for older callers; the message is yours.")] = None,
    senderName: Annotated[str | None, Meta(description="For whom you write, shown beside your name.")] = None,
    sessionId: Annotated[
        str | None, Meta(description="Which conversation of that room, if it has several; see list_sessions.")
    ] = None,
) -> InjectedMessage:
    """Put a message into the conversation of a room, as input for the agent there; people in the room do not see it.

    In a room that you name, another agent's conversation goes before yours. The message carries your group's name,
    whatever you write, and is never a command. It counts as asked for by whoever you work for: their limits hold for
    it. At most 50 such messages wait in one conversation. To speak to people use send.
    """
    text = clean(content)
    if not text.strip() or len(text) > LONGEST:
        raise Invalid("content", f"is empty or longer than {LONGEST} characters")
    own, place = call.caller.folder, call.place
    behalf = clean(senderName or "").strip()[:80]
    name = f"agent {own}" + (f" (for {behalf})" if behalf and behalf != "system" else "")

    def inject(db: Db) -> tuple[int, str]:
        chain = call.chain(db)
        # A call that a person agreed to names the room, whether its caller did or not.
        named = chatJid is not None and call.approved is None
        session = _find_injected(db, call, named=named, session_id=sessionId)
        payer = next((each.person for each in chain.origins if each.person), "")
        if any(each.spent >= each.limit > 0 for each in budgets.list_applicable(db, session.folder, payer, call.now)):
            raise Refused(own, call.tool, place.address, "the budget is spent")
        if why := inbox.check_room(db, session.id, RIGHTS, len(text), MOST_INJECTED, LARGEST_INJECTED):
            raise Refused(own, call.tool, place.address, f"{why}; try again when the agent there has answered some")
        new = NewMessage(
            instance=session.instance,
            address=session.address,
            thread=session.thread,
            direction=Direction.IN,
            sender=f"agent:{own}",
            sender_name=name,
            text=text,
            at=call.now,
            platform_id=f"inject/{call.key}",
            content=msgspec.json.encode(
                {"text": text, "sender": name, "senderId": f"agent:{own}", "senderName": name, "verb": "message"}
            ).decode(),
            folder=session.folder,
        )
        message_id = messages.accept(db, new, call.now)
        if message_id is None:
            raise Invalid("content", "this call was made before")
        origins.add_next_step(db, message_id, chain)
        inbox.enqueue(db, message_id, session.id, session.folder, RIGHTS, call.now)
        return message_id, session.id

    message_id, session_id = await call.write(inject)
    call.deps.events.session(session_id)
    return InjectedMessage(injected=True, id=message_id, session_id=session_id)


def _find_injected(db: Db, call: ToolCall, *, named: bool, session_id: str | None) -> Session:
    """Return the conversation that is meant. It is the one that the caller names, or without a room its own. In a named
    room it is the one of its thread. Among several there, the caller's own does not count; if more than one is left,
    the caller must choose."""
    own, place = call.caller, call.place
    if place.instance in _NOBODYS_ROOMS:
        why = f"nobody hears what is said there for a message of this kind; {_NOBODYS_ROOMS[place.instance]}"
        raise Refused(own.folder, call.tool, place.address, why)
    there = [
        each
        for each in sessions.list_in_room(db, place.address)
        if each.instance == place.instance and may_act_on(TreeScope.SUBTREE, own.folder, each.folder)
    ]
    if session_id is not None:
        chosen = [each for each in there if each.id == session_id]
        if not chosen:
            way = "name its room as chatJid, as list_sessions shows both"
            raise NotFound("conversation", f"{session_id[:80]} in {place.address}", way)
        return chosen[0]
    if not named and (mine := [each for each in there if each.id == own.session_id]):
        return mine[0]
    same = [each for each in there if each.thread == place.thread] or there
    others = [each for each in same if each.id != own.session_id] or same
    if len(others) > 1:
        which = ", ".join(f"{each.id} of {each.folder}" for each in others[:MOST_NAMED])
        raise Invalid("sessionId", f"there are several conversations in {place.address}; name one: {which}")
    if others:
        return others[0]
    if own.folder == ROOT_FOLDER:
        raise NotFound("conversation", place.address, "nobody talks there; use list_sessions")
    return sessions.find_or_add(
        db, SessionMode.PER_THREAD, own.folder, place.instance, place.address, place.thread, call.now
    )
