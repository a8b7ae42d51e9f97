"""inbound.db: projected by the host, read by the runner."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from gatepost.mailbox import inbound
from gatepost.mailbox.inbound import (
    InboundRow,
    InboundWriter,
    MailboxCorrupt,
    MailboxDestination,
    MailboxLocked,
    SessionRouting,
)

NOON = 1_800_000_000_000_000
ROUTING = SessionRouting("web", "web:home/1", "")
OPS = MailboxDestination(name="ops", channel_type="slack", platform_id="slack:T1/channel/C9")


def a_row(number: int, **changes: object) -> InboundRow:
    fields: dict[str, object] = {
        "id": number + 100,
        "seq": number,
        "kind": "chat",
        "timestamp": NOON + number,
        "content": {"text": f"message {number}", "senderName": "Ann"},
    }
    return InboundRow(**{**fields, **changes})  # type: ignore[arg-type]


def project(path: Path, *rows: InboundRow) -> None:
    with closing(InboundWriter(path)) as writer:
        writer.project(rows, ROUTING, [OPS])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "inbound.db"


def test_what_was_projected_is_read_oldest_first(path: Path) -> None:
    rows = [a_row(1), a_row(2, kind="task", tries=2, thread_id="t", trigger=0)]
    project(path, *reversed(rows))

    assert inbound.list_pending(path) == rows
    assert inbound.list_rows(path, [102, 999]) == rows[1:]
    assert inbound.list_destinations(path) == [
        MailboxDestination(name="ops", display_name="ops", channel_type="slack", platform_id="slack:T1/channel/C9")
    ]


def test_projecting_twice_changes_nothing(path: Path) -> None:
    project(path, a_row(1), a_row(2))
    before = path.read_bytes()
    project(path, a_row(1), a_row(2))

    assert [row.seq for row in inbound.list_pending(path)] == [1, 2]
    assert len(path.read_bytes()) == len(before)


def test_a_row_that_ended_is_gone_with_the_next_projection(path: Path) -> None:
    project(path, a_row(1), a_row(2))
    project(path, a_row(2), a_row(3))

    assert [row.seq for row in inbound.list_pending(path)] == [2, 3]


def test_a_projection_computed_earlier_does_not_take_a_newer_row_away(path: Path) -> None:
    project(path, a_row(1), a_row(2))
    project(path, a_row(1))

    assert [row.seq for row in inbound.list_pending(path)] == [1, 2]


def test_a_changed_status_is_carried_over(path: Path) -> None:
    project(path, a_row(1), a_row(2))
    project(path, a_row(1, status="paused"), a_row(2, tries=3))

    [row] = inbound.list_pending(path)
    assert (row.seq, row.tries) == (2, 3)


def test_the_file_does_not_grow_without_bound(path: Path) -> None:
    for number in range(1, 400):
        project(path, a_row(number, content={"text": "x" * 2000}))

    assert path.stat().st_size < 100_000


def test_destinations_and_routing_are_rewritten_wholesale(path: Path) -> None:
    project(path, a_row(1))
    with closing(InboundWriter(path)) as writer:
        writer.project([a_row(1)], None, [])

    assert inbound.list_destinations(path) == []
    with apsw.Connection(str(path)) as db:
        assert db.execute("SELECT count(*) FROM session_routing").fetchall() == [(0,)]


def test_a_missing_or_empty_file_reads_as_try_again(path: Path) -> None:
    with pytest.raises(MailboxLocked):
        inbound.list_pending(path)
    path.touch()
    with pytest.raises(MailboxLocked):
        inbound.list_pending(path)


@pytest.mark.parametrize("harm", [b"this is not a database, by far" * 100, b"SQLite format 3\x00" + b"\xff" * 4096])
def test_a_corrupt_file_is_named_as_such_on_both_sides_and_rebuilt_with_the_same_numbers(
    path: Path, harm: bytes
) -> None:
    project(path, a_row(1), a_row(2))
    path.write_bytes(harm)

    with pytest.raises(MailboxCorrupt):
        inbound.list_pending(path)
    with pytest.raises(MailboxCorrupt):
        project(path, a_row(1), a_row(2))
    inbound.move_broken_aside(path)
    InboundWriter(path).rebuild([a_row(1), a_row(2)], ROUTING, [OPS])

    assert inbound.list_pending(path) == [a_row(1), a_row(2)]
    assert path.with_name("inbound.db.broken").read_bytes() == harm


def test_a_schema_that_is_not_ours_is_corrupt(path: Path) -> None:
    with apsw.Connection(str(path)) as db:
        db.execute("CREATE TABLE messages_in (x); PRAGMA user_version=1")
    with pytest.raises(MailboxCorrupt):
        inbound.list_pending(path)
    with pytest.raises(MailboxCorrupt):
        project(path, a_row(1))


def test_a_deleted_file_is_rebuilt(path: Path) -> None:
    project(path, a_row(1))
    path.unlink()
    project(path, a_row(1))

    assert inbound.list_pending(path) == [a_row(1)]


def test_an_old_journal_is_not_played_back_into_a_rebuilt_file(path: Path) -> None:
    project(path, a_row(1))
    journal = path.with_name("inbound.db-journal")
    journal.write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + b"\x01" * 600)
    InboundWriter(path).rebuild([a_row(2)], ROUTING, [])

    assert inbound.list_pending(path) == [a_row(2)]
    assert not journal.exists()


@pytest.mark.slow
def test_a_reader_that_keeps_its_lock_is_reported_as_locked(path: Path) -> None:
    project(path, a_row(1))
    hostile = apsw.Connection(str(path))
    hostile.execute("BEGIN EXCLUSIVE")

    with pytest.raises(MailboxLocked):
        project(path, a_row(1), a_row(2))
    with pytest.raises(MailboxLocked):
        inbound.list_pending(path)
    hostile.close()
    project(path, a_row(1), a_row(2))

    assert len(inbound.list_pending(path)) == 2


DIE_IN_A_TRANSACTION = """
import apsw, os, signal, sys
db = apsw.Connection(sys.argv[1])
db.execute("PRAGMA journal_mode=TRUNCATE; PRAGMA cache_spill=1; PRAGMA cache_size=1").fetchall()
db.execute("BEGIN IMMEDIATE")
db.execute("UPDATE messages_in SET content = '{\\"text\\": \\"half\\"}'")
db.execute("CREATE TABLE filler AS WITH n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 3000)"
           " SELECT x, hex(randomblob(200)) FROM n")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nanoclaw_26_and_d16_a_hot_journal_reads_as_try_again_and_the_next_projection_heals_it(path: Path) -> None:
    project(path, a_row(1))
    subprocess.run([sys.executable, "-c", DIE_IN_A_TRANSACTION, str(path)], check=False)
    journal = path.with_name("inbound.db-journal")
    assert journal.stat().st_size > 0

    # A reader on a read-only mount cannot roll it back; it says so instead of showing half of it.
    with pytest.raises(MailboxLocked):
        inbound.list_pending(path)
    project(path, a_row(1), a_row(2))

    assert inbound.list_pending(path) == [a_row(1), a_row(2)]


