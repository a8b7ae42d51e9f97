"""A request that is a question, or several: what is asked, what an answer means, and what was answered. Pure.

The input may come from inside a sandbox: whatever does not look like a question is left out.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from gatepost.core.languages.catalogue import current_language, translate
from gatepost.messages.card import (
    LONGEST_LABEL,
    MOST_BUTTONS,
    Card,
    CardButton,
    CardField,
    escape_line,
    parse_choice,
    parse_choices,
)
from gatepost.messages.inbound import is_person
from gatepost.messages.text import clean, one_line
from gatepost.messages.visible_text import shorten_visibly, show_hidden
from gatepost.store.rights.requests import Request, RequestState

MOST_QUESTIONS, MOST_OPTIONS = 20, 50  # of one request, of one question; an agent's own tool takes fewer
LONGEST_QUESTION = 2000  # characters that a card shows
LONGEST_DESCRIPTION = 300
LONGEST_ANSWER = 4000  # characters of words of one's own
ANSWERS = "answers"


class AgentQuestion(Struct, frozen=True):
    text: str
    key: str  # by which its answer is known: its header, or else its own words
    options: tuple[str, ...] = ()
    descriptions: tuple[str, ...] = ()  # one for each option, if any of them has one
    many: bool = False  # several options may be chosen
    own_words: bool = True  # what is no option is an answer, too
    default: str = ""  # the answer if nobody gives one in time


def parse_questions(given: Mapping[str, Any]) -> tuple[AgentQuestion, ...]:
    """One stands in the input itself, several in a list. No two have the same key."""
    listed = given.get("questions")
    found: dict[str, AgentQuestion] = {}
    for each in (listed if isinstance(listed, list) else [given])[:MOST_QUESTIONS]:
        question = _parse_question(each, found)
        if question is not None:
            found[question.key] = question
    return tuple(found.values())


def _parse_question(given: object, taken: Mapping[str, AgentQuestion]) -> AgentQuestion | None:
    if not isinstance(given, Mapping) or not isinstance(given.get("question"), str):
        return None
    header, listed = given.get("header"), given.get("options")
    text = str(given["question"])
    options = listed[:MOST_OPTIONS] if isinstance(listed, list) else []
    named = [(label, each) for each in options if (label := _get_label(each))]
    described = tuple(_get_description(each) for _, each in named)
    key = header if isinstance(header, str) and header else text
    if key in taken:
        key = text if text not in taken else f"{text} ({len(taken) + 1})"
    default = given.get("default")
    return AgentQuestion(
        text=text,
        key=key,
        options=tuple(label for label, _ in named),
        descriptions=described if any(described) else (),
        many=given.get("multiSelect") is True,
        own_words=given.get("freeText") is not False or not named,
        default=default if isinstance(default, str) else "",
    )


def _get_label(option: object) -> str:
    found = option.get("label") if isinstance(option, Mapping) else option
    return found if isinstance(found, str) else ""


def _get_description(option: object) -> str:
    found = option.get("description") if isinstance(option, Mapping) else ""
    return found if isinstance(found, str) else ""


# Answers.


def find_choice(question: AgentQuestion, text: str) -> str | None:
    """The answer that a text means, if it names what is offered."""
    if question.many:
        chosen = parse_choices(text, question.options)
        return ", ".join(question.options[at] for at in chosen) if chosen is not None else None
    at = parse_choice(text, question.options)
    return question.options[at] if at is not None else None


def find_own_words(question: AgentQuestion, text: str) -> str | None:
    words = clean(text).strip()
    return words if question.own_words and 0 < len(words) <= LONGEST_ANSWER else None


def find_clicked(question: AgentQuestion, numbers: str) -> str | None:
    """The answer of a click, by the numbers of its buttons. None: the card has no such buttons."""
    parts = numbers.split(",")
    if len(parts) > (MOST_BUTTONS if question.many else 1):
        return None
    if not all(each.isascii() and each.isdecimal() and len(each) <= 2 for each in parts):
        return None
    chosen = sorted({int(each) for each in parts})
    shown = question.options[:MOST_BUTTONS]
    return ", ".join(shown[at] for at in chosen) if chosen[-1] < len(shown) else None


def get_answers(request: Request) -> dict[str, str]:
    """Return what was answered so far, by the question's key."""
    found = request.answer.get(ANSWERS)
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, Mapping) else {}


