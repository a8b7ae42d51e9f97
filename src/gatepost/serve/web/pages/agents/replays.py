"""A replay beside the conversation that it repeats, turn by turn; changed words are marked."""

from gatepost.access.budgets import render_usd
from gatepost.serve.control.arguments.replays import CompareReplayArgs, ReplayComparison
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page, render_path
from gatepost.serve.web.dashboard.tables import get_tone, shorten
from gatepost.serve.web.dashboard.text_difference import mark_difference
from gatepost.serve.web.dashboard.view import (
    Block,
    CompareBlock,
    ComparedText,
    Link,
    Note,
    PageView,
    TextPart,
    Tone,
)
from gatepost.store.sessions.replays import ReplayedTurn, TurnOutcome

SECOND = 1_000_000  # of `took`
PENDING = "It has not begun."


@page("/replays/{id}", "Replay", Section.CONVERSATIONS, "session.compare")
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
    then, now = _get_text(turn.original), _get_text(turn.replayed)
    left, right = mark_difference(then, now) if turn.original and turn.replayed else ([then], [now])
    return CompareBlock(
        title=f"{turn.number}. {shorten(turn.input)}",
        left=_make_column("Then", turn.original, left),
        right=_make_column("Now", turn.replayed, right),
    )


def _get_text(outcome: TurnOutcome | None) -> str:
    return outcome.answer or outcome.error or "(nothing)" if outcome else PENDING


def _make_column(title: str, outcome: TurnOutcome | None, parts: list[TextPart] | list[str]) -> ComparedText:
    shown = [each if isinstance(each, TextPart) else TextPart(each) for each in parts]
    if outcome is None:
        return ComparedText(title=title, parts=shown, tone=Tone.QUIET)
    took = f"{outcome.took / SECOND:.1f} s" if outcome.took is not None else "at work"
    about = f"{outcome.state}, {render_usd(outcome.micro)}, {took}"
    failed = outcome.error and not outcome.answer
    return ComparedText(title=title, about=about, parts=shown, tone=get_tone("failed") if failed else Tone.PLAIN)
