"""`gatepost alert`: what is not well, as an operator reads it."""

import shlex
from collections.abc import Callable
from typing import Any

import pytest

from gatepost.cli.commands.alerts import OWN, alert_command
from gatepost.core.clock import SystemClock
from gatepost.core.home import Home
from gatepost.serve.alerts.conditions import CONDITIONS, render_command
from gatepost.serve.control.arguments.alerts import AlertState
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.gateways import alerts
from gatepost.store.gateways.alerts import Alert, AlertKey

Run = Callable[..., Any]


@pytest.fixture
def alert_id(run: Run, home: Home) -> str:
    assert run("group", "add", "acme").code == 0  # which makes the store
    connection = connect(home.store)
    db = SqliteDb(connection)
    alerts.begin(db, AlertKey("agent", "acme"), "", SystemClock().now())
    found = alerts.list_open(db)[0].id
    connection.close()
    return found


def test_an_alert_is_listed_muted_and_told_of_again_without_a_gateway(run: Run, alert_id: str) -> None:
    listed = run("alert", "list")
    assert (
        listed.code == 0
        and "Nothing is answered by acme any more, because it fails." in listed.out
        and "nobody yet" in listed.out
        and "\n    gatepost group show acme\n" in listed.out
    )
    assert (
        "is muted: Nothing is answered by acme any more, because it fails."
        in run("alert", "mute", alert_id, "--hours", "2").out
    )
    assert [each["state"] for each in run("alert", "list", "--json").json] == [AlertState.MUTED]
    assert "is told of again" in run("alert", "mute", alert_id, "--hours", "0").out


def test_nothing_that_is_not_well_is_said_in_words_and_an_unknown_alert_names_the_list(run: Run) -> None:
    run("group", "add", "acme")
    assert "everything is well" in run("alert", "list").out
    unknown = run("alert", "mute", "al-nobody")
    assert unknown.code != 0 and "gatepost alert list" in unknown.err


def test_a_test_needs_a_gateway_and_says_so(run: Run) -> None:
    assert {"list", "mute", "test"} <= alert_command.commands.keys() and "told" in OWN
    run("group", "add", "acme")
    assert run("alert", "test").code != 0


@pytest.mark.parametrize("condition", [each.key for each in CONDITIONS.values() if each.command])
def test_the_command_of_an_alert_is_one_that_there_is_and_can_be_copied(run: Run, condition: str) -> None:
    alert = Alert(id="al-1", condition=condition, subject="b; rm -rf x", gateway="", detail="2", since=1)
    words = shlex.split(render_command(alert))
    assert words[0] == "gatepost" and set(words).isdisjoint({"b;", "rm"})
    assert run(*words[1:], "--help").code == 0
