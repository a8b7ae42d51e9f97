"""`gatepost user`, `pair` and `unpair` on a home whose gateway is down."""

from collections.abc import Callable
from typing import Any

from gatepost.core.clock import SystemClock
from gatepost.core.home import Home
from gatepost.flow import pairing
from gatepost.store import direct_rooms
from gatepost.store.sqlite_store import SqliteDb, connect

Run = Callable[..., Any]
CHAT = "telegram:user/9"


def send(home: Home, shown: str) -> bool:
    """Somebody sends the code while the gateway takes messages."""
    connection, now = connect(home.store), SystemClock().now()
    db = SqliteDb(connection)
    done = pairing.redeem_code(db, pairing.parse_code(shown), CHAT, now).paired
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
