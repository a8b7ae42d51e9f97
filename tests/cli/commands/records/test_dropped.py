"""`gatepost dropped`: refusals by reason, room and sender, with those that were only counted."""

from collections.abc import Callable
from typing import Any

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

Run = Callable[..., Any]


def test_every_code_of_a_refusal_has_words_for_the_operator() -> None:
    named = {"dropped_by_route", "stopped by"}  # with what dropped or stopped it
    assert [each for each in SENTENCES.keys() - named if render_reason(each) == each] == []


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
