"""What people are told when a message could not be answered."""

import pytest

from gatepost.flow.notices import render_failure, render_refused_hosts

WHY = (
    "Today's budget of home has no room for this call: $0.46 of $1.00 spent, and it may cost $0.74. It starts anew on"
    " 2026-11-16 at 00:00 UTC; an operator can raise it with `gatepost budget set`"
)


def test_a_budget_is_named_with_its_end_and_the_way_to_raise_it() -> None:
    told = render_failure(WHY, "budget", 1)

    assert told.startswith("Sorry, I could not answer your message: today's budget of home has no room for this call")
    assert "2026-11-16 at 00:00 UTC" in told and "`gatepost budget set`. Send it again then." in told
    assert "account" not in told and "quota" not in told


def test_an_account_without_quota_is_the_vendors() -> None:
    assert "the agent's account with the model's vendor has no quota left" in render_failure("billing", "quota", 2)


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [
        ("auth", "needs to renew its key"),
        ("quota", "can raise it"),
        ("overload", "Send it again in a few minutes"),
        ("network", "Send it again in a few minutes"),
        ("refusal", "Say it in another way"),
        ("overflow", "Send it in smaller parts"),
    ],
)
def test_each_kind_of_trouble_has_one_thing_that_helps_and_no_internals(kind: str, remedy: str) -> None:
    told = render_failure("the model's endpoint at 10.0.0.7:8080 said: Overloaded (req_1)", kind, 1)

    assert told.startswith("Sorry, I could not answer your message: ") and remedy in told
    assert "10.0.0.7" not in told and "req_1" not in told


@pytest.mark.parametrize(("kind", "named"), [("fatal", True), ("network", True), ("auth", False), ("budget", False)])
def test_refused_hosts_are_named_where_they_can_be_the_reason(kind: str, named: bool) -> None:
    told = render_refused_hosts(["files.example.com:443", "x.example.com:443"], kind)
    assert ("refused `files.example.com:443`, `x.example.com:443`" in told) is named
    assert render_refused_hosts([], kind) == ""
