"""Rules that another gateway changed, of whose bells nothing is heard here: the next call is judged by them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gatepost.core.event_bus import EventBus
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.flow import grant_changes
from gatepost.gate.dispatch import INVALID_PARAMS, Dispatch
from gatepost.gate.policies import Policies
from gatepost.store.port import Store
from gatepost.store.postgres.postgres_store import PostgresStore
from gatepost.store.rights import acl
from gatepost.store.sessions import groups
from gatepost_testing.empty_database import EmptyDatabase
from gatepost_testing.gate_agent import GateAgent
from gatepost_testing.sample_tools import FEW

FOLDER, RULE, NOW = "acme/eng", "!echo", 1_000_000
TRIES = 1000


@pytest.fixture
async def stores(emptied: EmptyDatabase) -> AsyncIterator[tuple[Store, Store]]:
    """The same, as two gateways have it."""
    opened = [PostgresStore(emptied.url, lanes=1, readers=2) for _ in range(2)]
    yield opened[0], opened[1]
    for each in opened:
        each.close()


async def make_agent(path: Path, store: Store) -> GateAgent:
    agent = await GateAgent.create(path, store, FOLDER, tools=FEW)
    agent.dispatch = Dispatch(FEW, replace(agent.deps, shared=True))
    return agent


async def revoke(store: Store) -> None:
    await store.write(grant_changes.add_rule, FOLDER, RULE, "operator", NOW)


async def give_back(store: Store) -> None:
    await store.write(acl.remove_rule, FOLDER, RULE)


async def test_what_one_gateway_revokes_the_other_refuses_at_the_next_call(
    tmp_path: Path, stores: tuple[Store, Store]
) -> None:
    here, there = stores
    agent = await make_agent(tmp_path, here)
    wrong = 0
    for _ in range(TRIES // 2):
        await revoke(there)
        wrong += (await agent.call("echo", text="hi")).code != INVALID_PARAMS
        await give_back(there)
        wrong += (await agent.call("echo", text="hi")).text != "hi"
    assert wrong == 0


async def test_calls_of_one_group_are_judged_in_their_order(stores: tuple[Store, Store]) -> None:
    policies = Policies(stores[0], EventBus(), Config())
    judged: list[int] = []

    async def judge(number: int) -> None:
        await policies.renew(FOLDER)
        judged.append(number)

    await asyncio.gather(*(judge(number) for number in range(50)))
    assert judged == list(range(50))


async def test_rules_are_read_once_for_as_long_as_nobody_changes_them(stores: tuple[Store, Store]) -> None:
    here, there = stores
    await here.write(groups.add, FOLDER, FOLDER, "", NOW)
    policies = Policies(here, EventBus(), Config())
    assert await policies.renew(FOLDER)
    known = await policies(FOLDER)
    assert not await policies.renew(FOLDER)
    assert await policies(FOLDER) is known
    await revoke(there)
    assert await policies.renew(FOLDER)
    assert await policies(FOLDER) is not known


async def test_what_is_read_while_a_bell_rings_is_not_kept(stores: tuple[Store, Store]) -> None:
    events = EventBus()
    policies = Policies(stores[0], events, Config())
    reading = asyncio.create_task(policies.renew(FOLDER))
    await asyncio.sleep(0)  # it has asked the store, and has no answer yet
    events.tools()
    assert await reading
    assert await policies.renew(FOLDER)  # once more
    assert not await policies.renew(FOLDER)
