"""`gatepost audit verify` on a home that was used: what was changed since shows, and names the row."""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatepost.cli.commands.logs import render_chains, render_heads
from gatepost.core.home import Home
from gatepost.store.engine.readonly import read_snapshot
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.rights import audit
from gatepost_testing import fork_server

Run = Callable[..., Any]
ROWS = 7


@pytest.fixture
def home(bare_home: Home) -> Home:
    """Filled from one that was used."""
    return bare_home


@pytest.fixture(scope="module")
def once_used(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home that people worked with, with the daemon down."""
    made = Home(tmp_path_factory.mktemp("used") / "home")
    for number in range(ROWS):
        assert fork_server.run(["--home", str(made.path), "group", "add", f"g{number}"], os.environ).returncode == 0
    with_sql(made, "PRAGMA wal_checkpoint(TRUNCATE)")
    return made


@pytest.fixture(autouse=True)
def used(once_used: Home, home: Home) -> None:
    shutil.copytree(once_used.path, home.path, symlinks=True)


def with_sql(home: Home, sql: str) -> list[Any]:
    connection = connect(home.store)
    try:
        return list(connection.execute(sql))
    finally:
        connection.close()


@pytest.mark.slow
def test_a_used_home_is_clean_and_tells_its_head(run: Run, home: Home) -> None:
    told = run("audit", "verify", "--json")

    ((seq, chained),) = with_sql(home, "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1")
    assert told.code == 0
    assert told.json == {
        "rows": seq,
        "repeated": 0,
        "whole": True,
        "first_bad": None,
        "trouble": "",
        "head": f"{seq}:{chained}",
        "broken_chain": "",
        "chains": {},
    }
    assert f"its head is {seq}:{chained}" in run("audit", "verify").out
    assert run("status", "--json").json["store"]["audit_head"] == f"{seq}:{chained}"


@pytest.mark.slow
def test_stranger_07_the_chain_tells_how_many_events_are_only_counted(run: Run, home: Home) -> None:
    async def count() -> None:
        store = SqliteStore(home.store, readers=1)
        details = {"repeated": 12345, "session": "s-1", "since": "", "until": ""}
        await store.write(audit.append, audit.AuditRecord(1, "agent:acme", "send", "refused", details))
        store.close()

    asyncio.run(count())
    assert "(12,345 further events are only counted in them)" in run("audit", "verify").out
    assert run("audit", "verify", "--json").json["repeated"] == 12345


@pytest.mark.parametrize("column", ["at", "actor", "action", "verdict", "details", "details_hash", "previous", "hash"])
def test_a_value_that_was_changed_by_sql_is_named_by_its_row(run: Run, home: Home, column: str) -> None:
    value = "at + 1" if column == "at" else f"'~' || substr({column}, 2)"
    with_sql(home, f"UPDATE audit SET {column} = {value} WHERE seq = 3")

    told = run("audit", "verify")

    assert told.code == 1
    assert "row 3 does not hold" in told.out
    assert run("audit", "verify", "--json").json["first_bad"] == 3


def cells(home: Home, seq: int) -> range:
    """Return where in the file the row lies: from its size to the end of its hash, which is its last column."""
    ((chained, before),) = with_sql(home, f"SELECT hash, previous FROM audit WHERE seq = {seq}")
    pages = {page for (page,) in with_sql(home, "SELECT pageno FROM dbstat WHERE name = 'audit' AND pagetype = 'leaf'")}
    ((size,),) = with_sql(home, "PRAGMA page_size")
    raw = home.store.read_bytes()
    at = raw.index(f"{before}{chained}".encode())
    assert at // size + 1 in pages
    ((length,),) = with_sql(
        home,
        "SELECT length(actor) + length(action) + length(verdict) + length(CAST(details AS BLOB)) + 192 + 8"
        f" FROM audit WHERE seq = {seq}",
    )
    return range(at + 128 - length - 14, at + 128)  # sizes and kinds of nine columns, and the row's number


def flip(path: Path, at: int, bits: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        (found,) = file.read(1)
        file.seek(at)
        file.write(bytes([found ^ bits]))


def verdict(path: Path) -> tuple[int | None, str]:
    _, bad = read_snapshot(path, audit.verify)
    return bad, "" if bad is not None else read_snapshot(path, audit.find_damage)


@pytest.mark.slow
@pytest.mark.parametrize("bits", [0x01, 0x20, 0x80])
def test_a_byte_that_was_flipped_anywhere_in_a_row_shows(home: Home, bits: int) -> None:
    place = cells(home, 4)
    unseen, named = [], set()

    for at in place:
        flip(home.store, at, bits)
        bad, damaged = verdict(home.store)
        flip(home.store, at, bits)
        named.add(bad)
        if bad is None and not damaged:
            unseen.append(at - place.start)

    assert unseen == []
    assert 4 in named and named <= {None, 4}
    assert verdict(home.store) == (None, "")


@pytest.mark.parametrize("column", ["verdict", "details", "hash"])
def test_a_byte_that_was_flipped_in_the_file_is_named_by_its_row(run: Run, home: Home, column: str) -> None:
    ((value, whole),) = with_sql(home, f"SELECT {column}, actor || action || verdict || details FROM audit WHERE seq=5")
    raw = home.store.read_bytes()
    start = raw.index(whole.encode())
    flip(home.store, raw.index(value.encode(), start), 0x80)  # no UTF-8 any more

    told = run("audit", "verify")

    assert (told.code, "row 5 does not hold" in told.out, "Traceback" in told.err) == (1, True, False)


def test_rows_that_were_cut_off_show_by_a_head_that_was_kept(run: Run, home: Home) -> None:
    kept = run("audit", "verify", "--json").json["head"]
    with_sql(home, f"DELETE FROM audit WHERE seq > {ROWS - 2}")

    assert run("audit", "verify").code == 0  # the chain alone cannot show it
    told = run("audit", "verify", "--head", kept)
    assert told.code == 1 and f"row {kept.partition(':')[0]} is not the one that was the head" in told.out


def test_a_chain_that_was_written_anew_shows_by_a_head_that_was_kept(run: Run, home: Home) -> None:
    kept = run("audit", "verify", "--json").json["head"]
    rows = with_sql(home, "SELECT at, actor, action, verdict FROM audit ORDER BY seq")
    with_sql(home, "DELETE FROM audit")
    connection = connect(home.store)
    audit.append(SqliteDb(connection), *(audit.AuditRecord(*row, {"false": True}) for row in rows))  # type: ignore[call-arg]
    connection.close()

    assert run("audit", "verify").code == 0
    assert run("audit", "verify", "--head", kept).code == 1


def test_a_head_that_was_kept_still_holds_when_more_was_done(run: Run) -> None:
    kept = run("audit", "verify", "--json").json["head"]
    run("group", "add", "later")

    assert run("audit", "verify", "--head", kept).code == 0
    assert run("audit", "verify", "--head", "0:" + audit.START).code == 0


def test_a_head_that_is_none_is_refused(run: Run) -> None:
    told = run("audit", "verify", "--head", "abc")
    assert told.code != 0 and "SEQ:HASH" in told.err


@pytest.mark.parametrize(
    ("heads", "held", "told"),
    [
        (["7:a"], "the chain of 7 rows holds", "its head is 7:a"),
        (["b/7:a"], "the chain of 1 gateway holds, 7 rows", "its head is b/7:a"),
        (["b/4:a", "c/3:d"], "the chains of 2 gateways hold, 7 rows", "their heads are b/4:a, c/3:d"),
        (
            ["4:a", "c/3:d"],
            "the chains of 1 gateway and of commands by themselves hold, 7 rows",
            "their heads are 4:a (commands by themselves), c/3:d",
        ),
    ],
)
def test_each_chain_has_a_name_in_words(heads: list[str], held: str, told: str) -> None:
    assert render_chains(7, sum("/" in each for each in heads), len(heads)) == held
    assert render_heads(heads) == told
