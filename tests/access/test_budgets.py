"""Money as people write and read it, and what is said of budgets."""

import pytest

from gatepost.access.budgets import render_denial, render_notice
from gatepost.core.clock import Period
from gatepost.core.errors import Invalid
from gatepost.core.money import parse_usd, render_about_usd, render_usd
from gatepost.inside.provider_errors import find_budget
from gatepost.store.money.budgets import BudgetNotice, BudgetScope, BudgetScopeKind, BudgetStatus, Cap, CapSpan
from gatepost.store.money.reservations import BudgetDenial

MIDNIGHT = 1_794_787_200_000_000  # 2026-11-16


def make_status(
    spent: int, *, reserved: int = 0, kind: BudgetScopeKind = BudgetScopeKind.GROUP, name: str = "acme"
) -> BudgetStatus:
    return BudgetStatus(
        BudgetScope(kind, name), Period.DAY, 1_000_000, spent, reserved, MIDNIGHT - 86_400_000_000, MIDNIGHT
    )


@pytest.mark.parametrize(
    ("written", "micro"),
    [("1", 1_000_000), ("2.50", 2_500_000), (" $0.1 ", 100_000), ("0", 0), (0.1, 100_000), ("0.0000001", 1), (1e-9, 1)],
)
def test_an_amount_is_read_exactly_and_never_vanishes(written: str | float, micro: int) -> None:
    assert parse_usd(written, "daily") == micro


@pytest.mark.parametrize(
    ("micro", "shown"),
    [
        (0, "$0.00"),
        (1, "$0.000001"),
        (49, "$0.000049"),
        (155_049, "$0.155"),
        (999_990, "$1.00"),
        (16_099_996, "$16.10"),
        (1_234_500, "$1.23"),
    ],
)
def test_an_amount_for_a_glance_is_short_and_never_nothing(micro: int, shown: str) -> None:
    assert render_about_usd(micro) == shown


@pytest.mark.parametrize("written", ["", "much", "-1", "nan", "inf", "1e40", "1,5", "10000000000", -0.01])
def test_what_is_no_amount_is_named(written: str | float) -> None:
    with pytest.raises(Invalid, match="daily: "):
        parse_usd(written, "daily")


@pytest.mark.parametrize(
    ("micro", "shown"),
    [(0, "$0.00"), (1, "$0.000001"), (500_000, "$0.50"), (1_234_500, "$1.2345"), (12 * 10**6, "$12.00")],
)
def test_an_amount_is_shown_with_the_digits_it_takes(micro: int, shown: str) -> None:
    assert render_usd(micro) == shown
    assert parse_usd(shown, "x") == micro


def test_a_refusal_says_whose_budget_how_much_and_until_when() -> None:
    told = render_denial(BudgetDenial(make_status(990_000), 50_000, busy=False))

    assert "Today's budget of acme" in told
    assert "$0.99 of $1.00 spent" in told and "$0.05" in told
    assert "2026-11-16 at 00:00 UTC" in told


def test_a_refusal_for_calls_in_flight_says_that_it_passes() -> None:
    told = render_denial(BudgetDenial(make_status(100_000, reserved=900_000), 50_000, busy=True))

    assert "$0.90 set aside" in told and "try again" in told


def test_a_notice_is_honest_about_what_is_left() -> None:
    assert (
        render_notice(BudgetNotice(80, make_status(810_000)))
        == "Today's budget of acme is nearly spent: $0.81 of $1.00."
    )
    assert "is spent: $1.00 of $1.00. It starts anew" in render_notice(BudgetNotice(100, make_status(1_000_000)))
    small = render_notice(BudgetNotice(100, make_status(600_000, kind=BudgetScopeKind.INSTANCE, name="")))
    assert small.startswith("Today's budget of this gateway is too small") and "$0.60 of $1.00 are spent" in small


def make_capped(cap: Cap) -> BudgetStatus:
    kind = BudgetScopeKind.SESSION if cap.span is CapSpan.SESSION else BudgetScopeKind.TURN
    return BudgetStatus(BudgetScope(kind, "x-1"), cap.span, cap.micro, 450_000, 0, 0, 0, cap=cap)


@pytest.mark.parametrize(
    ("cap", "command", "helps"),
    [
        (Cap(CapSpan.TURN, 500_000, "acme"), "budget set acme --turn", "Write again to go on"),
        (Cap(CapSpan.TURN, 500_000), "budget set --instance --turn", "Write again to go on"),
        (Cap(CapSpan.TASK, 500_000, "acme"), "budget set acme --task", "Whoever runs this gateway can raise it"),
        (Cap(CapSpan.TASK, 500_000, task="task-1"), "task set task-1 --max-cost", "Whoever runs this gateway"),
        (Cap(CapSpan.SESSION, 500_000, "acme"), "budget set acme --session", "/new starts a new one"),
    ],
)
def test_a_limit_says_the_command_to_the_agent_and_the_one_thing_that_helps_to_the_room(
    cap: Cap, command: str, helps: str
) -> None:
    status = make_capped(cap)
    told = render_denial(BudgetDenial(status, 100_000, busy=False))
    assert "$0.45 of $0.50 spent, and it may cost $0.10" in told and told.endswith(f"`gatepost {command} USD`")
    assert find_budget(told) == told  # CLI agents put words around it
    assert "limit of $0.50" in (said := render_notice(BudgetNotice(100, status))) and helps in said
