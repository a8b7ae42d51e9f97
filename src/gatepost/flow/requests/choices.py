"""What somebody may answer to a request, as buttons of a card. The same list in the same order whenever it is made: a
button is known by its number."""

import re
from collections.abc import Sequence

from msgspec import Struct

from gatepost.flow.requests.approved_plans import render_consequences
from gatepost.flow.requests.edited_input import is_editable
from gatepost.flow.requests.questions import make_answered_card, make_question_card, render_answered
from gatepost.messages.card import Card, CardButton, CardField, normalize_answer, parse_choice
from gatepost.messages.text import one_line
from gatepost.messages.visible_text import shorten_visibly
from gatepost.store.requests import AnswerLasts, Request, RequestKind, RequestState

LONGEST_VALUE = 1000  # characters of one argument that a card shows
LONGEST_NAME = 100  # of a parameter, a tool or a group
MOST_FIELDS = 12
GROUPS = "groups"  # of a room: those that may be chosen, in its input …
GROUP = "group"  # … and the one that was, in its answer
MOST_GROUPS = 5
LONGEST_GROUP = 48  # characters of a folder that fits a button
YES, NO = frozenset({"yes", "y", "ok", "okay", "allow", "approve"}), frozenset({"no", "n", "nope", "deny"})
LONGEST_REASON = 500  # characters of why somebody refuses
_NO_BECAUSE = re.compile(r"\s*(?:no|nope|deny)\s*[,.:;!–—-]+\s*(?=\w)", re.IGNORECASE)


class AnswerChoice(Struct, frozen=True):
    label: str
    state: RequestState
    lasts: AnswerLasts = AnswerLasts.ONCE
    style: str = ""
    group: str = ""  # of a room: who answers there


ALLOW_ONCE = AnswerChoice("Allow once", RequestState.ALLOWED, style="primary")
ALLOW_SESSION = AnswerChoice("Allow in this conversation", RequestState.ALLOWED, AnswerLasts.SESSION)
ALLOW_ALWAYS = AnswerChoice("Always allow", RequestState.ALLOWED, AnswerLasts.ALWAYS)
ALLOW_EACH_TIME = AnswerChoice("Allow each time", RequestState.ALLOWED, AnswerLasts.SESSION)
DENY = AnswerChoice("Deny", RequestState.DENIED, style="danger")
BLOCK = AnswerChoice("Block", RequestState.DENIED, AnswerLasts.ALWAYS, style="danger")
NEVER = AnswerChoice("Never", RequestState.DENIED, AnswerLasts.ALWAYS, style="danger")


def list_choices(request: Request) -> tuple[AnswerChoice, ...]:
    """Where several must agree, none of them makes it last: they agreed to this once."""
    alone = request.quorum == 1
    if request.kind is RequestKind.CALL:
        lasting = (ALLOW_SESSION, *((ALLOW_ALWAYS,) if request.rule else ()))
        return (ALLOW_ONCE, *(lasting if alone else ()), DENY)
    if request.kind is RequestKind.SENDER:
        return (ALLOW_ONCE, *((ALLOW_ALWAYS,) if alone else ()), DENY, BLOCK)
    if request.kind is RequestKind.ROOM:
        return (*map(make_group_choice, list_groups(request)), DENY, NEVER)
    if request.kind is RequestKind.HOST:
        return (*((ALLOW_SESSION, ALLOW_ALWAYS) if alone else (ALLOW_ONCE,)), DENY, BLOCK)
    if request.kind is RequestKind.TEXT:
        return (ALLOW_ONCE, *((ALLOW_EACH_TIME,) if alone else ()), DENY)
    return (ALLOW_ONCE, DENY)


class ChosenAnswer(Struct, frozen=True):
    choice: AnswerChoice
    words: str = ""  # why somebody refuses


def find_answer(choices: Sequence[AnswerChoice], text: str) -> ChosenAnswer | None:
    """Which of the choices a text means: one by its number or label, the first that allows for a yes, the plain denial
    for a no, also with a reason behind it. A yes where several would allow something different means none of them."""
    at = parse_choice(text, [each.label for each in choices])
    if at is not None:
        return ChosenAnswer(choices[at])
    said, because = normalize_answer(text), _NO_BECAUSE.match(text)
    if said in NO or because:
        words = one_line(text[because.end() :])[:LONGEST_REASON] if because else ""
        return ChosenAnswer(DENY, words) if DENY in choices else None
    allowing = [each for each in choices if each.state is RequestState.ALLOWED]
    unclear = len({each.group for each in allowing}) > 1
    return ChosenAnswer(allowing[0]) if said in YES and allowing and not unclear else None


