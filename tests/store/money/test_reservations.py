"""Reservations: calls that come together cannot pass a budget together, and nothing is forgotten."""

import asyncio
import random
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepost.core.clock import Period
from gatepost.core.errors import Invalid
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.money import budgets, costs, reservations
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind
from gatepost.store.money.costs import TokenCounts
from gatepost.store.money.reservations import BudgetDenial, BudgetReservation, CostSettlement
from gatepost.store.port import Db
from gatepost.store.postgres.postgres_store import PostgresStore
from gatepost_testing.empty_database import EmptyDatabase

NOON = int(datetime(2026, 11, 15, 12, tzinfo=UTC).timestamp()) * 1_000_000
USD = 1_000_000
ADA = "telegram:user/9"
ACME = BudgetScope(BudgetScopeKind.GROUP, "acme")
FOLDERS = ("acme", "acme/eng", "acme/eng/sre", "acme/sales")
SCOPES = (
    BudgetScope(BudgetScopeKind.INSTANCE),
    *(BudgetScope(BudgetScopeKind.GROUP, folder) for folder in FOLDERS),
    BudgetScope(BudgetScopeKind.USER, ADA),
)


def limit(db: Db, micro: int, scope: BudgetScope = ACME) -> None:
    budgets.put(db, scope, Period.DAY, micro, "operator", NOON)


def reserve(db: Db, micro: int, folder: str = "acme") -> BudgetReservation:
    held = reservations.reserve(db, folder, ADA, "s-1", "t-1", "claude", micro, NOON)
    assert isinstance(held, BudgetReservation)
    return held


def booked(db: Db) -> int:
    return sum(each.micro for each in costs.list_sums(db, "group"))


async def test_of_fifty_calls_at_once_only_those_pass_that_fit(store: SqliteStore) -> None:
    await store.write(limit, 1 * USD)

    answers = await asyncio.gather(
        *(
            store.write(reservations.reserve, "acme/eng", ADA, "s-1", f"t-{n}", "claude", 90_000, NOON)
            for n in range(50)
        )
    )

    assert sum(isinstance(answer, BudgetReservation) for answer in answers) == 11
    assert all(answer.busy for answer in answers if isinstance(answer, BudgetDenial))
    assert await store.read(budgets.get_remaining, "acme", ADA, NOON) == 10_000


async def call(store: SqliteStore, folder: str, worst: int, actual: int | None) -> bool:
    """One model call: set aside, made, settled; None is a call whose usage is never learnt."""
    held = await store.write(reservations.reserve, folder, ADA, "s-1", "t-1", "claude", worst, NOON)
    if isinstance(held, BudgetDenial):
        return False
    await asyncio.sleep(0)
    await store.write(reservations.settle, held.id, actual, TokenCounts(input=1), NOON)
    return True


@st.composite
def calls(draw: st.DrawFn) -> list[tuple[str, int, int | None]]:
    made = []
    for _ in range(50):
        worst = draw(st.integers(0, 400_000))
        made.append((draw(st.sampled_from(FOLDERS)), worst, draw(st.none() | st.integers(0, worst))))
    return made


@settings(max_examples=15, deadline=None)
@given(calls(), st.dictionaries(st.sampled_from(SCOPES), st.integers(0, 2 * USD), min_size=1), st.randoms())
def test_fifty_parallel_calls_never_pass_a_budget_together(
    empty_store: Path,
    in_memory: Path,
    made: list[tuple[str, int, int | None]],
    limits: dict[BudgetScope, int],
    shuffled: random.Random,
) -> None:
    """Over two stores on one file, as two processes would have them: the database keeps the promise."""
    shuffled.shuffle(made)

    async def run(path: Path) -> None:
        stores = [SqliteStore(path), SqliteStore(path)]
        try:
            for scope, micro in limits.items():
                await stores[0].write(limit, micro, scope)
            passed = await asyncio.gather(*(call(stores[n % 2], *each) for n, each in enumerate(made)))
            for status in await stores[1].read(budgets.list_all, NOON):
                assert status.spent <= status.limit
                assert status.reserved == 0
                assert status.spent == paid_by(status.scope, made, passed)
        finally:
            for each in stores:
                each.close()

    with TemporaryDirectory(dir=in_memory) as folder:
        asyncio.run(run(Path(shutil.copy(empty_store, folder))))


def paid_by(scope: BudgetScope, made: list[tuple[str, int, int | None]], passed: list[bool]) -> int:
    return sum(
        worst if actual is None else actual
        for (folder, worst, actual), done in zip(made, passed, strict=True)
        if done and scope in budgets.list_scopes(folder, ADA)
    )


def test_settling_books_what_it_cost_and_gives_the_rest_back(db: Db) -> None:
    limit(db, 1 * USD)
    held = reserve(db, 800_000, "acme/eng")

    usage = TokenCounts(input=10, output=20, cache_read=30, cache_write=40)
    assert reservations.settle(db, held.id, 100_000, usage, NOON) == CostSettlement(100_000)

    assert budgets.get_remaining(db, "acme", "", NOON) == 900_000
    [row] = costs.list_sums(db, "model")
    assert (row.key, row.calls, row.micro) == ("claude", 1, 100_000)
    assert (row.input, row.output, row.cache_read, row.cache_write) == (10, 20, 30, 40)


