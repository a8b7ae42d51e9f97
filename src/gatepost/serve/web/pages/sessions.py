"""Conversations: which are open, what was said and done in one, and the buttons that stop, reset and copy it.

A replay is shown beside the conversation that it repeats, turn by turn; changed words are marked.
"""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import groupby

from gatepost.core.clock import iso
from gatepost.core.money import render_usd
from gatepost.serve.control.arguments.replays import CompareReplayArgs, ReplayComparison
from gatepost.serve.control.arguments.sessions import (
    ListSessionsArgs,
    SessionDetails,
    SessionEvent,
    SessionEventKind,
    ShowSessionArgs,
)
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page, render_path
from gatepost.serve.web.dashboard.tables import (
    code,
    get_tone,
    link,
    made,
    make_columns,
    make_facts,
    make_table,
    shorten,
)
from gatepost.serve.web.dashboard.view import (
    Action,
    Block,
    CompareBlock,
    ComparedText,
    EmptyState,
    FormBlock,
    FormInput,
    InputKind,
    Link,
    Note,
    PageView,
    TextPart,
    TimelineBlock,
    TimelineMoment,
    Tone,
)
from gatepost.store.sessions.replays import ReplayedTurn, TurnOutcome
from gatepost.store.sessions.sessions import Session, SessionState

# Words in which two texts differ. Texts that are too large to compare have no marks.

MOST_WORDS = 1000  # of each text: comparing takes the product of both at worst
_WORDS = re.compile(r"\s+|[^\s]+")


def mark_difference(before: str, after: str) -> tuple[list[TextPart], list[TextPart]]:
    old, new = _split(before), _split(after)
    if old is None or new is None or before == after:
        return [TextPart(before)], [TextPart(after)]
    same = SequenceMatcher(None, old, new, autojunk=True).get_matching_blocks()
    kept_old = {each.a + step for each in same for step in range(each.size)}
    kept_new = {each.b + step for each in same for step in range(each.size)}
    return _join(old, kept_old), _join(new, kept_new)


def _split(text: str) -> list[str] | None:
    words = [found[0] for _, found in zip(range(MOST_WORDS + 1), _WORDS.finditer(text), strict=False)]
    return words if len(words) <= MOST_WORDS else None


def _join(words: Sequence[str], kept: set[int]) -> list[TextPart]:
    runs = groupby(enumerate(words), key=lambda each: each[0] in kept)
    return [TextPart("".join(word for _, word in run), not same) for same, run in runs]


EMPTY = EmptyState(text="Nobody talks with an agent yet. Say something in the chat.")
SECOND = 1_000_000  # of `took`
TURN_PENDING = "It has not begun."


def _name_room(session: Session | SessionDetails) -> str:
    return shorten(f"{session.address} {session.thread}".strip(), 60)


GROUP = link("folder", "Group", "/groups/{folder}")
SESSION = make_columns(
    Session,
    {
        "title": link(
            "title",
            "Conversation",
            "/sessions/{id}",
            by="id",
            shown=lambda session: session.title or _name_room(session),
        ),
        "folder": GROUP,
    },
)
DETAILS = make_columns(
    SessionDetails,
    {"id": code("id", "Id"), "folder": GROUP, "address": made("address", "Room", _name_room)},
)
WAYS = {
    SessionEventKind.MESSAGE: "/ledger/{id}",
    SessionEventKind.ANSWER: "/ledger/{id}",
    SessionEventKind.FORK: "/sessions/{id}",
    SessionEventKind.REPLAY: "/replays/{id}",
}
TITLES = {
    SessionEventKind.ANSWER: "Agent",
    SessionEventKind.NOTE: "Gateway",
    SessionEventKind.TURN: "Turn",
    SessionEventKind.CALL: "Tool",
    SessionEventKind.REQUEST: "Asked",
    SessionEventKind.ERRAND: "Given to",
    SessionEventKind.FORK: "Forked",
    SessionEventKind.REPLAY: "Replayed",
}
QUIET = frozenset({SessionEventKind.MESSAGE, SessionEventKind.ANSWER, SessionEventKind.NOTE})


@page("/sessions", "Conversations", Section.ACTIVITY, "session.list", order=10)
async def show_sessions(request: PageRequest) -> PageView:
    found = await request.ask(ListSessionsArgs(folder=request.query.get("folder", "")))
    newest_first = sorted(found, key=lambda session: session.active_at, reverse=True)
    end = Action(label="Stop all", operation="session.stop_all", asks=True, tone=Tone.BAD)
    return PageView(blocks=[make_table(newest_first, SESSION, EMPTY, actions=list_row_actions)], actions=(end,))


def list_row_actions(session: Session) -> tuple[Action, ...]:
    if session.state != SessionState.RUNNING:
        return ()
    return (Action(label="Stop", operation="session.stop", args={"id": session.id}, tone=Tone.BAD),)


@page("/sessions/{id}", "Conversation", Section.ACTIVITY, "session.show")
async def show_session(request: PageRequest) -> PageView:
    before = request.query.get("before", "")
    older_than = int(before) if before.isascii() and before.isdigit() and len(before) < 19 else 0
    session = await request.ask(ShowSessionArgs(id=request.params["id"], before=older_than))
    steers = await request.may("session.fork", "session.replay", "session.close", scope=session.folder)
    return make_session_view(session, steers=steers)