def list_groups(request: Request) -> tuple[str, ...]:
    """Those that are offered for a room."""
    offered = request.input.get(GROUPS)
    return tuple(map(str, offered)) if isinstance(offered, list) else ()


def make_group_choice(folder: str) -> AnswerChoice:
    """A route is what lasts."""
    return AnswerChoice(f"Let {folder} answer", RequestState.ALLOWED, AnswerLasts.ALWAYS, group=folder)


def make_card(request: Request, token: str, agent: str, part: int = 0) -> Card:
    """The card by which somebody decides. `agent`: the name of the group. `part`: which of several questions."""
    if request.kind is RequestKind.QUESTION:
        return make_question_card(request, part, token, shorten_visibly(agent, LONGEST_NAME))
    buttons = tuple(
        CardButton(f"{token}:{number}", each.label, each.style) for number, each in enumerate(list_choices(request))
    )
    editable = is_editable(request)
    return Card(
        title=render_title(request, agent),
        text=_render_text(request),
        fields=list_fields(request),
        buttons=buttons,
        command=f"/approve {request.id} or /deny {request.id}",
        token=token if editable else "",
        editable=editable,
    )


def make_decided_card(request: Request, agent: str, done: str, part: int = 0) -> Card:
    if request.kind is RequestKind.QUESTION:
        return make_answered_card(request, part, shorten_visibly(agent, LONGEST_NAME), done)
    return Card(title=render_title(request, agent), text=_render_text(request), fields=list_fields(request), done=done)


def _render_text(request: Request) -> str:
    consequences = render_consequences(request) if request.kind is RequestKind.PLAN else ""
    return "\n\n".join(filter(None, [request.why, request.preview, consequences]))


def render_title(request: Request, agent: str) -> str:
    named = shorten_visibly(agent, LONGEST_NAME)
    if request.kind is RequestKind.SENDER:
        return f"Somebody unknown writes to {named} ({request.id})"
    if request.kind is RequestKind.ROOM:
        return f"Who shall answer in a chat that nobody answers yet? ({request.id})"
    if request.kind is RequestKind.HOST:
        return f"{named} asks to reach a host on the network ({request.id})"
    if request.kind is RequestKind.TEXT:
        return f"A scheduled text of {named} is to be said ({request.id})"
    if request.kind is RequestKind.PLAN:
        return f"{named} asks to carry out a plan ({request.id})"
    return f"{named} asks to use {shorten_visibly(request.tool, LONGEST_NAME)} ({request.id})"


def list_fields(request: Request) -> tuple[CardField, ...]:
    """The arguments, each cut to what somebody reads. `cut` says that there is more than is kept here."""
    given = [each for each in request.input.items() if each[0] != GROUPS or request.kind is not RequestKind.ROOM]
    given = given[:MOST_FIELDS]
    shown = [CardField(shorten_visibly(name, LONGEST_NAME), _shorten(value)) for name, value in given]
    if len(request.input) > MOST_FIELDS or request.cut:
        shown.append(CardField("…", "there is more than is shown"))
    return tuple(shown)


def _shorten(value: object) -> str:
    """In one line: nothing that an agent says may look like a part of the card."""
    return shorten_visibly(value if isinstance(value, str) else str(value), LONGEST_VALUE)


def is_edited(request: Request) -> bool:
    """Whether it was allowed with other arguments than were asked for."""
    answers = request.kind in (RequestKind.QUESTION, RequestKind.ROOM)  # what is given there is the answer itself
    return request.state is RequestState.ALLOWED and bool(request.answer) and not answers


def render_decision(request: Request, by: str, part: int | None = None) -> str:
    """What a decided card says, in one line. `part`: of one question alone."""
    if request.kind is RequestKind.QUESTION:
        return render_answered(request, by, part)
    words = f": {request.reason}" if request.reason and request.state is RequestState.DENIED else ""
    conversation = " each time" if request.kind is RequestKind.TEXT else " in this conversation"
    lasts = {AnswerLasts.SESSION: conversation, AnswerLasts.ALWAYS: " always", AnswerLasts.ONCE: ""}
    group = request.answer.get(GROUP) if request.kind is RequestKind.ROOM else None
    answers = f": {group} answers there" if group else ""
    changed = " with changes" if is_edited(request) else ""
    said = {
        RequestState.ALLOWED: f"Allowed{changed}{lasts[request.lasts]} by {by}{answers}",
        RequestState.DENIED: f"Denied{lasts[request.lasts]} by {by}{words}",
        RequestState.EXPIRED: "Nobody decided in time, so it was not done",
        RequestState.WITHDRAWN: f"Withdrawn{words}",
        RequestState.PENDING: "It waits for a decision",
    }
    return f"{said[request.state]}."
