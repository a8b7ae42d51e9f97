"""Why a message has no answer: a table of cases, no store."""

import re
from typing import Any

import pytest

from gatepost.access.budgets import NO_ROOM
from gatepost.core.clock import HOUR, MINUTE
from gatepost.flow.intake.message_outcome import SENTENCES
from gatepost.flow.missing_answer import (
    LISTENS,
    NOBODY,
    MessageFacts,
    MissingAnswer,
    explain,
    explain_missing,
)
from gatepost.flow.reports import SafeStep
from gatepost.store.messages.inbox import InboxMode, InboxState
from gatepost.store.rights.requests import RequestKind
from gatepost.store.rights.switches import Switch

NOON = 1_800_000_000_000_000
PANIC = Switch("panic", "smoke", "op", NOON)
REST = Switch("rest:acme", "too loud", "op", NOON)
SPENT = f"Today's budget of acme {NO_ROOM}: $1 of $2"
CASES: list[tuple[str, dict[str, Any], str, SafeStep | None, str]] = [
    (
        "money",
        {"state": "held", "request": "budget", "more": "$2.00"},
        "no money left",
        SafeStep.ANSWER,
        "Allow $2.00 more",
    ),
    ("a price", {"state": "held", "request": "price"}, "what the model of Acme costs", SafeStep.ANSWER, "Decide"),
    ("a stranger", {"state": "held", "request": "sender"}, "is not let in to Acme yet", SafeStep.ANSWER, "Let in"),
    (
        "a new room",
        {"state": "held", "request": "room"},
        "No agent answers in this chat yet",
        SafeStep.ANSWER,
        "Decide",
    ),
    ("a call", {"state": "working", "request": "call"}, "waits for a decision before", SafeStep.ANSWER, "Decide"),
    ("a restore", {"state": "held", "request": "restored"}, "It waits for a decision.", SafeStep.ANSWER, "Decide"),
    ("a panic", {"state": "queued", "stop": PANIC}, "Everything is stopped here", SafeStep.GO_ON, "Go on"),
    ("a rest", {"state": "retry", "stop": REST}, "Acme is at rest", SafeStep.WAKE, "Wake it"),
    ("the next", {"state": "queued"}, "It is next: Acme begins", None, ""),
    ("the third", {"state": "queued", "ahead": 2}, "It is third in line", None, ""),
    ("the ninth", {"state": "retry", "ahead": 8}, "It is number 9 in line", None, ""),
    (
        "another try",
        {"state": "retry", "reason": "no disk", "next_at": NOON + 2 * MINUTE},
        "Acme could not do it: no disk. It is tried again in 2 minutes.",
        SafeStep.TRACE,
        "See what happened",
    ),
    ("work", {"state": "working"}, "Acme has been at work on it for 1 hour.", None, ""),
    (
        "a failure",
        {"state": "failed", "reason": "no key"},
        "Acme failed 1 hour ago: no key.",
        SafeStep.RETRY,
        "Try again",
    ),
    (
        "a failure with a command in it",
        {"state": "failed", "reason": "it has no key; set one with `gatepost secret set X`"},
        "Acme failed 1 hour ago: it has no key.",
        SafeStep.RETRY,
        "Try again",
    ),
    (
        "a failure of a conversation that is over",
        {"state": "failed", "is_open": False},
        "Acme failed 1 hour ago.",
        SafeStep.TRACE,
        "See what happened",
    ),
    ("a failed task", {"state": "failed", "mode": InboxMode.TASK}, "Acme failed", SafeStep.TRACE, "See what happened"),
    (
        "a refused call",
        {"state": "failed", "reason": SPENT},
        "There was no money left",
        SafeStep.RAISE,
        "Raise the limit",
    ),
    (
        "no money",
        {"state": "refused", "reason": "budget_spent"},
        "had no money left",
        SafeStep.RAISE,
        "Raise the limit",
    ),
    (
        "an unknown sender",
        {"state": "refused", "reason": "unknown_sender_strict"},
        "This agent does not know you",
        SafeStep.TRACE,
        "See what happened",
    ),
    ("a long text", {"state": "refused", "reason": "text_too_long"}, "It is longer than", None, ""),
    ("no route", {"state": "refused", "reason": "no_route"}, "No agent is set up for this chat", None, ""),
    ("a stop", {"state": "cancelled", "reason": "stopped by web:user/x"}, "It was stopped", None, ""),
    ("silence", {"state": "silent"}, "chose to say nothing", None, ""),
    ("not mentioned", {"state": "observed", "mode": InboxMode.OBSERVE}, LISTENS, None, ""),
    ("an answer", {"state": "answered"}, "Acme has answered it.", None, ""),
]


def make_facts(**given: Any) -> MessageFacts:
    asks = "request" in given
    kinds = {"state": InboxState(given.pop("state"))}
    kinds |= {"request": RequestKind(given.pop("request")), "request_id": "p-1"} if asks else {}
    return MessageFacts(message_id=42, agent="Acme", since=NOON - HOUR, **kinds, **given)


@pytest.mark.parametrize(
    ("given", "text", "step", "label"), [each[1:] for each in CASES], ids=[each[0] for each in CASES]
)
def test_a_case_of_the_table(given: dict[str, Any], text: str, step: SafeStep | None, label: str) -> None:
    found = explain(make_facts(**given), NOON)
    assert text in found.text
    assert (found.step.step if found.step else None, found.label) == (step, label)


OTHERS = ["`gatepost up`", "see `gatepost logs`", "x" * 9000, "a\nb"]
SAID = [(state, reason) for state in InboxState for reason in (SENTENCES if state is InboxState.REFUSED else OTHERS)]


@pytest.mark.parametrize(("state", "reason"), SAID)
def test_no_sentence_has_a_command_an_id_or_the_name_of_a_state(state: InboxState, reason: str) -> None:
    found = explain(make_facts(state=state, reason=reason), NOON)
    assert found.text.endswith(".") and len(found.text) < 400
    assert not re.search(r"`|gatepost |[a-z]_[a-z]|\bp-|\b42\b", found.text + found.label)


def test_of_several_agents_the_one_is_told_of_that_somebody_can_do_most_about() -> None:
    answered, fails = make_facts(state="answered"), make_facts(state="failed")
    asks, waits = make_facts(state="held", request="sender"), make_facts(state="queued")
    assert explain_missing([answered, waits, fails, asks], NOON) == explain(asks, NOON)
    assert explain_missing([answered, waits, fails], NOON) == explain(fails, NOON)
    assert explain_missing([], NOON) == MissingAnswer(NOBODY)
