"""Budgets: who pays, what is left, and what people hear once."""

from datetime import UTC, datetime

import pytest

from gatepost.core.clock import DAY, HOUR, Period, start_of_period
from gatepost.store.money import budgets, costs, reservations
from gatepost.store.money.budgets import BudgetNotice, BudgetScope, BudgetScopeKind
from gatepost.store.money.costs import NewCost, TokenCounts
from gatepost.store.money.reservations import BudgetDenial, BudgetReservation
from gatepost.store.port import Db

NOON = int(datetime(2026, 11, 15, 12, tzinfo=UTC).timestamp()) * 1_000_000
ADA = "telegram:user/9"
USD = 1_000_000
INSTANCE = BudgetScope(BudgetScopeKind.INSTANCE)


def group(folder: str) -> BudgetScope:
    return BudgetScope(BudgetScopeKind.GROUP, folder)


def limit(db: Db, scope: BudgetScope, micro: int | None, period: Period = Period.DAY) -> None:
    budgets.put(db, scope, period, micro, "operator", NOON)


def spend(db: Db, micro: int, folder: str = "acme", *, at: int = NOON, user: str = "") -> tuple[BudgetNotice, ...]:
    """A call that costs exactly what was set aside; what people hear of it."""
    held = reservations.reserve(db, folder, user, "s-1", "t-1", "m", micro, at)
    assert isinstance(held, BudgetReservation), held
    settled = reservations.settle(db, held.id, micro, TokenCounts(), at)
    assert settled is not None
    return held.notes + settled.notes


def ask(
    db: Db, micro: int, folder: str = "acme", *, at: int = NOON, user: str = ""
) -> BudgetReservation | BudgetDenial:
    return reservations.reserve(db, folder, user, "s-1", "t-1", "m", micro, at)


def told(notes: tuple[BudgetNotice, ...]) -> list[tuple[int, BudgetScope, Period]]:
    return [(note.percent, note.status.scope, note.status.period) for note in notes]


def test_a_group_its_parents_the_user_and_the_instance_pay() -> None:
    assert budgets.list_scopes("acme/eng/sre", ADA) == (
        group("acme/eng/sre"),
        group("acme/eng"),
        group("acme"),
        BudgetScope(BudgetScopeKind.USER, ADA),
        INSTANCE,
    )
    assert budgets.list_scopes("root", "") == (group("root"), INSTANCE)


def test_without_a_budget_there_is_no_limit(db: Db) -> None:
    assert budgets.get_remaining(db, "acme", ADA, NOON) is None
    assert isinstance(ask(db, 10**14), BudgetReservation)


def test_arizuko_30_what_is_left_is_the_least_of_all_up_the_tree(db: Db) -> None:
    limit(db, group("acme/eng"), 5 * USD)
    limit(db, group("acme"), 3 * USD)
    limit(db, BudgetScope(BudgetScopeKind.USER, ADA), 2 * USD)
    limit(db, INSTANCE, 1 * USD, Period.MONTH)

    assert budgets.get_remaining(db, "acme/eng", ADA, NOON) == 1 * USD
    limit(db, INSTANCE, None, Period.MONTH)
    assert budgets.get_remaining(db, "acme/eng", ADA, NOON) == 2 * USD
    assert budgets.get_remaining(db, "acme/eng", None, NOON) == 3 * USD
    assert budgets.get_remaining(db, "other", "", NOON) is None


def test_a_child_spends_its_parents_money_and_a_neighbour_does_not(db: Db) -> None:
    limit(db, group("acme"), 1 * USD)
    spend(db, 600_000, "acme/eng/sre")
    spend(db, 900_000, "acmeish")

    assert budgets.get_remaining(db, "acme", "", NOON) == 400_000
    denied = ask(db, 400_001, "acme/sales")
    assert isinstance(denied, BudgetDenial) and denied.status.scope == group("acme")
    assert isinstance(ask(db, 400_000, "acme/sales"), BudgetReservation)


def test_a_person_has_one_budget_in_all_groups(db: Db) -> None:
    limit(db, BudgetScope(BudgetScopeKind.USER, ADA), 1 * USD)
    spend(db, 700_000, "acme", user=ADA)

    assert isinstance(ask(db, 400_000, "other", user=ADA), BudgetDenial)
    assert isinstance(ask(db, 400_000, "other", user="telegram:user/10"), BudgetReservation)