def test_a_call_is_settled_once(db: Db) -> None:
    held = reserve(db, 800_000)

    assert reservations.settle(db, held.id, 100_000, None, NOON) is not None
    assert reservations.settle(db, held.id, 100_000, None, NOON) is None
    assert reservations.settle(db, 999, 100_000, None, NOON) is None
    assert booked(db) == 100_000


@pytest.mark.parametrize("actual", [None, -1, 10**20])
def test_a_call_whose_cost_nobody_knows_is_booked_in_full(db: Db, actual: int | None) -> None:
    held = reserve(db, 800_000)

    assert reservations.settle(db, held.id, actual, TokenCounts(input=-5), NOON) == CostSettlement(800_000)
    assert db.row("SELECT micro, measured, input FROM costs") == (800_000, 0, 0)


def test_what_was_measured_is_booked_even_if_it_is_more_than_was_thought(db: Db) -> None:
    limit(db, 1 * USD)
    held = reserve(db, 900_000)

    settled = reservations.settle(db, held.id, 1_100_000, None, NOON)

    assert settled is not None and [note.percent for note in settled.notes] == [100]
    assert budgets.get_remaining(db, "acme", "", NOON) == 0


def test_an_estimate_is_told_from_a_measured_cost_and_has_its_tokens_beside_it(db: Db) -> None:
    first, second = reserve(db, 800_000), reserve(db, 800_000)
    reservations.settle(db, first.id, 20_000, TokenCounts(input=10, output=5), NOON, measured=False)
    reservations.settle(db, second.id, 30_000, TokenCounts(input=20, output=5), NOON)
    [row] = costs.list_sums(db, "model")
    assert (row.micro, row.estimated_micro, row.input) == (50_000, 20_000, 30)


def test_what_nobody_learnt_is_booked_with_the_tokens_that_were_set_aside(db: Db) -> None:
    tokens = TokenCounts(input=700, output=80)
    assert isinstance(reservations.reserve(db, "acme", ADA, "s", "t", "c", 9, NOON, tokens), BudgetReservation)
    assert reservations.settle_leftovers(db, NOON) == 1
    assert db.row("SELECT micro, measured, input, output FROM costs") == (9, 0, 700, 80)


def test_a_budget_says_that_it_refuses_until_a_call_fits_or_it_is_changed(db: Db) -> None:
    limit(db, 1 * USD)
    assert isinstance(reservations.reserve(db, "acme", ADA, "s", "t", "c", 2 * USD, NOON), BudgetDenial)
    assert [each.refuses for each in budgets.list_applicable(db, "acme", ADA, NOON)] == [True]
    reserve(db, 10)
    assert [each.refuses for each in budgets.list_applicable(db, "acme", ADA, NOON)] == [False]
    assert isinstance(reservations.reserve(db, "acme", ADA, "s", "t", "c", 2 * USD, NOON), BudgetDenial)
    limit(db, 3 * USD)
    assert [each.refuses for each in budgets.list_applicable(db, "acme", ADA, NOON)] == [False]


async def test_what_a_crash_left_is_booked_in_full_where_it_was_reserved(store_path: Path) -> None:
    store = SqliteStore(store_path)
    await store.write(limit, 1 * USD)
    for micro in (300_000, 400_000):
        await store.write(reserve, micro, "acme/eng")
    store.close()

    store = SqliteStore(store_path)
    tomorrow = NOON + 24 * 3600 * USD
    assert await store.write(reservations.settle_leftovers, tomorrow) == 2
    assert await store.write(reservations.settle_leftovers, tomorrow) == 0

    assert await store.read(booked) == 700_000
    assert await store.read(reservations.sum_reserved) == 0
    assert await store.read(budgets.get_remaining, "acme", ADA, NOON) == 300_000
    assert await store.read(budgets.get_remaining, "acme", ADA, tomorrow) == 1 * USD
    store.close()


