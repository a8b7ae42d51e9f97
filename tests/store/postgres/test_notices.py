"""Words between gateways, whatever else is said in the database or open in the process."""

import json
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from gatepost.store.postgres.connection import open_connection
from gatepost.store.postgres.notices import LARGEST, Notice, NoticeBoard, pack_notices
from gatepost.store.postgres.postgres_db import PostgresDb
from gatepost.testing.empty_database import EmptyDatabase
from gatepost.testing.waiting import PATIENCE_S

FD_SETSIZE = 1024  # what `select` can name


class Ear:
    def __init__(self) -> None:
        self.heard: list[Notice] = []
        self._changed = threading.Condition()

    def hear(self, notices: list[Notice]) -> None:
        with self._changed:
            self.heard += notices or [("look",)]
            self._changed.notify_all()

    def wait_for(self, notice: Notice) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: notice in self.heard, PATIENCE_S)


@contextmanager
def listening(url: str, name: str) -> Iterator[tuple[NoticeBoard, Ear]]:
    ear = Ear()
    board = NoticeBoard(url, name, ear.hear)
    board.start()
    try:
        ear.wait_for(("look",))
        yield board, ear
    finally:
        board.stop()


@pytest.mark.parametrize("word", ["", "hello", "{}", '["x", 5]', '["x", [["room", 5]]]', "[" * 5000])
def test_words_of_strangers_are_passed_over(database: EmptyDatabase, word: str) -> None:
    with listening(database.url, "a") as (_, ear), listening(database.url, "b") as (board, _):
        with open_connection(database.url) as stranger:
            PostgresDb(stranger.pgconn).rows("SELECT pg_notify('gatepost', ?)", (word,))
        board.post(("tasks",))
        ear.wait_for(("tasks",))
        assert ear.heard == [("look",), ("tasks",)]


def test_a_word_that_is_too_long_costs_only_itself(database: EmptyDatabase) -> None:
    with listening(database.url, "a") as (_, ear), listening(database.url, "b") as (board, other):
        board.post(("room", "fake", "\N{PILE OF POO}" * 1000))
        board.post(("tasks",))
        ear.wait_for(("tasks",))
        assert other.heard == [("look",)], "its connection broke"


def test_a_gateway_with_very_many_visitors_hears_the_others(database: EmptyDatabase) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] < 2 * FD_SETSIZE:
        pytest.skip("this process may not open so many files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 2 * FD_SETSIZE), limits[1]))
    try:
        with ExitStack() as visitors:
            while visitors.enter_context(socket.socket()).fileno() < FD_SETSIZE:
                pass
            with listening(database.url, "a") as (_, ear), listening(database.url, "b") as (board, _):
                board.post(("tasks",))
                ear.wait_for(("tasks",))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_everything_that_fits_is_said_in_few_statements() -> None:
    notices = [("room", "fake", f"fake:{number}") for number in range(1000)]
    said = list(pack_notices("a", notices))
    assert all(len(each) < 8000 for each in said)
    assert len(said) <= 1 + sum(len(json.dumps(each)) + 2 for each in notices) // (LARGEST - 100)
    assert [tuple(each) for one in said for each in json.loads(one)[1]] == notices
    assert list(pack_notices("a", [])) == []
