"""`gatepost keep`, on a home whose gateway is down."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from tests.cli.conftest import Ran

from gatepost.core.clock import DAY, SystemClock
from gatepost.core.home import Home
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.messages import inbox
from gatepost.store.port import Db
from gatepost_testing.arrivals import add_arrival

Run = Callable[..., Ran]


@contextmanager
def opened(home: Home) -> Iterator[Db]:
    connection = connect(home.store)
    yield SqliteDb(connection)
    connection.close()


def a_message(db: Db, number: int, now: int) -> int:
    message_id = add_arrival(db, now, platform_id=str(number))
    inbox.refuse(db, message_id, "", "guest", "no_route", now)
    return message_id


def old_home(run: Run, home: Home) -> None:
    """Two refused messages, one of them and a file from 40 days ago."""
    assert run("group", "add", "acme").code == 0
    now = SystemClock().now()
    with opened(home) as db:
        a_message(db, 1, now - 40 * DAY)
        a_message(db, 2, now)
    file = home.media / "web/abc/0"
    file.parent.mkdir(parents=True)
    file.write_text("x" * 1000)
    os.utime(file.parent, (1, 1))


def test_keep_shows_what_there_is_and_a_dry_run_removes_nothing(run: Run, home: Home) -> None:
    old_home(run, home)

    rows = {each["what"]: each for each in run("keep", "show", "--json").json["rows"]}
    assert (rows["steps"]["days"], rows["steps"]["rows"], rows["steps"]["over_age"]) == (30, 2, 1)
    assert (rows["messages"]["days"], rows["messages"]["rows"], rows["messages"]["over_age"]) == (0, 2, 0)
    shown = run("keep", "show").out
    assert "kept for 30 days (keep." in shown and "keep.steps_days" in shown and "store: " in shown
    assert run("keep", "run", "--dry-run").out == "over age: 1 steps\n"
    assert run("keep", "run", "--dry-run", "--json").json["steps"] == 1


def test_keep_run_removes_what_is_over_age_and_says_how_much(run: Run, home: Home) -> None:
    old_home(run, home)

    assert run("keep", "run").out == "removed: 1 steps, 1 media\n"
    assert run("keep", "run", "--json").json["media"] == 0
    assert not (home.media / "web/abc").exists()
    assert run("ledger", "check").code == 0
    assert run("audit", "verify").code == 0


@pytest.mark.slow
def test_stranger_23_the_trace_of_a_removed_message_says_that_it_was_removed(run: Run, home: Home) -> None:
    old_home(run, home)
    (home.path / "gatepost.toml").write_text("[keep]\nmessages_days = 30\n")

    assert run("keep", "run", "--json").json["messages"] == 1

    gone = run("trace", "1")
    assert gone.code == 1 and "removed because of its age (keep.messages_days)" in gone.err
    assert run("trace", "2").code == 0
    assert run("ledger", "check", "--json").json["unaccounted"] == 0


def test_a_negative_age_is_refused_by_name(run: Run, home: Home) -> None:
    old_home(run, home)
    (home.path / "gatepost.toml").write_text("[keep]\nsteps_days = -1\n")

    refused = run("keep", "show")
    assert refused.code != 0 and "keep.steps_days" in refused.err