CRASH = """
import asyncio, os, signal, sys
from pathlib import Path
from gatepost.store.money import reservations
from gatepost.store.engine.sqlite_store import SqliteStore

async def main():
    store, now = SqliteStore(Path(sys.argv[1])), int(sys.argv[2])
    calls = (store.write(reservations.reserve, "acme", "", "s", "t", "claude", 90_000, now) for _ in range(50))
    held = [answer.id for answer in await asyncio.gather(*calls) if isinstance(answer, reservations.BudgetReservation)]
    for each in held[:5]:
        await store.write(reservations.settle, each, 10_000, None, now)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.sqlite(reason="the process that is killed opens the file")
async def test_a_killed_gateway_leaves_no_call_unpaid_and_no_budget_passed(store: SqliteStore) -> None:
    await store.write(limit, 1 * USD)
    command = [sys.executable, "-c", CRASH, str(store.path), str(NOON)]
    killed = await asyncio.to_thread(subprocess.run, command, timeout=60)
    assert killed.returncode == -signal.SIGKILL

    assert await store.write(reservations.settle_leftovers, NOON) == 11 - 5
    answers = await asyncio.gather(*(call(store, "acme", 90_000, 90_000) for _ in range(50)))

    assert sum(answers) == 4  # 1.00 - 5 × 0.01 - 6 × 0.09 = 0.41
    assert await store.read(booked) == 50_000 + 6 * 90_000 + 4 * 90_000


def test_a_note_that_a_crash_kept_from_people_is_given_with_the_next_call(db: Db) -> None:
    limit(db, 1 * USD)
    reserve(db, 850_000)
    reservations.settle_leftovers(db, NOON)

    assert [note.percent for note in reserve(db, 1).notes] == [80]
    assert reserve(db, 1).notes == ()


def test_what_is_refused_leaves_nothing_behind(db: Db) -> None:
    limit(db, 1 * USD)

    assert isinstance(reservations.reserve(db, "acme", ADA, None, None, "claude", 2 * USD, NOON), BudgetDenial)

    assert reservations.sum_reserved(db) == 0
    assert budgets.get_remaining(db, "acme", ADA, NOON) == 1 * USD


@pytest.mark.parametrize("worst", [-1, 10**15 + 1])
def test_a_price_that_makes_no_sense_is_refused(db: Db, worst: int) -> None:
    with pytest.raises(Invalid):
        reservations.reserve(db, "acme", ADA, "s", "t", "claude", worst, NOON)


async def test_what_a_gateway_set_aside_carries_its_name_and_is_booked_with_it_alone(emptied: EmptyDatabase) -> None:
    stores = {name: PostgresStore(emptied.url, lanes=1, gateway=name) for name in ("a", "b", "")}
    try:
        await stores["a"].write(limit, 1 * USD)
        for each in stores.values():
            await each.write(reserve, 200_000)

        assert await stores["b"].write(reservations.settle_leftovers, NOON, "a") == 1
        assert await stores["b"].read(booked) == 200_000
        assert await stores["b"].read(reservations.sum_reserved) == 400_000
        assert await stores["b"].write(reservations.settle_leftovers, NOON) == 1  # of a command
    finally:
        for each in stores.values():
            each.close()


INSTANCE = BudgetScope(BudgetScopeKind.INSTANCE)


@pytest.mark.parametrize("scope", [INSTANCE, ACME], ids=["instance", "group"])
def test_a_budget_that_is_set_at_noon_counts_what_was_spent_and_what_is_in_flight(db: Db, scope: BudgetScope) -> None:
    first, second = (reservations.reserve(db, "acme/eng", ADA, "s", "t", "m", 300_000, NOON) for _ in range(2))
    reservations.reserve(db, "other", ADA, "s", "t", "m", 1_000, NOON)
    assert isinstance(first, BudgetReservation) and isinstance(second, BudgetReservation)
    reservations.settle(db, first.id, 200_000, TokenCounts(), NOON)
    budgets.put(db, scope, Period.DAY, 1_000_000, "owner", NOON)
    others = 1_000 if scope is INSTANCE else 0
    [status] = budgets.list_all(db, NOON)
    assert (status.spent, status.reserved) == (200_000, 300_000 + others)
    reservations.settle(db, second.id, 100_000, TokenCounts(), NOON)
    [status] = budgets.list_all(db, NOON)
    assert (status.spent, status.reserved) == (300_000, others)
    assert isinstance(reservations.reserve(db, "acme", None, "s", "t", "m", 700_001, NOON), BudgetDenial)


def test_a_budget_that_was_away_for_a_while_counts_anew(db: Db) -> None:
    for scope in (INSTANCE, ACME):
        budgets.put(db, scope, Period.DAY, 1_000_000, "owner", NOON)
    before = reservations.reserve(db, "acme", ADA, "s", "t", "m", 100_000, NOON)
    for scope in (INSTANCE, ACME):
        budgets.put(db, scope, Period.DAY, None, "owner", NOON)
    meanwhile = reservations.reserve(db, "acme", ADA, "s", "t", "m", 200_000, NOON)
    assert isinstance(before, BudgetReservation) and isinstance(meanwhile, BudgetReservation)
    reservations.settle(db, before.id, 100_000, TokenCounts(), NOON)
    for scope in (INSTANCE, ACME):
        budgets.put(db, scope, Period.DAY, 1_000_000, "owner", NOON)
    assert [(each.spent, each.reserved) for each in budgets.list_all(db, NOON)] == [(100_000, 200_000)] * 2
    reservations.settle(db, meanwhile.id, 150_000, TokenCounts(), NOON)
    assert [(each.spent, each.reserved) for each in budgets.list_all(db, NOON)] == [(250_000, 0)] * 2