def test_the_instance_pays_for_everybody(db: Db) -> None:
    limit(db, INSTANCE, 1 * USD)
    spend(db, 700_000, "acme")

    denied = ask(db, 400_000, "root")
    assert isinstance(denied, BudgetDenial) and denied.status.scope == INSTANCE


def test_a_budget_that_is_set_at_noon_counts_the_morning(db: Db) -> None:
    spend(db, 900_000, at=NOON - 6 * HOUR)
    limit(db, group("acme"), 1 * USD)

    assert budgets.get_remaining(db, "acme", "", NOON) == 100_000


def test_a_day_begins_at_midnight_utc_and_the_month_goes_on(db: Db) -> None:
    limit(db, group("acme"), 1 * USD)
    limit(db, group("acme"), 1_500_000, Period.MONTH)
    midnight = NOON + 12 * HOUR
    spend(db, 1 * USD, at=midnight - 1)

    assert budgets.get_remaining(db, "acme", "", midnight - 1) == 0
    assert budgets.get_remaining(db, "acme", "", midnight) == 500_000
    denied = ask(db, 500_001, at=midnight)
    assert isinstance(denied, BudgetDenial) and denied.status.period is Period.MONTH


def test_a_month_begins_on_the_first(db: Db) -> None:
    limit(db, group("acme"), 1 * USD, Period.MONTH)
    december = int(datetime(2026, 12, 1, tzinfo=UTC).timestamp()) * 1_000_000
    spend(db, 1 * USD, at=december - 1)

    assert budgets.get_remaining(db, "acme", "", december - 1) == 0
    assert budgets.get_remaining(db, "acme", "", december) == 1 * USD


def test_a_call_over_midnight_counts_in_the_day_in_which_it_was_let_through(db: Db) -> None:
    limit(db, group("acme"), 1 * USD)
    midnight = NOON + 12 * HOUR
    held = ask(db, 1 * USD, at=midnight - 1)
    assert isinstance(held, BudgetReservation)

    assert isinstance(ask(db, 1 * USD, at=midnight), BudgetReservation)  # another day, another dollar
    settled = reservations.settle(db, held.id, 900_000, TokenCounts(), midnight + HOUR)

    assert settled is not None and settled.notes == ()  # yesterday's 90 % are nobody's news
    assert budgets.get_remaining(db, "acme", "", midnight - 1) == 100_000
    assert [(day.key, day.micro) for day in costs.list_sums(db, "day")] == [("2026-11-15", 900_000)]


def test_the_note_at_80_percent_is_given_once_in_a_period(db: Db) -> None:
    limit(db, group("acme"), 1 * USD)

    assert spend(db, 799_999) == ()
    assert told(spend(db, 1)) == [(80, group("acme"), Period.DAY)]
    assert spend(db, 1) == ()
    assert told(spend(db, 850_000, at=NOON + DAY)) == [(80, group("acme"), Period.DAY)]


def test_the_message_at_the_end_is_given_once_in_a_period(db: Db) -> None:
    limit(db, group("acme"), 1 * USD)
    assert told(spend(db, 1 * USD)) == [(100, group("acme"), Period.DAY)]  # and none at 80 % on the way

    denied = ask(db, 1)
    assert isinstance(denied, BudgetDenial) and denied.notes == ()
    assert not denied.busy


def test_the_first_refusal_tells_people_and_the_next_does_not(db: Db) -> None:
    limit(db, group("acme"), 1 * USD)
    spend(db, 950_000)

    first, second = ask(db, 60_000), ask(db, 60_000)

    assert isinstance(first, BudgetDenial) and told(first.notes) == [(100, group("acme"), Period.DAY)]
    assert isinstance(second, BudgetDenial) and second.notes == ()


