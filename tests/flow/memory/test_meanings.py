"""Meanings of memories, with a real endpoint on loopback: what is asked for, when, and who pays."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.clock import Period
from gatepost.core.errors import SetupError
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.core.process.fencing import always
from gatepost.core.settings import Config
from gatepost.egress import embeddings
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.group_egress import SpenderSecrets, StoreBudget
from gatepost.flow.memory.meanings import MemoryMeanings
from gatepost.store.memory import memories, memory_vectors, recall
from gatepost.store.memory.memories import Audience, Memory, MemoryScope, MemoryTrust
from gatepost.store.money import budgets, costs, reservations
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind
from gatepost.store.port import Db, Store
from gatepost.store.rights import secrets, switches
from gatepost.store.rights.secret_rows import SecretOwner
from gatepost.store.rights.secrets import SecretReader
from gatepost.store.sessions import groups
from gatepost_testing.clock import FixedClock
from gatepost_testing.models import EMBEDDINGS, ModelEndpoint
from gatepost_testing.waiting import PATIENCE_S, until

NOW = 1_800_000_000_000_000
ALIKE = {"alike": [["dog", "puppy", "hound"], ["money", "invoice", "bill"]]}
KEY = "sk-embeddings-0123456789"


class Desk:
    """An agent that remembers, and an endpoint that knows which words mean the same."""

    def __init__(self, home: Home, store: Store, endpoint: ModelEndpoint, **config: Any) -> None:
        self.store, self.endpoint, self.clock = store, endpoint, FixedClock(NOW)
        given = {"embeddings.base_url": endpoint.openai, "embeddings.price": "0.02", **config}
        self.config, purse = Config(given), StoreBudget(store, self.clock, ChannelInstances({}), EventBus())
        keys = SpenderSecrets(store, SecretReader(store, Keyring(home), self.clock))
        self.meanings = MemoryMeanings(home, store, self.clock, self.config, purse, keys, always)

    async def add(self, *texts: str, folder: str = "acme") -> list[int]:
        def insert(db: Db) -> list[int]:
            given = {"scope": MemoryScope.AGENT, "trust": MemoryTrust.MEMBER, "created_at": NOW}
            made = [memories.add(db, Memory(folder=folder, text=each, **given)) for each in texts]  # type: ignore[arg-type]
            return [each.id for each in made]

        return await self.store.write(insert)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.meanings.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self.meanings.close()

    async def wait_for(self, number: int, model: str = "text-embedding-3-small") -> None:
        """Until so many entries have a vector."""
        found = 0
        async with asyncio.timeout(PATIENCE_S):
            while found < number:
                await asyncio.sleep(0)
                _, found = await self.store.read(memory_vectors.count, model)

    async def recall(self, words: str, folder: str = "acme") -> list[str]:
        meaning = await self.meanings.find(folder, "", None, words)

        def read(db: Db) -> list[Memory]:
            return recall.find(db, Audience(folder), words, NOW, 5, meaning=meaning, alike=self.meanings.least)

        return [each.text for each in await self.store.read(read)]

    @property
    def asked(self) -> list[list[str]]:
        return [each.body["input"] for each in self.endpoint.requests if each.path.endswith(EMBEDDINGS)]


@pytest.fixture
async def desk(store: Store, tmp_path: Path) -> AsyncIterator[Desk]:
    home = Home(tmp_path)
    home.prepare()
    for folder in ("acme", "beta"):
        await store.write(groups.add, folder, folder, "scripted", NOW)
    async with ModelEndpoint(ALIKE) as endpoint:
        yield Desk(home, store, endpoint)


async def test_what_was_said_in_other_words_is_recalled(desk: Desk) -> None:
    await desk.add("The puppy sleeps", "The invoice waits")
    assert await desk.recall("hound") == []
    async with desk.working():
        await desk.wait_for(2)
    assert await desk.recall("hound") == ["The puppy sleeps"]
    assert await desk.recall("a bill") == ["The invoice waits"]


async def test_entries_are_asked_for_in_small_batches_and_each_once(desk: Desk) -> None:
    texts = [f"fact {number}" for number in range(20)]
    await desk.add(*texts)
    async with desk.working():
        await desk.wait_for(20)
        await desk.add("a new one")
        await desk.wait_for(21)
    assert [len(each) for each in desk.asked] == [16, 4, 1] and [text for each in desk.asked for text in each] == [
        *texts,
        "a new one",
    ]


async def test_each_group_pays_for_its_own_and_nothing_stays_set_aside(desk: Desk) -> None:
    await desk.add("a dog")
    await desk.add("a bill", folder="beta")
    async with desk.working():
        await desk.wait_for(2)
    booked = {each.key: each.micro for each in await desk.store.read(costs.list_sums, "group")}
    assert set(booked) == {"acme", "beta"} and all(booked.values())
    assert await desk.store.read(reservations.sum_reserved) == 0


async def test_a_group_without_money_keeps_its_words_and_holds_up_no_other(desk: Desk) -> None:
    scope = BudgetScope(BudgetScopeKind.GROUP, "acme")
    await desk.store.write(budgets.put, scope, Period.DAY, 0, "owner", 1)
    await desk.add("a dog")
    await desk.add("a puppy", folder="beta")
    async with desk.working():
        await desk.wait_for(1)
        assert await desk.recall("dog") == ["a dog"]
        assert await desk.recall("hound") == []
        assert await desk.recall("hound", "beta") == ["a puppy"]
    assert all("a dog" not in each for each in desk.asked)


async def test_nothing_is_sent_or_paid_for_an_agent_that_rests(desk: Desk) -> None:
    await desk.store.write(switches.turn_on, switches.name_rest("acme"), "", "owner", NOW)
    await desk.add("a dog")
    await desk.add("a puppy", folder="beta")
    async with desk.working():
        await desk.wait_for(1)
    assert desk.asked == [["a puppy"]]
    assert {each.key for each in await desk.store.read(costs.list_sums, "group")} == {"beta"}


async def test_a_text_that_the_endpoint_refuses_holds_up_no_other_and_is_not_asked_for_again(desk: Desk) -> None:
    desk.endpoint.play({**ALIKE, "unreadable": "poison"})
    await desk.add("a dog", "poison", "a bill")
    async with desk.working():
        await desk.wait_for(3)
        await desk.add("a hound")
        await desk.wait_for(4)
    assert sum("poison" in each for each in desk.asked) == 2  # with the others, and alone
    assert sorted(await desk.recall("puppy")) == ["a dog", "a hound"]


async def test_an_endpoint_that_refuses_everything_for_a_while_costs_no_entry_its_meaning(
    desk: Desk, tmp_path: Path
) -> None:
    """As with a wrong name of the model: each entry was taken for unreadable, for good."""
    desk.endpoint.play({**ALIKE, "unreadable": "o"})
    await desk.add("a dog", "some food")
    async with desk.working():
        await until(lambda: ["hello"] in desk.asked)
    assert await desk.store.read(memory_vectors.count, "text-embedding-3-small") == (2, 0)
    desk.endpoint.play(ALIKE)
    later = Desk(Home(tmp_path), desk.store, desk.endpoint)
    async with later.working():
        await later.wait_for(2)
    assert await later.recall("puppy") == ["a dog"]


@pytest.mark.parametrize("tokens", [2**40, 2**62])
async def test_an_endpoint_that_counts_too_many_tokens_is_not_believed(desk: Desk, tokens: int) -> None:
    """One answer spent a budget for years, or could not be written at all."""
    desk.endpoint.play({**ALIKE, "embedding_tokens": tokens})
    await desk.add("a dog")
    async with desk.working():
        await desk.wait_for(1)
    [booked] = await desk.store.read(costs.list_sums, "group")
    assert 0 < booked.micro < 10
    assert await desk.store.read(reservations.sum_reserved) == 0


async def test_an_endpoint_that_is_away_costs_nobody_an_answer(desk: Desk) -> None:
    await desk.add("a dog")
    async with desk.endpoint.away():
        assert await desk.recall("dog") == ["a dog"]
    assert await desk.recall("dog") == ["a dog"] and desk.asked == []  # not asked again so soon


async def test_a_key_goes_to_the_endpoint_that_it_was_given_for(desk: Desk, tmp_path: Path) -> None:
    desk.endpoint.key = KEY
    keyring, origin = Keyring(Home(tmp_path)), f"http://127.0.0.1:{desk.endpoint.port}"
    for name, where in (("EMBEDDING_API_KEY", origin), ("OPENAI_API_KEY", "https://api.openai.com:443")):
        value = KEY if name == "EMBEDDING_API_KEY" else "sk-models-0123456789"
        await desk.store.write(secrets.put, keyring, SecretOwner(), name, value, NOW, where)
    assert await desk.meanings.find("acme", "", None, "dog") is not None


async def test_a_changed_model_makes_all_vectors_anew(desk: Desk, tmp_path: Path) -> None:
    await desk.add("a dog")
    async with desk.working():
        await desk.wait_for(1)
    config = {"embeddings.model": "other", "embeddings.dimensions": 32}
    other = Desk(Home(tmp_path), desk.store, desk.endpoint, **config)
    async with other.working():
        await other.wait_for(1, "other")
    assert await other.recall("puppy") == ["a dog"] and await desk.recall("puppy") == []


async def test_what_is_forgotten_while_its_meaning_is_asked_for_gets_none(desk: Desk) -> None:
    [dog, _] = await desk.add("a dog", "a bill")
    unread, _ = await desk.store.read(memory_vectors.list_unread, "m", 0, 0, NOW)
    await desk.store.write(memories.end, [dog], "test", NOW)
    meaning = memory_vectors.make_meaning("m", [1.0, 2.0])
    assert await desk.store.write(memory_vectors.put, [(each.id, meaning) for each in unread]) == 1


@pytest.mark.parametrize(
    ("setting", "value", "why"),
    [
        ("embeddings.base_url", "nowhere", "is not an address"),
        ("embeddings.model", " ", "is empty"),
        ("embeddings.dimensions", 5000, "from 0 to 4096"),
        ("embeddings.least", 2.0, "from 0 to 1"),
    ],
)
def test_settings_that_cannot_work_stop_the_start(setting: str, value: object, why: str) -> None:
    config = Config({"embeddings.base_url": "http://localhost:1/v1", setting: value})
    with pytest.raises(SetupError, match=why):
        embeddings.find_embedding_endpoint(config)


@pytest.mark.parametrize(("price", "why"), [("", "has no price"), ("much", "embeddings.price")])
def test_a_model_whose_price_nobody_knows_makes_nothing(tmp_path: Path, price: str, why: str) -> None:
    config = Config({"embeddings.model": "mystery", "embeddings.price": price})
    with pytest.raises(SetupError, match=why):
        embeddings.find_embedding_price(Home(tmp_path), config)
