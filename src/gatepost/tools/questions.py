"""Questions to the people of a room: with options, with words of their own, or both."""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gatepost.access.subjects import Subject
from gatepost.access.tiers import Tier
from gatepost.core.errors import Invalid, Refused
from gatepost.flow.requests.ask_approver import EXPIRE_S
from gatepost.flow.requests.choices import render_decision
from gatepost.flow.requests.questions import find_choice, find_own_words, list_answers, parse_questions
from gatepost.messages.text import clean, one_line
from gatepost.store.rights.requests import Request, RequestState
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import BODY, tool

MOST_QUESTIONS, MOST_OPTIONS = 4, 8
LONGEST_QUESTION, LONGEST_HEADER, LONGEST_LABEL, LONGEST_DESCRIPTION = 1000, 40, 60, 300  # characters
PENDING = (
    "Nobody has answered yet. Go on without the answer, or end your turn: it comes to you as a message. Asked again in"
    " this turn with the same words, it is the same question."
)


class QuestionStatus(StrEnum):
    ANSWERED = "answered"
    PENDING = "pending"
    DECLINED = "declined"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


STATUSES = {
    RequestState.ALLOWED: QuestionStatus.ANSWERED,
    RequestState.PENDING: QuestionStatus.PENDING,
    RequestState.DENIED: QuestionStatus.DECLINED,
    RequestState.EXPIRED: QuestionStatus.EXPIRED,
    RequestState.WITHDRAWN: QuestionStatus.WITHDRAWN,
}


