"""What somebody may answer to a request, as buttons of a card. The same list in the same order whenever it is made: a
button is known by its number."""

from msgspec import Struct

from gatepost.flow.requests.questions import make_answered_card, make_question_card, render_answered
from gatepost.messages.card import Card, CardButton, CardField
from gatepost.messages.text import one_line
from gatepost.store.requests import AnswerLasts, Request, RequestKind, RequestState

LONGEST_VALUE = 1000  # characters of one argument that a card shows
LONGEST_NAME = 100  # of a parameter, a tool or a group
MOST_FIELDS = 12


class AnswerChoice(Struct, frozen=True):
    label: str
    state: RequestState
    lasts: AnswerLasts = AnswerLasts.ONCE
    style: str = ""


ALLOW_ONCE = AnswerChoice("Allow once", RequestState.ALLOWED, style="primary")
ALLOW_SESSION = AnswerChoice("Allow in this conversation", RequestState.ALLOWED, AnswerLasts.SESSION)
ALLOW_ALWAYS = AnswerChoice("Always allow", RequestState.ALLOWED, AnswerLasts.ALWAYS)
DENY = AnswerChoice("Deny", RequestState.DENIED, style="danger")
BLOCK = AnswerChoice("Block", RequestState.DENIED, AnswerLasts.ALWAYS, style="danger")


def list_choices(request: Request) -> tuple[AnswerChoice, ...]:
    """Where several must agree, none of them makes it last: they agreed to this once."""
    alone = request.quorum == 1
    if request.kind is RequestKind.CALL:
        lasting = (ALLOW_SESSION, *((ALLOW_ALWAYS,) if request.rule else ()))
        return (ALLOW_ONCE, *(lasting if alone else ()), DENY)
    if request.kind is RequestKind.SENDER:
        return (ALLOW_ONCE, *((ALLOW_ALWAYS,) if alone else ()), DENY, BLOCK)
    return (ALLOW_ONCE, DENY)


def make_card(request: Request, token: str, agent: str, part: int = 0) -> Card:
    """The card by which somebody decides. `agent`: the name of the group. `part`: which of several questions."""
    if request.kind is RequestKind.QUESTION:
        return make_question_card(request, part, token, one_line(agent)[:LONGEST_NAME])
    buttons = tuple(
        CardButton(f"{token}:{number}", each.label, each.style) for number, each in enumerate(list_choices(request))
    )
    return Card(title=render_title(request, agent), text=request.why, fields=list_fields(request), buttons=buttons)


def make_decided_card(request: Request, agent: str, done: str, part: int = 0) -> Card:
    if request.kind is RequestKind.QUESTION:
        return make_answered_card(request, part, one_line(agent)[:LONGEST_NAME], done)
    return Card(title=render_title(request, agent), text=request.why, fields=list_fields(request), done=done)


def render_title(request: Request, agent: str) -> str:
    named = one_line(agent)[:LONGEST_NAME]
    if request.kind is RequestKind.SENDER:
        return f"Somebody unknown writes to {named} ({request.id})"
    return f"{named} asks to use {one_line(request.tool)[:LONGEST_NAME]} ({request.id})"


def list_fields(request: Request) -> tuple[CardField, ...]:
    """The arguments, each cut to what somebody reads. `cut` says that there is more than is kept here."""
    given = list(request.input.items())[:MOST_FIELDS]
    shown = [CardField(one_line(name)[:LONGEST_NAME], _shorten(value)) for name, value in given]
    if len(request.input) > MOST_FIELDS or request.cut:
        shown.append(CardField("…", "there is more than is shown"))
    return tuple(shown)


def _shorten(value: object) -> str:
    """In one line: nothing that an agent says may look like a part of the card."""
    text = one_line(value if isinstance(value, str) else str(value))
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}… ({len(text)} characters)"


def render_decision(request: Request, by: str, part: int | None = None) -> str:
    """What a decided card says, in one line. `part`: of one question alone."""
    if request.kind is RequestKind.QUESTION:
        return render_answered(request, by, part)
    words = f": {request.reason}" if request.reason and request.state is RequestState.DENIED else ""
    lasts = {AnswerLasts.SESSION: " in this conversation", AnswerLasts.ALWAYS: " always", AnswerLasts.ONCE: ""}
    said = {
        RequestState.ALLOWED: f"Allowed{lasts[request.lasts]} by {by}",
        RequestState.DENIED: f"Denied{lasts[request.lasts]} by {by}{words}",
        RequestState.EXPIRED: "Nobody decided in time, so it was not done",
        RequestState.WITHDRAWN: f"Withdrawn{words}",
        RequestState.PENDING: "It waits for a decision",
    }
    return f"{said[request.state]}."