def make_session_view(session: SessionDetails, *, steers: bool) -> PageView:
    """`steers`: whoever looks may also fork, replay and close it."""
    closed: list[Block] = [Note(text="This conversation is closed.")] if session.closed_at else []
    said: list[Block] = []
    if session.speaks and not session.closed_at:
        said.append(make_send_form(session.id))
    more = f"?before={session.older}" if session.older else ""
    line = TimelineBlock(
        title="What happened, newest first",
        entries=[make_entry(each) for each in reversed(session.events)],
        empty="Nothing was said here yet.",
        more=more,
    )
    return PageView(
        title=session.title or f"{session.agent}: {session.address}",
        blocks=[*closed, make_facts(session, DETAILS), *said, line],
        actions=list_actions(session, steers=steers),
    )


def make_send_form(session_id: str) -> FormBlock:
    words = FormInput(
        name="text",
        label="Message",
        kind=InputKind.LONG_TEXT,
        required=True,
        description="The agent gets it under your name. Its answer goes to the room, your words do not.",
        rows=2,
    )
    return FormBlock(label="Send", operation="session.send", args={"id": session_id}, inputs=[words], clears=True)


def list_actions(session: SessionDetails, *, steers: bool) -> tuple[Action, ...]:
    given = {"id": session.id}
    busy = session.running or session.waiting
    stop = Action(label="Stop", operation="session.stop", args=given, tone=Tone.BAD)
    reset = Action(label="Reset", operation="session.reset", args=given, asks=True)
    further = (
        Action(label="Fork", operation="session.fork", args=given, asks=True),
        Action(label="Replay", operation="session.replay", args=given, asks=True),
        Action(label="Close", operation="session.close", args=given, asks=True, tone=Tone.BAD),
    )
    if session.closed_at:
        return further[1:2] if steers else ()
    return (*((stop,) if busy else ()), reset, *(further if steers else ()))


def make_entry(event: SessionEvent) -> TimelineMoment:
    kind = event.kind
    spoken = kind in QUIET
    what = event.who if kind is SessionEventKind.MESSAGE else TITLES[kind]
    about = [event.state, *(() if spoken or kind is SessionEventKind.REPLAY else (event.who,))]
    if event.cost:
        about.append(render_usd(event.cost))
    name = event.text if kind in (SessionEventKind.CALL, SessionEventKind.REQUEST) else ""
    return TimelineMoment(
        at=iso(event.at or None),
        what=shorten(f"{what} {name}".strip(), 120),
        who=" · ".join(str(each) for each in about if each),
        text="" if name else event.text,
        tone=get_tone(event.state) if event.state else Tone.GOOD if kind is SessionEventKind.ANSWER else Tone.PLAIN,
        link=_make_link(kind, event.ref),
    )


def _make_link(kind: SessionEventKind, ref: str) -> Link | None:
    if kind is SessionEventKind.REQUEST:
        return Link("Decisions", render_path("/requests"))
    path = WAYS.get(kind)
    return Link(f"#{ref}" if kind in QUIET else ref, render_path(path, id=ref)) if path and ref else None


@page("/replays/{id}", "Replay", Section.ACTIVITY, "session.compare")
async def show_replay(request: PageRequest) -> PageView:
    return make_replay_view(await request.ask(CompareReplayArgs(id=request.params["id"])))


def make_replay_view(found: ReplayComparison) -> PageView:
    changed = ", ".join(f"{name}: {shorten(value, 60)}" for name, value in found.changes.items())
    source = Link("The conversation", render_path("/sessions/{id}", id=found.source))
    state = Note(
        text=f"Changed: {changed or 'nothing'}. {'It is over.' if found.finished else 'It still runs.'}",
        tone=Tone.PLAIN if found.finished else Tone.WARN,
        link=source,
    )
    blocks: list[Block] = [state, *(make_comparison(each) for each in found.turns)]
    return PageView(
        title=f"Replay of {found.source}",
        lead="A conversation from then, and its outcome with other settings now. Nothing of it reaches anybody.",
        blocks=blocks,
    )


def make_comparison(turn: ReplayedTurn) -> CompareBlock:
    then, now = _get_turn_text(turn.original), _get_turn_text(turn.replayed)
    left, right = mark_difference(then, now) if turn.original and turn.replayed else ([then], [now])
    return CompareBlock(
        title=f"{turn.number}. {shorten(turn.input)}",
        left=_make_column("Then", turn.original, left),
        right=_make_column("Now", turn.replayed, right),
    )


def _get_turn_text(outcome: TurnOutcome | None) -> str:
    return outcome.answer or outcome.error or "(nothing)" if outcome else TURN_PENDING


def _make_column(title: str, outcome: TurnOutcome | None, parts: list[TextPart] | list[str]) -> ComparedText:
    shown = [each if isinstance(each, TextPart) else TextPart(each) for each in parts]
    if outcome is None:
        return ComparedText(title=title, parts=shown, tone=Tone.QUIET)
    took = f"{outcome.took / SECOND:.1f} s" if outcome.took is not None else "at work"
    about = f"{outcome.state}, {render_usd(outcome.micro)}, {took}"
    failed = outcome.error and not outcome.answer
    return ComparedText(title=title, about=about, parts=shown, tone=get_tone("failed") if failed else Tone.PLAIN)