def find_next(request: Request) -> int | None:
    """The first question that nobody has answered."""
    known = get_answers(request)
    return next((at for at, each in enumerate(parse_questions(request.input)) if each.key not in known), None)


def fill_defaults(request: Request) -> tuple[dict[str, str], bool]:
    """The answers when the time is over, and whether every question has one."""
    known, asked = get_answers(request), parse_questions(request.input)
    filled = {each.key: known.get(each.key) or each.default for each in asked}
    return {key: value for key, value in filled.items() if value}, bool(asked) and all(filled.values())


def list_answers(request: Request) -> list[dict[str, str]]:
    """As whoever asked is told: each question that has an answer, with it."""
    known = get_answers(request)
    return [
        {"question": each.text, "answer": known[each.key]}
        for each in parse_questions(request.input)
        if each.key in known
    ]


# Cards.


def make_question_card(request: Request, part: int, token: str, agent: str) -> Card:
    """One question at a time: the next card comes with the answer to this one."""
    asked = parse_questions(request.input)
    question = asked[part] if part < len(asked) else AgentQuestion("", "")
    default = _show(question.default, LONGEST_DESCRIPTION)
    return Card(
        title=_render_title(part, len(asked), agent),
        text=_render_text(question),
        fields=(CardField(translate("If nobody answers"), default),) if default else (),
        buttons=_list_buttons(question, token),
        free_text=question.own_words,
        many=question.many,
        command=f"/answer {request.id} and your answer",
        token=token if question.own_words else "",
        language=current_language.get(),
    )


def make_answered_card(request: Request, part: int, agent: str, done: str) -> Card:
    asked = parse_questions(request.input)
    text = _render_text(asked[part]) if part < len(asked) else ""
    return Card(title=_render_title(part, len(asked), agent), text=text, done=translate(done))


def _render_title(part: int, many: int, agent: str) -> str:
    place = f", question {part + 1} of {many}" if many > 1 else ""
    return translate(f"{agent} asks{place}")


def _list_buttons(question: AgentQuestion, token: str) -> tuple[CardButton, ...]:
    about = question.descriptions or ("",) * len(question.options)
    pairs = list(zip(question.options, about, strict=True))[:MOST_BUTTONS]
    return tuple(
        CardButton(
            f"{token}:{at}",
            _show(label, LONGEST_LABEL),
            about=_show(described, LONGEST_DESCRIPTION),
        )
        for at, (label, described) in enumerate(pairs)
    )


def render_answered(request: Request, by: str, part: int | None = None, name: str = "") -> str:
    """Return the line that says how one question, or all of them, were answered: for the card, and for somebody who
    answers too late. `name`: of the person who answered."""
    asked, known = parse_questions(request.input), get_answers(request)
    wanted: Sequence[AgentQuestion] = asked if part is None else asked[part : part + 1]
    said = " · ".join(_show(known[each.key], LONGEST_DESCRIPTION) for each in wanted if each.key in known)
    words = f": {one_line(request.reason)}" if request.reason else ""
    if request.state is RequestState.DENIED:
        return f"Not answered by {name or by}{words}."
    if request.state is RequestState.EXPIRED:
        return "Nobody answered in time."
    if request.state is RequestState.WITHDRAWN:
        return f"Withdrawn{words}."
    if request.state is RequestState.ALLOWED and not is_person(by):
        return f"Nobody answered in time, so this counts: {said}."
    return f"Answered by {name or by}: {said}." if said else "It waits for an answer."


def _render_text(question: AgentQuestion) -> str:
    """As markdown that shows the words, whatever they are: nothing of them looks like a part of the card."""
    return escape_line(shorten_visibly(question.text, LONGEST_QUESTION))


def _show(text: str, longest: int) -> str:
    """Shorten a text for a place that has no room for a digest."""
    shown = show_hidden(text[: longest + 1])
    return shown if len(shown) <= longest and len(text) <= longest else f"{shown[: longest - 1]}…"
