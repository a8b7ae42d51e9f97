"""A request as a form of MCP elicitation, and what a filled form answers. Pure.

A form has flat fields only: text, a choice, several choices. A person decides on what they see: a request that does not
fit a form as a whole is not asked by one.
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from gatepost.flow.requests.questions import (
    ANSWERS,
    LONGEST_ANSWER,
    AgentQuestion,
    find_own_words,
    parse_questions,
)
from gatepost.messages.text import clean, one_line
from gatepost.serve.control.arguments.agents import PendingRequest
from gatepost.store.rights.requests import RequestKind

LONGEST_MESSAGE = 16_000  # characters
LARGEST_SCHEMA = 32_000  # characters of its JSON
LONGEST_REASON = 1000
LONGEST_TITLE = 100
DECISION, REASON = "decision", "reason"
INDENT = "    "


class FormAction(StrEnum):
    """A client's word on a form."""

    ACCEPT = "accept"
    DECLINE = "decline"
    CANCEL = "cancel"


class FormDecision(StrEnum):
    ALLOW = "allow"
    DENY = "deny"


class ElicitationForm(Struct, frozen=True):
    request_id: str
    message: str
    schema: dict[str, Any]


class FormResponse(Struct, frozen=True):
    action: FormAction
    content: Mapping[str, Any] | None = None


class FormAnswer(Struct, frozen=True):
    """A decision, in the terms of `respond_to_permission`."""

    allow: bool
    updated: dict[str, Any] | None = None
    message: str = ""


def make_form(asked: PendingRequest, agent: str, *, arrays: bool) -> ElicitationForm | None:
    """None: it cannot be shown as a whole. `arrays`: the client's revision knows fields with several choices."""
    if asked.cut:
        return None
    if asked.kind is RequestKind.QUESTION:
        questions = parse_questions(asked.input)
        message, schema = _render_questions(questions, agent), _make_question_schema(questions, arrays)
        if not questions:
            return None
    else:
        message, schema = _render_request(asked, agent), _make_decision_schema()
    if len(message) > LONGEST_MESSAGE or len(json.dumps(schema)) > LARGEST_SCHEMA:
        return None
    return ElicitationForm(asked.id, message, schema)


def parse_response(asked: PendingRequest, response: FormResponse) -> FormAnswer | None:
    """None: it decides nothing."""
    if response.action is FormAction.DECLINE:
        return FormAnswer(allow=False)
    content = response.content
    if response.action is not FormAction.ACCEPT or content is None:
        return None
    if asked.kind is RequestKind.QUESTION:
        return _parse_answers(parse_questions(asked.input), content)
    reason = content.get(REASON)
    words = one_line(reason)[:LONGEST_REASON] if isinstance(reason, str) else ""
    if content.get(DECISION) == FormDecision.ALLOW:
        return FormAnswer(allow=True)
    return FormAnswer(allow=False, message=words) if content.get(DECISION) == FormDecision.DENY else None


# Permission.


def _render_request(asked: PendingRequest, agent: str) -> str:
    lines = [f"{_shorten(agent)} asks for permission ({asked.kind}): {one_line(asked.name)}", ""]
    lines += [f"{one_line(key)}: {_render_value(value)}" for key, value in asked.input.items()]
    lines += ["", _show(asked.preview)] if asked.preview else []
    lines += [f"Why you are asked: {_show(asked.why)}"] if asked.why else []
    if asked.next_mode_id is not None:
        lines.append(f"Its mode once it is allowed: {one_line(asked.next_mode_id)}")
    if asked.follow_up is not None:
        lines.append(f"The prompt that follows: {_show(asked.follow_up)}")
    return "\n".join(lines).strip()


