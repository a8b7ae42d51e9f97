"""An agent's timeline on a screen, entry by entry as they come, and the requests that wait for an answer.

Our own words are coloured and an agent's never are, so that it cannot pass off its words as the gateway's.
"""

from collections.abc import Mapping
from typing import Any

from gatepost.cli.output import Colored, Piece, cut
from gatepost.core.terminal_text import one_line
from gatepost.flow.requests.questions import AgentQuestion, parse_questions
from gatepost.serve.agents.timeline import render_entry, summarize_input
from gatepost.serve.control.answers import to_json
from gatepost.serve.control.arguments.agents import LogEntry, PendingRequest, WaitOutcome
from gatepost.store.rights.requests import RequestKind, RequestState
from gatepost.store.sessions.timeline import TimelineEntry, TimelineKind, ToolCallStatus

_COLORS = {
    TimelineKind.USER_MESSAGE: "bold",
    TimelineKind.TOOL_CALL: "dim",
    TimelineKind.PERMISSION: "warn",
    TimelineKind.ERROR: "fail",
    TimelineKind.AGENT_FINISHED: "dim",
}
LONGEST_LINE = 200  # of what is asked, where it is told on one
LONGEST_TOLD = 600  # of the prompt that comes with an approval, where it is not told in full


class TimelineRenderer:
    """Remembers which calls and requests it has shown: a call is told when it begins, and again only if it fails."""

    def __init__(self, *, typed: bool = False) -> None:
        """`typed`: requests are answered by their number where they are shown."""
        self._typed = typed
        self._calls: dict[str, dict[str, Any]] = {}
        self.numbers: dict[str, int] = {}  # of requests, by which they are answered; never given twice

    def render_entry(self, entry: LogEntry, waiting: Mapping[str, PendingRequest]) -> Piece | None:
        """None: it tells nothing new."""
        kind, data = entry.kind, entry.data
        if kind == TimelineKind.TOOL_CALL and not self._is_news(data):
            return None
        if kind == TimelineKind.TOOL_CALL:
            data = {**self._calls.get(str(data.get("callId")), {}), **data}
        if kind == TimelineKind.PERMISSION and data.get("status") == RequestState.PENDING:
            asked = waiting.get(str(data.get("requestId")))  # None: it is history
            return self.render_request(asked) if asked is not None else None
        text = render_entry(TimelineEntry(entry.seq, 0, entry.turn, kind, data))
        if kind in _COLORS:  # ours begins at the edge, and nothing else does in our colours
            text = "\n  | ".join(text.splitlines())
        number = self.numbers.get(str(data.get("requestId")))
        if number is not None:
            text = text.replace("[Permission]", f"[Permission {number}]", 1)
        return Colored(text, _COLORS[kind]) if text and kind in _COLORS else text or None

    def _is_news(self, data: dict[str, Any]) -> bool:
        call = str(data.get("callId", ""))
        first = call not in self._calls
        self._calls.setdefault(call, data)
        return first or data.get("status") == ToolCallStatus.FAILED

    def render_request(self, asked: PendingRequest) -> Piece | None:
        """With all of its input, and a number to answer it by. Once."""
        if asked.id in self.numbers:
            return None
        number = self.numbers[asked.id] = len(self.numbers) + 1
        rows = [f"[Permission {number}] {_heading(asked)}:"]
        questions = parse_questions(asked.input) if asked.kind == RequestKind.QUESTION else ()
        for name, value in [_question_row(each) for each in questions] or asked.input.items():
            first, *more = str(value).splitlines() or [""]
            shown = one_line(name)
            rows += [f"  | {shown}: {first}" if name else f"  | {first}", *(f"  |   {each}" for each in more)]
        rows += [f"  {each}" for each in list_consequences(asked)]
        allow = f"/answer {number} text" if asked.kind == RequestKind.QUESTION else f"/allow {number}"
        typed = f"{allow} or /deny {number} [reason]"
        return Colored("\n".join([*rows, f"  {typed if self._typed else render_answer_commands(asked)}"]), "warn")


def _heading(asked: PendingRequest) -> str:
    whole = {RequestKind.QUESTION: "It asks a question", RequestKind.PLAN: "It has a plan to approve"}
    return whole.get(asked.kind, f"It asks to use {one_line(asked.name)}")


