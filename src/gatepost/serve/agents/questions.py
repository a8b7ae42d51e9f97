"""An answer to a question, in the shape in which whoever asks takes one. Pure."""

from collections.abc import Mapping
from typing import Any

from gatepost.core.errors import Invalid
from gatepost.flow.requests.choices import GROUP
from gatepost.flow.requests.questions import ANSWERS, AgentQuestion, find_choice, find_own_words, parse_questions
from gatepost.serve.control.arguments.agents import PendingRequest
from gatepost.store.rights.requests import RequestKind

HOW_TO_ANSWER = 'a question is answered by {"answers": {"the question": "your answer"}}'


def make_answers(asked: PendingRequest, texts: list[str]) -> dict[str, Any]:
    """Return what a question is allowed with, or the group that is chosen for a room; nothing for what is neither."""
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
    return {ANSWERS: dict(zip(keys, texts, strict=True))}


def check_answers(asked: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Answers as people in a chat would have given them: each question has one, by its key or its own words, and an
    option's number or beginning means the option."""
    answers = given.get(ANSWERS)
    if not isinstance(answers, Mapping):
        raise Invalid("updatedInput", HOW_TO_ANSWER)
    return {ANSWERS: {each.key: _check_answer(each, answers) for each in parse_questions(asked)}}


def _check_answer(question: AgentQuestion, answers: Mapping[str, Any]) -> str:
    text = answers.get(question.key, answers.get(question.text))
    if not isinstance(text, str):
        raise Invalid("updatedInput", f"the question {question.key!r} has no answer")
    found = find_choice(question, text) or find_own_words(question, text)
    if found is None:
        raise Invalid("answer", f"{text[:60]!r} does not answer {question.key!r}; {', '.join(question.options)} do")
    return found
