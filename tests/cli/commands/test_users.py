"""`gatepost user`, `pair` and `unpair` on a home whose gateway is down."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.clock import SystemClock
from gatepost.core.home import Home
from gatepost.flow import pairing
from gatepost.flow.codes import PAIRING
from gatepost.store import search
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.messages import inbox
from gatepost.store.rights import audit
from gatepost.store.rights.audit import AuditRecord
from gatepost.store.rooms import direct_rooms
from gatepost_testing.arrivals import add_arrival

Run = Callable[..., Any]
CHAT = "telegram:user/9"


def send(home: Home, shown: str) -> bool:
    """Somebody sends the code while the gateway takes messages."""
    connection, now = connect(home.store), SystemClock().now()
    db = SqliteDb(connection)
    done = pairing.redeem_code(db, PAIRING.parse(shown), CHAT, now).paired
    direct_rooms.add(db, CHAT, "telegram", "telegram:dm/9", now)
    connection.close()
    return done


def test_a_code_is_for_the_owner_if_nobody_is_named(run: Run, home: Home) -> None:
    printed = run("pair")
    assert printed.code == 0 and "terminal:owner" in printed.out and "within ten minutes" in printed.out
    assert send(home, printed.out.splitlines()[0])
    shown = run("user", "show", CHAT)
    assert "terminal:owner (Owner): owner everywhere" in shown.out
    assert f"also {CHAT}" in shown.out and "can be reached in telegram:dm/9" in shown.out
    [owner] = run("user", "list", "--json").json
    assert owner["identities"] == ["terminal:owner", "web:user/owner", CHAT]


def test_an_identity_is_unpaired(run: Run, home: Home) -> None:
    assert run("user", "add", "fake:user/ann", "--name", "Ann").code == 0
    assert send(home, run("user", "pair", "fake:user/ann", "--json").json["code"])
    assert run("user", "show", CHAT, "--json").json["id"] == "fake:user/ann"
    assert run("unpair", CHAT).out == f"{CHAT} is no identity of fake:user/ann any more\n"
    again = run("user", "unpair", CHAT)
    assert again.code == 1 and "gatepost user list" in again.err


def test_a_role_is_given_to_the_person_whichever_identity_is_named(run: Run, home: Home) -> None:
    assert send(home, run("pair", "--json").json["code"])
    given = run("user", "member", CHAT, "home", "--json").json
    assert (given["id"], given["member_of"]) == ("terminal:owner", ["home"])


def test_somebody_unknown_is_not_paired(run: Run) -> None:
    refused = run("pair", "telegram:user/77")
    assert refused.code == 1 and "gatepost user add telegram:user/77" in refused.err


def test_too_many_codes_are_refused(run: Run) -> None:
    ran = [run("pair") for _ in range(6)]
    assert [each.code for each in ran] == [0, 0, 0, 0, 0, 1] and "5 codes are open" in ran[5].err


def list_rows(run: Run) -> list[tuple[str, str, str]]:
    rows = run("grant", "list", "--json").json["rows"]
    return [(row["principal"], row["effect"], row["scope"]) for row in rows if row["action"] == "interact"]


def test_somebody_is_blocked_and_allowed_again(run: Run) -> None:
    assert run("user", "block", CHAT).out.startswith(f"{CHAT} is shut out everywhere (row ")
    assert list_rows(run) == [(CHAT, "deny", "**")]
    assert "may speak everywhere" in run("user", "allow", CHAT).out
    assert list_rows(run) == [(CHAT, "allow", "**")]


def test_a_block_that_is_taken_back_gives_nothing(run: Run) -> None:
    run("user", "block", CHAT)
    assert "no block named" in run("user", "unblock", CHAT, "--folder", "home").err
    assert "is shut out no more" in run("user", "unblock", CHAT).out
    assert list_rows(run) == []
    again = run("user", "unblock", CHAT)
    assert again.code == 1 and "gatepost grant list" in again.err


def test_a_whole_platform_is_blocked_for_one_group(run: Run) -> None:
    assert run("user", "block", "telegram:*", "--folder", "home").code == 0
    assert list_rows(run) == [("telegram:**", "deny", "home/**")]
    assert run("user", "allow", "telegram:*").code == 0, "everywhere covers the group"
    assert list_rows(run) == [("telegram:**", "allow", "**")]


def test_a_block_of_everywhere_is_not_taken_back_for_one_group(run: Run) -> None:
    run("user", "block", CHAT)
    run("user", "allow", CHAT, "--folder", "home")
    assert (CHAT, "deny", "**") in list_rows(run)


def test_a_platform_that_is_nearly_one_of_ours_is_not_blocked_in_vain(run: Run) -> None:
    refused = run("user", "block", "telegramm:user/9")
    assert refused.code != 0 and "no channel has the platform 'telegramm'; did you mean 'telegram'?" in refused.err
    assert "did you mean 'telegram'?" in run("room", "policy", "telegramm:group/1", "public").err


def test_who_cannot_be_blocked_is_named(run: Run) -> None:
    owner = run("user", "block", "terminal:owner")
    assert owner.code == 1 and "is an owner" in owner.err
    for wrong in ("nobody", "telegram:user/*"):
        assert run("user", "block", wrong).code == 1
    assert "no group named" in run("user", "block", CHAT, "--folder", "nowhere").err
    assert list_rows(run) == []


MARK = "zebramarker"
HER = f"fake:user/{MARK}"


def write_something(home: Home, count: int = 3) -> None:
    """Messages of the person, in a store that does not overwrite what is deleted, as those of older versions; and
    somebody's whose name begins alike."""
    connection, now = connect(home.store), SystemClock().now()
    connection.execute("PRAGMA secure_delete=OFF")
    db = SqliteDb(connection)
    with connection:
        for number, sender in enumerate([HER] * count + [f"{HER}1"]):
            message_id = add_arrival(
                db,
                now,
                sender=sender,
                sender_name="Ann",
                text=f"message {MARK if sender == HER else 'of another'} {number}",
                platform_id=str(number),
            )
            inbox.refuse(db, message_id, "home", "guest", "unknown_sender_strict", now)
        search.index(db)
        audit.append(db, AuditRecord(now, HER, "user.pair", "refused", {"why": "code_unknown"}))
        audit.append(db, AuditRecord(now, "operator", "user.add", "done", {"id": f"{HER}1"}))
    with connection:  # leaves pages and parts of pages that are free and full of it
        db.run("UPDATE messages SET text = text || ' ' || text || ? WHERE sender = ?", ("x" * 3000, HER))
        db.run("UPDATE messages SET text = 'short ' || ? WHERE sender = ?", (MARK, HER))
    connection.close()


