"""`gatepost gateway` on a store that is a file: there is one gateway, and nothing to drain."""

from collections.abc import Callable
from typing import Any

from gatepost.cli import output
from gatepost.core.clock import SECOND
from gatepost.core.home import Home
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.gateways import gateways
from gatepost.store.gateways.gateway_identity import find_mark
from gatepost.store.gateways.gateways import GatewayIdentity

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
