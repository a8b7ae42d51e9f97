"""A request that is a question: what it asks, and an answer in the shape in which its provider takes one. Pure.

The input came from inside: whatever does not look like a question is left out.
"""

from typing import Any

from msgspec import Struct

from gatepost.core.errors import Invalid
from gatepost.flow.requests.choices import GROUP
from gatepost.serve.agents.views import PendingRequest
from gatepost.store.requests import RequestKind


class AgentQuestion(Struct, frozen=True):
    text: str
    key: str  # by which its answer is known: its header, or else its own words
    options: tuple[str, ...] = ()


def parse_questions(given: dict[str, Any]) -> tuple[AgentQuestion, ...]:
    """One stands in the input itself, several in a list."""
    listed = given.get("questions")
    found = (_parse_question(each) for each in (listed if isinstance(listed, list) else [given]))
    return tuple(each for each in found if each is not None)


def _parse_question(given: object) -> AgentQuestion | None:
    if not isinstance(given, dict) or not isinstance(given.get("question"), str):
        return None
    header, options = given.get("header"), given.get("options")
    text = str(given["question"])
    named = (_label(each) for each in (options if isinstance(options, list) else []))
    return AgentQuestion(text, header if isinstance(header, str) and header else text, tuple(filter(None, named)))


def _label(option: object) -> str:
    found = option.get("label") if isinstance(option, dict) else option
    return found if isinstance(found, str) else ""


def make_answers(asked: PendingRequest, texts: list[str]) -> dict[str, Any]:
    """What a question is allowed with, or the group that is chosen for a room; nothing for what is neither."""
    if asked.kind == RequestKind.ROOM and len(texts) == 1:
        return {GROUP: texts[0]}
    if asked.kind != RequestKind.QUESTION:
        if texts:
            raise Invalid("--answer", f"{asked.id} is no question; allow it or deny it")
        return {}
    questions = parse_questions(asked.input)
    if len(texts) != max(len(questions), 1):
        many = f", {len(questions)} times, one for each" if len(questions) > 1 else ""
        raise Invalid("--answer", f"{asked.id} is a question; say --answer TEXT{many}")
    keys = [each.key for each in questions] or [asked.name]
    return {"answers": dict(zip(keys, texts, strict=True))}
