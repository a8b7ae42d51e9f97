"""`gatepost egress`: allow, deny, rm, list, log, with the gateway down."""

from collections.abc import Callable
from typing import Any

from gatepost.core.home import Home
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.rights import audit, egress
from gatepost.store.rights.egress import EgressOutcome

Run = Callable[..., Any]


def test_a_rule_is_made_changed_and_removed(run: Run, home: Home) -> None:
    made = run("egress", "allow", "Example.com.", "--json")
    local = run("egress", "allow", "localhost:8080", "--folder", "home")
    turned = run("egress", "deny", "example.com")

    assert (made.code, made.json["host"], made.json["port"], made.json["local"]) == (0, "example.com", 0, False)
    assert "localhost:8080 is allowed for home and below" in local.out
    assert "example.com is denied on every port for every group" in turned.out
    listed = run("egress", "list", "--json").json
    assert [(each["host"], each["allow"], each["local"]) for each in listed] == [
        ("example.com", False, False),
        ("localhost", True, True),
    ]
    assert [each["host"] for each in run("egress", "list", "--folder", "acme", "--json").json] == ["example.com"]
    assert "is removed" in run("egress", "rm", str(made.json["id"])).out
    assert run("egress", "rm", str(made.json["id"])).code == 1
    assert "home" in run("egress", "list").out
    actions = [row[3] for row in audit.list_latest(SqliteDb(connect(home.store)), 10)]
    assert actions == ["egress.rm", "egress.deny", "egress.allow", "egress.allow"]


def test_what_cannot_be_allowed_is_said(run: Run) -> None:
    literal, ghost = run("egress", "allow", "10.0.0.1:80"), run("egress", "allow", "a.com", "--folder", "nobody")
    assert (literal.code, ghost.code) == (1, 1)
    assert "only names can be allowed" in literal.err
    assert "no group named 'nobody'" in ghost.err


def test_a_rule_is_removed_by_its_id_alone(run: Run) -> None:
    told = run("egress", "rm", "example.com")

    assert told.code == 1 and "'example.com' is not a rule's id; `gatepost egress list` shows them" in told.err


def test_this_machine_without_a_port_is_told_that_it_needs_one(run: Run) -> None:
    assert "gatepost egress allow localhost:PORT" in run("egress", "allow", "localhost").out
    assert "PORT" not in run("egress", "allow", "localhost:8080").out
    assert "PORT" not in run("egress", "deny", "localhost").out


def test_the_log_counts_what_was_tried(run: Run, home: Home) -> None:
    assert run("egress", "allow", "a.com").code == 0
    db = SqliteDb(connect(home.store))
    assert egress.record_attempt(db, "acme", "s", "evil.com:443", EgressOutcome.DENIED, "not allowed", 1_000_000)
    assert not egress.record_attempt(db, "acme", "s", "evil.com:443", EgressOutcome.DENIED, "not allowed", 2_000_000)
    egress.record_attempt(db, "acme", "s", "a.com:443", EgressOutcome.ALLOWED, "", 3_000_000)

    assert [each["target"] for each in run("egress", "log", "--json").json] == ["evil.com:443", "a.com:443"]
    denied = run("egress", "log", "--denied", "--json").json
    assert [(each["times"], each["reason"]) for each in denied] == [(2, "not allowed")]
    assert "evil.com:443" in run("egress", "log").out
    assert "nothing was tried yet" in run("egress", "log", "--folder", "other").out
