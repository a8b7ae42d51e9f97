"""Who pays: the person whose turn it is, and whose it was. A sandbox that no gateway runs obeys the operator's
switch."""

from pathlib import Path

import pytest

from gatepost.core.clock import Period
from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.core.records import replace
from gatepost.egress.contract import BudgetRoom, BudgetShortage, CallCost, ReservationHandle, Spender
from gatepost.egress.http import HttpRefusal
from gatepost.flow.group_egress import PanicCheckingStore, SpenderSecrets, StoreBudget, wait_for_panic
from gatepost.inside.provider_errors import find_budget
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import messages
from gatepost.store.money import budgets, costs
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind, CapSpan
from gatepost.store.money.reservations import NO_TOKENS
from gatepost.store.port import Db
from gatepost.store.rights import egress, secrets, switches
from gatepost.store.rights.secret_rows import SecretOwner
from gatepost.store.sessions import turns
from gatepost_testing.gate_agent import GateAgent

USER = "fake:user/1"


async def test_what_goes_on_behind_a_turn_is_paid_by_who_asked_for_it(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme/eng")
    purse = StoreBudget(store, agent.deps.clock, agent.deps.channels, agent.deps.events)

    def limit(db: Db) -> None:
        budgets.put(db, BudgetScope(BudgetScopeKind.USER, USER), Period.DAY, 100, "owner", 1)

    await store.write(limit)
    behind = Spender("acme/eng", agent.session.id, None)

    assert await purse.room(behind) == BudgetRoom(100, 100)
    held = await purse.reserve(behind, "m", 80, NO_TOKENS)
    assert await purse.room(behind) == BudgetRoom(20, 100)
    assert isinstance(held, ReservationHandle)
    await purse.settle(held, CallCost(60))
    assert isinstance(await purse.reserve(behind, "m", 80, NO_TOKENS), BudgetShortage)
    assert [each.key for each in await store.read(costs.list_sums, "user")] == [USER]


async def test_where_nobody_ever_asked_only_the_groups_budgets_hold(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme/eng", turn=False)
    purse = StoreBudget(store, agent.deps.clock, agent.deps.channels, agent.deps.events)

    def limit(db: Db) -> None:
        budgets.put(db, BudgetScope(BudgetScopeKind.USER, USER), Period.DAY, 0, "owner", 1)
        budgets.put(db, BudgetScope(BudgetScopeKind.GROUP, "acme"), Period.DAY, 100, "owner", 1)

    await store.write(limit)
    alone = Spender("acme/eng", agent.session.id, None)
    assert await purse.room(alone) == BudgetRoom(100, 100)
    assert isinstance(await purse.reserve(replace(alone, session_id=""), "m", 80, NO_TOKENS), ReservationHandle)


async def test_an_answer_that_reaches_its_limit_is_told_once_with_what_helps(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme/eng")
    purse = StoreBudget(store, agent.deps.clock, agent.deps.channels, agent.deps.events)
    turn = await store.read(turns.find_open, agent.session.id)
    assert turn is not None
    spender = Spender("acme/eng", agent.session.id, turn.id)
    await store.write(budgets.put, BudgetScope(BudgetScopeKind.GROUP, "acme"), CapSpan.TURN, 500_000, "owner", 1)

    assert await purse.room(spender) == BudgetRoom(500_000, 500_000)
    refused = [await purse.reserve(spender, "m", 600_000, NO_TOKENS) for _ in range(2)]

    for each in refused:
        assert isinstance(each, BudgetShortage) and not each.busy
        assert "The limit of one answer has no room for this call: $0.00 of $0.50 spent" in each.reason
        assert each.reason.endswith("an operator can raise it with `gatepost budget set acme --turn USD`")
        assert find_budget(f"402 {each.reason} and more") == each.reason  # of CLI agents
    (told,) = [each.text for each in await store.read(messages.list_in_room, turn.instance, turn.address, 0, 10)][1:]
    assert told == "The first step of this answer may pass its limit of $0.50. Whoever runs this gateway can raise it."


async def test_no_agent_gets_a_channels_secret_also_if_it_was_bound_before(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme/eng")
    home = Home(tmp_path)
    keyring, owner = Keyring(home), SecretOwner()
    for name in ("HUB_TOKEN", "CHANNEL_WORK_TOKEN"):
        await store.write(secrets.put, keyring, owner, name, "hush", 1)
    keys = SpenderSecrets(store, secrets.SecretReader(store, keyring))
    spender = Spender("acme/eng", agent.session.id, None)

    assert await keys.get("HUB_TOKEN", spender) == "hush"
    assert await keys.get("CHANNEL_WORK_TOKEN", spender) is None


async def test_every_request_is_refused_from_the_moment_of_a_panic(store: SqliteStore) -> None:
    halting = PanicCheckingStore(store)
    before = await halting.read(egress.list_rules)
    await store.write(switches.turn_on, switches.PANIC, "", "operator", 1)

    with pytest.raises(HttpRefusal, match="stopped everything"):
        await halting.read(egress.list_rules)
    await wait_for_panic(halting)
    await store.write(switches.turn_off, switches.PANIC)
    assert await halting.read(egress.list_rules) == before