def test_a_kept_file_is_opened_again_when_another_lies_in_its_place(path: Path) -> None:
    kept = inbound.InboundWriter(path)
    kept.project([a_row(1)], ROUTING, [])
    path.unlink()
    kept.project([a_row(1), a_row(2)], ROUTING, [])
    assert inbound.list_pending(path) == [a_row(1), a_row(2)]

    path.write_bytes(b"no database" * 500)
    with pytest.raises(MailboxCorrupt):
        kept.project([a_row(2)], ROUTING, [])
    kept.rebuild([a_row(2)], ROUTING, [])
    kept.project([a_row(2), a_row(3)], ROUTING, [])
    assert inbound.list_pending(path) == [a_row(2), a_row(3)]
    kept.close()


def test_a_kept_file_has_the_names_that_were_given_last_and_a_new_one_in_its_place_too(path: Path) -> None:
    kept = inbound.InboundWriter(path)
    kept.project([a_row(1)], ROUTING, [OPS])
    kept.project([a_row(1), a_row(2)], ROUTING, [OPS])
    assert [each.name for each in inbound.list_destinations(path)] == ["ops"]

    path.unlink()
    kept.project([a_row(2)], ROUTING, [OPS])
    assert [each.name for each in inbound.list_destinations(path)] == ["ops"]

    kept.project([a_row(2)], ROUTING, [])
    assert inbound.list_destinations(path) == []
    kept.close()
