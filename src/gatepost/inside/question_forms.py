"""Questions of coding agents in the gateway's form, and its answers in theirs. Pure.

Each question has a `question`, and may have a `header`, `options` with `label` and `description`, `multiSelect` and
`freeText`. An answer is known by the header, or by the question's own words where there is none or it is not the only
one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]


def render_questions(asked: object, *, many: str, own_words: str) -> dict[str, Any]:
    """`many` and `own_words`: how the agent names these two. Empty if nothing is asked."""
    listed = [each for each in asked if isinstance(each, Mapping)] if isinstance(asked, list) else []
    made = [_render_question(each, many, own_words) for each in listed if isinstance(each.get("question"), str)]
    return {"questions": made} if made else {}


def _render_question(asked: Json, many: str, own_words: str) -> dict[str, Any]:
    options = asked.get("options")
    return {
        "question": asked["question"],
        "header": asked.get("header") or "",
        "options": [
            {"label": str(each.get("label") or ""), "description": str(each.get("description") or "")}
            for each in (options if isinstance(options, list) else [])
            if isinstance(each, Mapping)
        ],
        "multiSelect": asked.get(many) is True,
        "freeText": asked.get(own_words) is not False,
    }


def list_answers(asked: Sequence[Json], given: Json) -> list[str]:
    """One for each question, '' where there is none."""
    answers = given.get("answers")
    known: Json = answers if isinstance(answers, Mapping) else {}
    headers: set[str] = set()
    found: list[str] = []
    for each in asked:
        header, text = str(each.get("header") or ""), str(each.get("question") or "")
        named = known.get(header) if header and header not in headers else None
        headers.add(header)
        found.append(str(named if named is not None else known.get(text) or ""))
    return found


def split_answer(asked: Json, answer: str) -> list[str]:
    """The labels that an answer names, where several could be chosen; else the answer itself."""
    labels = [str(each.get("label") or "") for each in asked.get("options") or () if isinstance(each, Mapping)]
    chosen = answer.split(", ")
    return chosen if all(each in labels for each in chosen) else [answer]