def _question_row(question: AgentQuestion) -> tuple[str, str]:
    options = "".join(f"\n- {each}" for each in question.options)
    return "", question.text + options


def render_answer_commands(asked: PendingRequest) -> str:
    """How it is answered from a command line."""
    how = " --answer TEXT" if asked.kind == RequestKind.QUESTION else ""
    return f"gatepost permit allow {asked.id}{how}, or gatepost permit deny {asked.id} [REASON]"


def list_consequences(asked: PendingRequest, longest: int | None = None) -> list[str]:
    """Return what somebody allows besides what they read of it: lines, those of the agent behind a bar."""
    cut = ["That is an excerpt: nobody sees all of it, so it can only be denied."] if asked.cut else []
    plan = asked.input.get("plan")
    steps = list_next_steps(asked.next_mode_id, asked.follow_up, plan if isinstance(plan, str) else "", longest)
    return [*cut, *steps]


def list_next_steps(mode: str | None, follow_up: str | None, plan: str = "", longest: int | None = None) -> list[str]:
    """Return what an approval starts. A prompt that ends with the plan itself is told without it where that is read in
    full (`longest` is None)."""
    rows = [f"Allowed, it goes on in mode {one_line(mode)}."] if mode else []
    if prompt := follow_up or "":
        if longest is None and plan.strip() and prompt.endswith(plan.strip()):
            prompt = prompt.removesuffix(plan.strip()) + "(the plan, as it stands above)"
        rest = (
            "" if longest is None or len(prompt) <= longest else f" … {len(prompt)} characters; --json shows them all"
        )
        rows.append("Allowed, it is told to do this next:")
        rows += [f"  | {each}" for each in (prompt[:longest] + rest).splitlines()]
    return rows


def summarize_request(asked: PendingRequest) -> str:
    """Return what a request is about, on one line."""
    if asked.kind == RequestKind.QUESTION:
        text = "; ".join(
            each.text + (f" ({', '.join(each.options)})" if each.options else "")
            for each in parse_questions(asked.input)
        )
        return cut(one_line(text), LONGEST_LINE)
    if asked.kind == RequestKind.RESTORED:  # how many of what
        return cut(one_line(", ".join(f"{count} {name}" for name, count in asked.input.items())), LONGEST_LINE)
    plan = asked.input.get("plan") if asked.kind == RequestKind.PLAN else None
    return cut(one_line(plan if isinstance(plan, str) else summarize_input(asked.input)), LONGEST_LINE)


def render_waiting_agent(outcome: WaitOutcome, asked: PendingRequest) -> str:
    """Render an agent that waits for an answer: its request, and the commands that answer it."""
    who = f"{outcome.title} ({outcome.agent_id})" if outcome.title else outcome.agent_id
    kinds = {RequestKind.QUESTION: "asks", RequestKind.PLAN: "has a plan to approve"}
    verb = kinds.get(asked.kind, f"asks to use {one_line(asked.name)}")
    about, more = summarize_request(asked), "".join(f"\n{each}" for each in list_consequences(asked, LONGEST_TOLD))
    return f"{who} {verb}{f': {about}' if about else ''}{more}\n→ {render_answer_commands(asked)}"


def make_entry_json(entry: LogEntry, waiting: Mapping[str, PendingRequest]) -> dict[str, Any]:
    """For programs: a request's entry says what it wants, as long as it waits."""
    shown: dict[str, Any] = to_json(entry)
    asked = waiting.get(str(entry.data.get("requestId"))) if entry.kind == TimelineKind.PERMISSION else None
    if asked is None or entry.data.get("status") != RequestState.PENDING:
        return shown
    return {**shown, "data": {**entry.data, "input": asked.input}}


def make_request_json(asked: PendingRequest) -> dict[str, Any]:
    """A request whose own entry lies further back than what is shown, as an entry for programs."""
    data = {"requestId": asked.id, "name": asked.name, "status": RequestState.PENDING, "input": asked.input}
    return {"seq": None, "at": asked.asked_at, "turn": "", "kind": TimelineKind.PERMISSION, "data": data}