class QuestionOption(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One answer that people can choose."""

    label: Annotated[str, Meta(description="At most 60 characters.")]
    description: str = ""


class UserQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """One thing that an agent wants to know."""

    question: str
    header: Annotated[str, Meta(description="At most 40 characters.")] = ""
    options: Annotated[list[QuestionOption | str], Meta(description="At most 8. None: any words.")] = []
    multi_select: bool = False
    free_text: Annotated[bool, Meta(description="Other words are an answer, too.")] = False
    default: Annotated[str, Meta(description="If nobody answers in time.")] = ""


class AnsweredQuestion(msgspec.Struct, frozen=True):
    question: str
    answer: str


class QuestionResult(msgspec.Struct, frozen=True):
    status: QuestionStatus
    request: str
    answers: list[AnsweredQuestion] = []
    why: str = ""


@tool(tier=Tier.WORKER, group="messages", effects=(Subject.SPEAK,), here=True, core=True)
async def ask_user_question(
    call: ToolCall,
    questions: Annotated[
        list[dict[str, Any]] | None,
        Meta(
            description="2 to 4 at once, in place of the next three. Each: question, header, options, multiSelect,"
            " freeText, default (if nobody answers).",
            extra={BODY: True},
        ),
    ] = None,
    question: Annotated[str, Meta(extra={BODY: True})] = "",
    title: Annotated[str, Meta(description="A short name for it.", extra={BODY: True})] = "",
    options: Annotated[
        list[str | dict[str, Any]] | None,
        Meta(description="At most 8 texts, or label and description. None: any words.", extra={BODY: True}),
    ] = None,
    timeout: Annotated[float | None, Meta(description="Seconds until it expires. Usually a day.")] = None,
) -> QuestionResult:
    """Ask the people here what you must know before you go on.

    If it says `pending`, go on without it or end your turn: the answer comes as a message.
    """
    longest = call.deps.config[EXPIRE_S]
    if timeout is not None and not 1 <= timeout <= longest:
        raise Invalid("timeout", f"is {timeout:g} seconds; 1 to {longest:g} are possible")
    several = _read("questions", questions or [], UserQuestion)
    chosen = _read("options", options or [], QuestionOption | str)
    asked, people = make_input(_join_questions(several, question, title, chosen)), call.deps.questions
    if people is None:
        raise Refused(call.caller.folder, call.tool, why="nobody can be asked here")
    return render_result(await people.ask(call, asked, timeout))


def _read(name: str, given: Sequence[object], kind: Any) -> list[Any]:
    """The schema that models pay for names the fields in words."""
    try:
        found: list[Any] = msgspec.convert(given, list[kind])
    except msgspec.ValidationError as error:
        fields = ", ".join(each.encode_name for each in msgspec.structs.fields(UserQuestion))
        more = f"each has {fields}" if kind is UserQuestion else "each is a text, or has label and description"
        raise Invalid(name, f"{error}; {more}") from None
    return found


def render_result(request: Request) -> QuestionResult:
    status = STATUSES[request.state]
    why = (
        ""
        if status is QuestionStatus.ANSWERED and not request.reason
        else render_decision(request, request.answered_by)
    )
    return QuestionResult(
        status=status,
        request=request.id,
        answers=[AnsweredQuestion(each["question"], each["answer"]) for each in list_answers(request)],
        why=PENDING if status is QuestionStatus.PENDING else why,
    )


def _join_questions(
    questions: list[UserQuestion], question: str, title: str, options: list[QuestionOption | str]
) -> list[UserQuestion]:
    """One question with its title and options may be given without a list."""
    if not question and not title and not options:
        return questions
    if questions:
        raise Invalid("questions", "give either questions, or one question with its title and options")
    return [UserQuestion(question=question, header=title[:LONGEST_HEADER], options=options)]


def make_input(asked: list[UserQuestion]) -> dict[str, Any]:
    """Return what is asked, checked, as a request keeps it."""
    if not 1 <= len(asked) <= MOST_QUESTIONS:
        raise Invalid("questions", f"has {len(asked)} items; 1 to {MOST_QUESTIONS} are possible")
    made = [_check_question(f"questions: item {place}", each) for place, each in enumerate(asked, start=1)]
    for name in ("question", "header"):
        twice = [text for text, count in Counter(each[name] for each in made).items() if text and count > 1]
        if twice:
            raise Invalid("questions", f"have the same {name} twice: {twice[0]!r}")
    return {"questions": made}


def _check_question(field: str, asked: UserQuestion) -> dict[str, Any]:
    options = [QuestionOption(each) if isinstance(each, str) else each for each in asked.options]
    if len(options) > MOST_OPTIONS:
        raise Invalid(f"{field}: options", f"has {len(options)} items; {MOST_OPTIONS} are possible")
    if asked.multi_select and len(options) < 2:
        raise Invalid(
            f"{field}: options", "several can be chosen of two or more; add options, or leave multiSelect out"
        )
    made = {
        "question": _check_text(f"{field}: question", clean(asked.question).strip(), LONGEST_QUESTION),
        "header": _check_text(f"{field}: header", one_line(asked.header), LONGEST_HEADER, least=0),
        "options": _check_options(f"{field}: options", options),
        "multiSelect": asked.multi_select,
        "freeText": asked.free_text or not options,
        "default": "",
    }
    if asked.default:
        (question,) = parse_questions({"questions": [made]})
        default = find_choice(question, asked.default) or find_own_words(question, asked.default)
        if default is None:
            raise Invalid(f"{field}: default", f"{asked.default[:60]!r} is none of the options")
        made["default"] = default
    return made


def _check_options(field: str, options: list[QuestionOption]) -> list[dict[str, str]]:
    made = [
        {
            "label": _check_text(f"{field}: item {place}: label", one_line(each.label), LONGEST_LABEL),
            "description": _check_text(
                f"{field}: item {place}: description", one_line(each.description), LONGEST_DESCRIPTION, least=0
            ),
        }
        for place, each in enumerate(options, start=1)
    ]
    labels = [each["label"].casefold() for each in made]
    for place, label in enumerate(labels, start=1):
        if labels.index(label) != place - 1:
            raise Invalid(field, f"has {made[place - 1]['label']!r} twice")
        if label.isdecimal() and int(label) != place and 1 <= int(label) <= len(labels):
            raise Invalid(field, f"item {place} is called {label!r}, which is the number of another; say it in words")
    return made


def _check_text(field: str, text: str, longest: int, least: int = 1) -> str:
    if not least <= len(text) <= longest:
        raise Invalid(field, f"has {len(text)} characters; {least} to {longest} are possible")
    return text