def _render_value(value: object) -> str:
    """Further lines are set in, so that none of them looks like the next value."""
    shown = _show(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return shown.replace("\n", f"\n{INDENT}")


def _make_decision_schema() -> dict[str, Any]:
    reason = {
        "type": "string",
        "title": "Reason",
        "description": "The reason that the agent gets if you deny it.",
        "maxLength": LONGEST_REASON,
    }
    decision = {"type": "string", "title": "Decision", "enum": [each.value for each in FormDecision]}
    return {"type": "object", "properties": {DECISION: decision, REASON: reason}, "required": [DECISION]}


# Questions.


def _render_questions(questions: tuple[AgentQuestion, ...], agent: str) -> str:
    many = len(questions) > 1
    asked = [f"{f'{at}. ' if many else ''}{_show(each.text)}" for at, each in enumerate(questions, 1)]
    return "\n".join([f"{_shorten(agent)} asks:", *asked])


def _make_question_schema(questions: tuple[AgentQuestion, ...], arrays: bool) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required = []
    for at, each in enumerate(questions, 1):
        choice, words = _name_fields(at)
        if each.options:
            properties[choice] = _make_choice(each, arrays)
        if each.own_words:
            title = f"{_shorten(each.key)}: in your own words" if each.options else _shorten(each.key)
            properties[words] = {"type": "string", "title": title, "maxLength": LONGEST_ANSWER}
        if not (each.options and each.own_words):
            required.append(words if each.own_words else choice)
    return {"type": "object", "properties": properties, "required": required}


def _make_choice(question: AgentQuestion, arrays: bool) -> dict[str, Any]:
    values, title = list(_list_choices(question)), _shorten(question.key)
    about = [
        f"{one_line(label)}: {described}"
        for label, described in zip(question.options, question.descriptions, strict=False)
        if described
    ]
    if not question.many:
        field: dict[str, Any] = {"type": "string", "title": title, "enum": values}
    elif arrays:
        field = {"type": "array", "title": title, "items": {"type": "string", "enum": values}}
        if not question.own_words:
            field["minItems"] = 1
    else:
        field = {"type": "string", "title": title}
        about.insert(0, f"One or several, with commas between them: {', '.join(values)}")
    return {**field, "description": "\n".join(about)} if about else field


def _parse_answers(questions: tuple[AgentQuestion, ...], content: Mapping[str, Any]) -> FormAnswer | None:
    found = {each.key: _parse_answer(each, at, content) for at, each in enumerate(questions, 1)}
    answers = {key: text for key, text in found.items() if text is not None}
    return FormAnswer(allow=True, updated={ANSWERS: answers}) if len(answers) == len(questions) else None


def _parse_answer(question: AgentQuestion, at: int, content: Mapping[str, Any]) -> str | None:
    """Words of one's own count before what is chosen: somebody wrote them instead."""
    choice, words = _name_fields(at)
    written = content.get(words)
    if isinstance(written, str) and (said := find_own_words(question, written)):
        return said
    given, known = content.get(choice), _list_choices(question)
    if question.many and isinstance(given, str) and given not in known:
        given = [each.strip() for each in given.split(",") if each.strip()]
    chosen = [given] if isinstance(given, str) else given
    if not isinstance(chosen, list) or not chosen or (len(chosen) > 1 and not question.many):
        return None
    if not all(isinstance(each, str) and each in known for each in chosen):
        return None
    return ", ".join(option for shown, option in known.items() if shown in chosen)


def _list_choices(question: AgentQuestion) -> dict[str, str]:
    """Map the shown form of each option to the option. If two look alike, the first is offered."""
    found: dict[str, str] = {}
    for option in question.options:
        found.setdefault(one_line(option), option)
    return found


def _name_fields(at: int) -> tuple[str, str]:
    return f"answer_{at}", f"words_{at}"


def _show(text: str) -> str:
    """Escape characters that would be invisible, or would reverse the text."""
    lines = clean(text).replace("\r\n", "\n")
    return "".join(char if char.isprintable() or char == "\n" else f"\\u{ord(char):04x}" for char in lines)


def _shorten(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= LONGEST_TITLE else f"{line[: LONGEST_TITLE - 1]}…"
