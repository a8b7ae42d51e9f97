"""ask_user_question: what it takes, and what it says about the rest."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatepost.core.errors import Invalid
from gatepost.core.registry import load_package
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.tools.questions import UserQuestion, make_input
from gatepost_testing.gate_agent import GateAgent

load_package("gatepost.tools")

OPTIONS = [{"label": "Tea"}, {"label": "Coffee"}]
DRINK: dict[str, Any] = {"question": "Which drink?", "options": OPTIONS}


def check(*questions: dict[str, Any]) -> dict[str, Any]:
    return make_input([msgspec.convert(each, UserQuestion) for each in questions])


def test_what_is_asked_is_kept_clean_and_a_question_without_options_takes_own_words() -> None:
    made = check({**DRINK, "header": " a\nb ", "default": "2"}, {"question": "Who?"})
    first, second = made["questions"]
    assert (first["header"], first["default"], first["freeText"]) == ("a b", "Coffee", False)
    assert (second["options"], second["freeText"]) == ([], True)


@pytest.mark.parametrize(
    ("questions", "why"),
    [
        ([], "questions: has 0 items; 1 to 4 are possible"),
        ([DRINK] * 5, "questions: has 5 items"),
        ([DRINK, DRINK], "have the same question twice: 'Which drink?'"),
        ([{**DRINK, "header": "h"}, {"question": "?", "header": "h"}], "have the same header twice"),
        ([{"question": " "}], "questions: item 1: question: has 0 characters"),
        ([{"question": "x" * 1001}], "has 1001 characters; 1 to 1000 are possible"),
        ([{**DRINK, "options": [{"label": str(at) + "x"} for at in range(9)]}], "options: has 9 items; 8 are possible"),
        ([{**DRINK, "options": [{"label": "a"}, {"label": "A"}]}], "has 'A' twice"),
        ([{**DRINK, "options": [{"label": "2"}, {"label": "1"}]}], "which is the number of another"),
        ([{**DRINK, "options": [{"label": "x" * 61}]}], "item 1: label: has 61 characters"),
        ([{**DRINK, "options": [], "multiSelect": True}], "several can be chosen of two or more"),
        ([{**DRINK, "default": "water"}], "default: 'water' is none of the options"),
    ],
)
def test_what_people_could_not_answer_is_refused_with_the_way_out(questions: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(Invalid) as refused:
        check(*questions)
    assert why in str(refused.value)


def test_options_may_be_plain_texts() -> None:
    assert check({"question": "Which?", "options": ["Tea", "Coffee"]}) == check(
        {"question": "Which?", "options": [{"label": "Tea"}, {"label": "Coffee"}]}
    )


async def test_one_question_may_be_given_with_its_title_and_plain_options(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store)
    one: dict[str, Any] = {"title": "Deploy", "question": "Approve deployment?", "options": ["Yes", "No", "Defer"]}
    assert "nobody can be asked here" in (await agent.call("ask_user_question", **one)).text
    assert "give either questions" in (await agent.call("ask_user_question", questions=[DRINK], **one)).text
    assert "has 0 items" in (await agent.call("ask_user_question")).text


async def test_without_anybody_to_ask_it_says_so(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store)
    answer = await agent.call("ask_user_question", questions=[DRINK])
    assert answer.failed and "nobody can be asked here" in answer.text


@pytest.mark.parametrize("timeout", [0, -1, 86401, 1e300])
async def test_it_waits_no_longer_than_any_request(tmp_path: Path, store: SqliteStore, timeout: float) -> None:
    agent = await GateAgent.create(tmp_path, store)
    answer = await agent.call("ask_user_question", questions=[DRINK], timeout=timeout)
    assert answer.failed and "seconds; 1 to 86400 are possible" in answer.text


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"questions": [{"question": "Which?", "choices": []}]}, "unknown field `choices`"),
        ({"questions": [{}]}, "each has question, header, options, multiSelect, freeText, default"),
        ({"question": "Which?", "options": [{"name": "Tea"}]}, "each is a text, or has label and description"),
    ],
)
async def test_a_question_that_does_not_fit_is_refused_with_its_fields(
    given: dict[str, Any], words: str, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store)
    answer = await agent.call("ask_user_question", **given)
    assert answer.failed and words in answer.text
