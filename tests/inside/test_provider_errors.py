"""What an endpoint answers instead of an answer, and which class of error that is."""

import json

import pytest

from gatepost.access.budgets import render_denial
from gatepost.core.clock import Period
from gatepost.inside.provider_errors import parse_provider_error
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind, BudgetStatus
from gatepost.store.money.reservations import BudgetDenial

SPENT = BudgetStatus(
    BudgetScope(BudgetScopeKind.GROUP, "home"), Period.DAY, 1_000_000, 460_000, 0, 0, 1_800_000_000_000
)
BUDGET = render_denial(BudgetDenial(SPENT, 740_000, busy=False))


def anthropic(kind: str, message: str = "words") -> bytes:
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()


def openai(code: str | None, message: str = "words") -> bytes:
    return json.dumps({"error": {"message": message, "type": "x", "code": code, "param": None}}).encode()


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, anthropic("authentication_error"), "auth"),
        (401, b"", "auth"),
        (400, openai("invalid_api_key"), "auth"),
        (402, anthropic("billing_error"), "quota"),
        (402, anthropic("billing_error", f"gatepost: {BUDGET}"), "budget"),
        (402, f"API Error: 402 gatepost: {BUDGET}".encode(), "budget"),
        (429, openai("insufficient_quota", f"gatepost: {BUDGET}"), "budget"),
        (429, openai("insufficient_quota"), "quota"),
        (400, anthropic("invalid_request_error", "Your credit balance is too low to go on"), "quota"),
        (429, openai(None, "Your prepayment credits are depleted. Please go to AI Studio"), "quota"),  # Google
        (400, b"Credit balance is too low", "quota"),  # as Claude Code says it
        (429, anthropic("rate_limit_error"), "overload"),
        (429, openai("rate_limit_exceeded"), "overload"),
        (529, anthropic("overloaded_error"), "overload"),
        (503, b"<html>not json</html>", "overload"),
        (0, anthropic("overloaded_error"), "overload"),
        (500, anthropic("api_error"), "retryable"),
        (0, anthropic("invalid_request_error"), "fatal"),
        (400, anthropic("invalid_request_error"), "fatal"),
        (403, anthropic("permission_error"), "fatal"),
        (403, anthropic("permission_error", "gatepost: the model's endpoint refuses the gateway's key; look"), "auth"),
        (404, openai(None), "fatal"),
        (418, b'{"error": "a teapot"}', "fatal"),
    ],
)
def test_every_answer_has_a_class(status: int, body: bytes, kind: str) -> None:
    assert parse_provider_error(status, body).kind == kind


def test_what_the_endpoint_says_is_passed_on_in_one_short_line() -> None:
    trouble = parse_provider_error(403, anthropic("permission_error", "no\nprice " + "x" * 1000))

    assert "no price xxx" in trouble.message and len(trouble.message) < 600


def test_only_a_refusal_of_what_was_asked_is_about_the_input() -> None:
    assert parse_provider_error(400, b"{}").about_input and parse_provider_error(413, b"").about_input
    assert not parse_provider_error(403, b"").about_input and not parse_provider_error(500, b"").about_input


def test_of_a_budget_the_gateways_own_sentence_is_left_alone() -> None:
    assert parse_provider_error(402, f"API Error: 402 gatepost: {BUDGET} · see /doctor".encode()).message == BUDGET


@pytest.mark.parametrize(
    "said", ["'m' has no price, so it is not called", "mcp_servers is not passed on to the vendor"]
)
def test_what_the_gateway_refuses_is_nobodys_key_and_no_fault_of_a_file(said: str) -> None:
    trouble = parse_provider_error(400, anthropic("invalid_request_error", f"API Error: 400 gatepost: {said}"))

    assert trouble.message == f"the gateway does not pass this on: {said}"
    assert (trouble.kind, trouble.about_input) == ("fatal", False)