@pytest.mark.slow
def test_with_the_gateway_down_a_forgotten_persons_remains_go_with_the_file(run: Run, home: Home) -> None:
    assert run("user", "add", HER, "--name", MARK).code == 0
    write_something(home)
    listed = run("user", "forget", HER)
    assert listed.code == 0 and "  messages: 3" in listed.out and "Nothing was changed; --yes" in listed.err
    assert MARK.encode() in home.store.read_bytes()

    done = run("user", "forget", HER, "--yes")
    assert done.code == 0 and "  messages: 3" in done.out and "run this again" not in done.out, done.out
    found = home.store.read_bytes().lower()
    assert found.count(MARK.encode()) == found.count(f"{MARK}1".encode()) > 0, "only the other is left"
    assert run("audit", "verify").code == 0 and run("ledger", "check").code == 0
    assert f"{HER}1" in run("audit", "list").out
    assert run("user", "show", HER).code == 1

    again = run("user", "forget", HER, "--yes")
    assert again.code == 0 and f"Nothing is known of {HER}." in again.out


def test_the_owner_of_the_home_is_not_forgotten(run: Run, home: Home) -> None:
    for identity in ("terminal:owner", "web:user/owner"):
        failed = run("user", "forget", identity, "--yes")
        assert failed.code == 1 and "forgotten with the whole home" in failed.err
    assert run("user", "forget", "nonsense").code == 1


def test_an_export_is_never_written_over_a_file(run: Run, home: Home, tmp_path: Path) -> None:
    assert run("user", "add", HER).code == 0
    there = tmp_path / "there.zip"
    there.write_text("mine")
    failed = run("user", "forget", HER, "--export", str(there), "--yes")
    assert failed.code == 1 and "is there already" in failed.err and there.read_text() == "mine"
    assert run("user", "show", HER).code == 0, "nothing was erased without its export"


def test_what_is_no_identity_is_refused_with_an_example_of_one(run: Run) -> None:
    for words in (("user", "add", "bob"), ("route", "test", "web:home", "--sender", "bob")):
        refused = run(*words)
        assert refused.code == 1 and "'bob' is not an address; it should look like telegram:user/9" in refused.err


def test_the_language_that_was_chosen_for_somebody_is_said(run: Run) -> None:
    assert run("user", "add", CHAT, "--name", "Ann").code == 0
    assert run("user", "language", "de", "--id", CHAT).out == f"{CHAT} (Ann): Deutsch\n"
    assert "no language: the page follows the browser" in run("user", "language", "", "--id", CHAT).out
