"""Words between gateways, whatever else is said in the database or open in the process."""

import asyncio
import json
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

import pytest

from gatepost.store.postgres.connection import open_connection
from gatepost.store.postgres.notices import LARGEST, Notice, NoticeExchange, pop_word
from gatepost.store.postgres.postgres_db import PostgresDb
from gatepost_testing.empty_database import EmptyDatabase
from gatepost_testing.waiting import PATIENCE_S

FD_SETSIZE = 1024  # what `select` can name


class Ear:
    def __init__(self) -> None:
        self.heard: list[Notice] = []
        self._changed = asyncio.Event()

    def hear(self, notices: list[Notice]) -> None:
        self.heard += notices or [("look",)]
        self._changed.set()

    async def wait_for(self, notice: Notice, times: int = 1) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.heard.count(notice) < times:
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def listening(url: str, name: str) -> AsyncIterator[tuple[NoticeExchange, Ear]]:
    ear = Ear()
    exchange = NoticeExchange(url, name, ear.hear)
    exchange.start()
    try:
        await ear.wait_for(("look",))
        yield exchange, ear
    finally:
        await exchange.stop()


async def test_words_reach_the_other_gateways_and_not_oneself(database: EmptyDatabase) -> None:
    said = [("session", f"s-{number:060}") for number in range(500)]  # more than one word holds
    async with listening(database.url, "a") as (exchange, own), listening(database.url, "b") as (_, ear):
        for each in said:
            exchange.post(each)
        exchange.post(("room", "fake", "last"))
        await ear.wait_for(("room", "fake", "last"))
        assert own.heard == [("look",)]
        assert ear.heard == [("look",), *said, ("room", "fake", "last")]


@pytest.mark.parametrize("word", ["", "hello", "{}", '["x", 5]', '["x", [["room", 5]]]', "[" * 5000])
async def test_words_of_strangers_are_passed_over(database: EmptyDatabase, word: str) -> None:
    async with listening(database.url, "a") as (_, ear), listening(database.url, "b") as (exchange, _):
        with open_connection(database.url) as stranger:
            PostgresDb(stranger.pgconn).rows("SELECT pg_notify('gatepost', ?)", (word,))
        exchange.post(("tasks",))
        await ear.wait_for(("tasks",))
        assert ear.heard == [("look",), ("tasks",)]


async def test_a_word_that_is_too_long_costs_only_itself(database: EmptyDatabase) -> None:
    async with listening(database.url, "a") as (_, ear), listening(database.url, "b") as (exchange, other):
        exchange.post(("room", "fake", "\N{PILE OF POO}" * 1000))
        exchange.post(("tasks",))
        await ear.wait_for(("tasks",))
        assert other.heard == [("look",)], "its connection broke"


async def test_a_gateway_with_very_many_visitors_hears_the_others(database: EmptyDatabase) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] < 2 * FD_SETSIZE:
        pytest.skip("this process may not open so many files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 2 * FD_SETSIZE), limits[1]))
    try:
        with ExitStack() as visitors:
            while visitors.enter_context(socket.socket()).fileno() < FD_SETSIZE:
                pass
            async with listening(database.url, "a") as (_, ear), listening(database.url, "b") as (exchange, _):
                exchange.post(("tasks",))
                await ear.wait_for(("tasks",))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.slow
async def test_a_connection_that_breaks_is_made_anew_and_nothing_is_taken_for_heard(database: EmptyDatabase) -> None:
    async with listening(database.url, "a") as (_, ear), listening(database.url, "b") as (exchange, other):
        with open_connection(database.url) as operator:
            speaking = "FROM pg_stat_activity WHERE application_name LIKE 'gatepost/_ notices'"
            assert len(PostgresDb(operator.pgconn).rows(f"SELECT pg_terminate_backend(pid) {speaking}")) == 2
        exchange.post(("room", "fake", "meanwhile"))
        await asyncio.gather(ear.wait_for(("look",), 2), other.wait_for(("look",), 2))
        exchange.post(("tasks",))
        await ear.wait_for(("tasks",))


async def test_a_board_stops_while_the_database_is_away() -> None:
    exchange = NoticeExchange("postgresql://127.0.0.1:1/none", "a", Ear().hear)
    exchange.start()
    exchange.post(("tasks",))
    async with asyncio.timeout(PATIENCE_S):
        await exchange.stop()


def test_everything_that_fits_is_said_in_few_statements() -> None:
    notices = [("room", "fake", f"fake:{number}") for number in range(1000)]
    said, waiting = [], dict.fromkeys(notices)
    while waiting:
        said.append(pop_word("a", waiting))
    assert all(len(each) < 8000 for each in said)
    assert len(said) <= 1 + sum(len(json.dumps(each)) + 2 for each in notices) // (LARGEST - 100)
    assert [tuple(each) for one in said for each in json.loads(one)[1]] == notices
    assert pop_word("a", {}) == b""