def test_a_refusal_that_calls_in_flight_are_the_reason_of_tells_nobody(db: Db) -> None:
    limit(db, group("acme"), 1 * USD)
    held = ask(db, 900_000)
    assert isinstance(held, BudgetReservation)

    denied = ask(db, 200_000)
    assert isinstance(denied, BudgetDenial) and denied.busy and denied.notes == ()

    reservations.settle(db, held.id, 10_000, TokenCounts(), NOON)
    assert isinstance(ask(db, 200_000), BudgetReservation)


def test_each_budget_has_its_own_notes(db: Db) -> None:
    limit(db, group("acme"), 1 * USD)
    limit(db, INSTANCE, 1 * USD, Period.MONTH)

    assert told(spend(db, 850_000, "acme/eng")) == [(80, group("acme"), Period.DAY), (80, INSTANCE, Period.MONTH)]


def test_a_budget_that_was_changed_is_told_of_anew_and_the_same_again_is_not(db: Db) -> None:
    limit(db, group("acme"), 1 * USD)
    spend(db, 1 * USD)

    limit(db, group("acme"), 1 * USD)
    assert isinstance(denied := ask(db, 1), BudgetDenial) and denied.notes == ()
    limit(db, group("acme"), 2 * USD)
    assert spend(db, 500_000) == ()
    assert [percent for percent, _, _ in told(spend(db, 100_000))] == [80]


def test_a_budget_of_nothing_stops_everything_that_costs(db: Db) -> None:
    limit(db, group("acme"), 0)

    denied = ask(db, 1)
    assert isinstance(denied, BudgetDenial) and told(denied.notes) == [(100, group("acme"), Period.DAY)]
    assert isinstance(ask(db, 0), BudgetReservation)
    assert reservations.find_spent_budget(db, "acme", "", NOON) is None  # what costs nothing may still be used


def test_the_budget_that_lasts_longest_is_named(db: Db) -> None:
    limit(db, group("acme"), 1 * USD)
    limit(db, group("acme"), 1 * USD, Period.MONTH)
    spend(db, 1 * USD)

    denied = ask(db, 1)
    assert isinstance(denied, BudgetDenial) and denied.status.period is Period.MONTH


def test_a_spent_budget_starts_nothing_and_says_so_once(db: Db) -> None:
    limit(db, group("acme"), 1 * USD)
    assert reservations.find_spent_budget(db, "acme/eng", ADA, NOON) is None
    costs.add_external(db, NewCost(key="c", at=NOON, folder="acme", model="x:y", micro=2 * USD), NOON)

    first, second = (reservations.find_spent_budget(db, "acme/eng", ADA, NOON) for _ in range(2))

    assert first is not None and told(first.notes) == [(100, group("acme"), Period.DAY)]
    assert second is not None and second.notes == ()
    assert reservations.find_spent_budget(db, "acme/eng", ADA, NOON + DAY) is None


def test_all_budgets_are_listed_the_gateways_first(db: Db) -> None:
    limit(db, BudgetScope(BudgetScopeKind.USER, ADA), 1 * USD)
    limit(db, group("acme"), 2 * USD)
    limit(db, INSTANCE, 3 * USD)
    spend(db, 500_000, "acme/eng")

    assert [(each.scope, each.limit, each.left) for each in budgets.list_all(db, NOON)] == [
        (INSTANCE, 3 * USD, 2_500_000),
        (group("acme"), 2 * USD, 1_500_000),
        (BudgetScope(BudgetScopeKind.USER, ADA), 1 * USD, 1 * USD),
    ]


@pytest.mark.parametrize("micro", [0, 1 * USD, 2 * USD, None])
def test_a_limit_that_is_set_anew_ends_what_was_added_to_it(db: Db, micro: int | None) -> None:
    limit(db, group("acme"), 1 * USD)
    limit(db, group("acme"), 5 * USD, Period.MONTH)
    for period in Period:
        budgets.raise_limit(db, group("acme"), period, start_of_period(period, NOON), 250_000)
    assert budgets.put(db, group("acme"), Period.DAY, micro, "operator", NOON) == 250_000
    assert budgets.put(db, group("acme"), Period.DAY, 0, "operator", NOON) == 0
    found = {each.period: (each.limit, each.raised) for each in budgets.list_all(db, NOON)}
    assert found == {Period.DAY: (0, 0), Period.MONTH: (5_250_000, 250_000)}
