"""`gatepost dropped`: refusals by reason, room and sender, with those that were only counted. `gatepost keep`, with
the gateway down."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from tests.cli.conftest import Ran

from gatepost.cli.reasons import render_reason
from gatepost.core.clock import DAY, HOUR, SystemClock, iso
from gatepost.core.home import Home
from gatepost.flow.intake.message_outcome import SENTENCES
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.messages import inbox
from gatepost.store.messages.inbox import InboxState
from gatepost.store.port import Db
from gatepost.store.rights import audit
from gatepost.store.rights.audit import AuditRecord
from gatepost_testing.arrivals import add_arrival

Run = Callable[..., Ran]


def test_every_code_of_a_refusal_has_words_for_the_operator() -> None:
    named = {"dropped_by_route", "stopped by"}  # with what dropped or stopped it
    assert [each for each in SENTENCES.keys() - named if render_reason(each) == each] == []


def test_what_waits_for_a_decision_names_the_command_that_shows_it() -> None:
    assert render_reason("p-1m7tcha88gxz031") == "it waits for a decision (`gatepost permit show p-1m7tcha88gxz031`)"


def refuse(db: Db, number: int, reason: str, now: int, sender: str, state: InboxState = InboxState.REFUSED) -> None:
    message_id = add_arrival(
        db, now, address=f"fake:room/{number % 2}", sender=sender, text="psst", platform_id=f"p-{number}"
    )
    inbox.refuse(db, message_id, "home", "guest", reason, now, state)


def fill(run: Run, home: Home) -> None:
    """Six refusals, two of them ten days old; 480 more that were only counted; and an answer."""
    assert run("group", "add", "acme").code == 0
    now = SystemClock().now()
    connection = connect(home.store)
    db = SqliteDb(connection)
    with connection:
        for number in range(4):
            at = now - 10 * DAY if number < 2 else now - HOUR
            refuse(db, number, "unknown_sender_strict", at, "fake:user/eve")
        refuse(db, 4, "no_route", now, "fake:user/bob")
        refuse(db, 5, "stale", now, "fake:user/bob", InboxState.FAILED)
        refuse(db, 6, "paired", now, "fake:user/bob", InboxState.ANSWERED)
        counted = {"repeated": 480, "sender": "fake:user/eve", "since": iso(now - HOUR), "until": iso(now)}
        audit.append(db, AuditRecord(now, "channel:fake", "intake", "refused", counted))
    connection.close()


def test_refusals_are_counted_by_reason_with_those_that_were_only_counted(run: Run, home: Home) -> None:
    fill(run, home)
    found = run("dropped", "--json").json
    assert (found["total"], found["only_counted"]) == (486, 480)
    assert [(each["reason"], each["times"]) for each in found["counts"]] == [
        ("only_counted", 480),
        ("unknown_sender_strict", 4),
        ("no_route", 1),
        ("stale", 1),
    ]
    shown = run("dropped").out
    assert "486 refused, 480 of them only counted" in shown
    assert "the sender is no member of the group (policy strict)" in shown and "fake:user/bob in fake:room/0" in shown


def test_refusals_are_counted_by_sender_and_by_room_since_a_moment(run: Run, home: Home) -> None:
    fill(run, home)
    by_sender = run("dropped", "--by", "sender", "--since", "7d", "--json").json
    assert [(each["sender"], each["times"]) for each in by_sender["counts"]] == [
        ("fake:user/eve", 482),
        ("fake:user/bob", 2),
    ]
    by_room = run("dropped", "--by", "room", "--json").json
    assert {each["room"]: each["times"] for each in by_room["counts"]} == {
        "channel:fake": 480,
        "fake:room/0": 3,
        "fake:room/1": 3,
    }
    both = run("dropped", "--by", "all", "--json").json["counts"]
    assert len(both) == 5 and all(each["reason"] and each["room"] and each["sender"] for each in both)


def test_a_since_that_is_no_time_is_named(run: Run, home: Home) -> None:
    fill(run, home)
    failed = run("dropped", "--since", "yesterday")
    assert failed.code != 0 and "'yesterday' is no time" in failed.err


def test_nothing_that_was_refused_is_zero(run: Run, home: Home) -> None:
    assert run("group", "add", "acme").code == 0
    assert run("dropped").out.startswith("0 refused")


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


def test_a_message_that_did_not_fail_is_not_tried_again_and_one_that_is_none_is_named(run: Run, home: Home) -> None:
    fill(run, home)
    answered = run("ledger", "retry", "7")
    assert (answered.code, "neither failed nor is uncertain" in answered.err) == (1, True), answered.err
    for wrong in ("seven", "0"):
        told = f"{wrong!r} is not a message's id; `gatepost ledger list` shows them"
        assert told in run("ledger", "retry", wrong).err


def test_what_is_no_number_is_said_to_be_none_and_not_to_be_no_range(run: Run) -> None:
    assert "'many' is not a valid number" in run("ledger", "list", "--limit", "many").err
    assert "0 is not in the range 1<=x<=100000" in run("ledger", "list", "--limit", "0").err
