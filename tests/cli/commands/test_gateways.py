"""`gatepost gateway` on a store that is a file: there is one gateway, and nothing to drain. `gatepost panic`, with
it down and up."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatepost.cli import output
from gatepost.core.clock import SECOND
from gatepost.core.home import Home
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.gateways import gateways
from gatepost.store.gateways.gateway_identity import find_mark
from gatepost.store.gateways.gateways import GatewayIdentity
from gatepost_testing.daemon import DaemonProcess

Run = Callable[..., Any]


def test_a_store_of_one_machine_says_so_in_one_line(home: Home, run: Run) -> None:
    shown = run("gateway", "list")
    assert shown.code == 0
    assert shown.out.splitlines() == [
        "this store is a file of one machine, so it has one gateway; docs/scale.md tells how several share one"
    ]
    assert run("gateway", "list", "--json").json == []
    refused = run("gateway", "drain", "a")
    assert refused.code != 0 and "gatepost gateway list" in refused.err


def test_the_list_counts_duties_and_show_names_them(home: Home, run: Run) -> None:
    names = [f"channel/a-channel-with-a-long-name-{number}" for number in range(6)]
    connection = connect(home.store)
    db = SqliteDb(connection)
    new = GatewayIdentity(name="first", home="/srv/first", host="one.example", version="1.0", schema_number=49)
    gateways.register(db, new, SECOND, 1, 1)
    gateways.claim_duties(db, names, "first", 1)
    connection.close()
    head, row = run("gateway", "list").out.splitlines()
    assert "duties" in head and row.split().count("6") == 1
    assert max(len(head), len(row)) <= output.WIDTH
    assert f"duties     {', '.join(names)}" in run("gateway", "show", "first").out


def test_a_home_of_a_database_that_is_not_named_is_said_to_be_one(home: Home, run: Run) -> None:
    home.store.unlink(missing_ok=True)
    find_mark(home)
    belongs = "belongs to a database, and none is named; set store.url or GATEPOST_STORE_URL"
    for words in (("gateway", "list"), ("group", "add", "acme"), ("group", "list"), ("gateway", "forget", "a")):
        refused = run(*words)
        assert refused.code == 1 and belongs in refused.err
    assert belongs in run("status").out
    assert not home.store.exists()


@pytest.mark.slow
def test_it_is_set_with_the_gateway_down_holds_when_it_comes_up_and_is_seen_everywhere(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path / "home", sandbox_kind="process")
    assert daemon.gatepost("group", "add", "acme").returncode == 0  # which makes a home
    set_down = daemon.json("panic", "--reason", "a bad night")
    with daemon:
        waiting = daemon.gatepost("chat", "-m", "hello", "--wait", "--timeout", "1")
        told = [row["text"] for row in daemon.json("ledger", "list") if row["direction"] == "out"]
        status, shown = daemon.json("status"), daemon.gatepost("status").stdout
        doctor = daemon.gatepost("doctor").stdout
        again = daemon.gatepost("panic").stdout
        account = daemon.json("ledger", "check")
        off = daemon.gatepost("panic", "--off").stdout
        twice = daemon.gatepost("panic", "--off").stdout
        answered = daemon.gatepost("chat", "-m", "are you there", "--wait")

    assert (set_down["on"], set_down["changed"], set_down["ended"]) == (True, True, 0)
    assert waiting.returncode == 1 and "is queued" in waiting.stderr
    assert len(told) == 1 and "has stopped everything" in told[0]
    assert (status["awake"], status["store"]["panic"]["reason"]) == (0, "a bad night")
    assert "panic" in shown and "a bad night" in shown and "gatepost panic --off" in shown
    assert "panic" in doctor and "a bad night" in doctor
    assert "it was already, since" in again
    assert (account["unaccounted"], account["in_flight"]) == (0, 1)
    assert off.startswith("panic is off") and twice.startswith("panic was not on")
    assert answered.returncode == 0 and answered.stdout.strip()


def test_a_reason_for_turning_it_off_is_a_mistake(tmp_path: Path) -> None:
    done = DaemonProcess(tmp_path / "home").gatepost("panic", "--off", "--reason", "enough")

    assert done.returncode == 2 and "--reason" in done.stderr


def test_the_doctor_judges_how_a_home_is_set_up_and_mends_what_is_safe(run: Run, home: Home) -> None:
    home.store.chmod(0o644)
    judged = run("doctor", "--security", "--json")
    found = {each["subject"]: each for each in judged.json["findings"]}
    assert judged.code == 1 and found["secrets in files"]["mend"]["operation"] == "home.close"
    assert "gatepost.db" in found["secrets in files"]["text"] and found["backups"]["remedy"]
    mended = run("doctor", "--security", "--fix")
    assert "secrets in files" not in mended.out and home.store.stat().st_mode & 0o077 == 0
    assert "gatepost backup create --prove" in mended.out


def test_a_panic_where_there_is_no_gateway_says_so_and_makes_no_home(run: Run, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    for words in (("panic", "--reason", "help"), ("panic", "--off")):
        done = run("--home", str(wrong), *words)
        assert done.code == 1 and str(wrong) in done.err and "panic is on" not in done.out
    assert not wrong.exists()


def test_a_command_that_makes_a_home_names_it(run: Run, tmp_path: Path) -> None:
    set_budget = ("--home", str(tmp_path / "new"), "budget", "set", "home", "--daily")
    assert f"a new home was made: {tmp_path / 'new'}" in run(*set_budget, "1").err
    assert "a new home" not in run(*set_budget, "2").err
