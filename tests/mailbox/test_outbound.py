"""outbound.db: the runner's own file."""

import json
import os
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from gatepost.mailbox.outbound import OutboundDb, OutboundRow


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "outbound.db"


def a_result(part: int, text: str = "hello", **changes: object) -> OutboundRow:
    fields: dict[str, object] = {"turn": "t-1", "epoch": 3, "attempt": 1, "part": part, "text": text}
    return OutboundRow(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_result_stays_until_the_host_has_it(path: Path) -> None:
    first, second = a_result(1), a_result(2, "bye", to="ops", in_reply_to=7)
    box = OutboundDb(path)
    box.add(first)
    box.add(second)
    box.mark_acked([first.id])
    box.close()

    again = OutboundDb(path)
    assert again.list_unacked() == [second]
    again.prune()
    again.mark_acked([second.id])
    assert again.list_unacked() == []


def test_the_same_result_twice_is_one_row_with_one_number(path: Path) -> None:
    box = OutboundDb(path)

    assert box.add(a_result(1)) == box.add(a_result(1))
    assert len(box.list_unacked()) == 1


def test_a_number_is_not_given_again_after_pruning(path: Path) -> None:
    box = OutboundDb(path)
    first = box.add(a_result(1))
    box.mark_acked([a_result(1).id])
    box.prune()

    assert box.add(a_result(2)) > first


def test_marks_are_kept_and_forgotten(path: Path) -> None:
    box = OutboundDb(path)
    box.mark([1, 2, 3], "processing")
    box.mark([2], "completed")
    box.remove_marks("processing", but=[3])

    assert box.list_marked("processing") == {3}
    assert box.list_marked("completed") == {2}


def test_the_running_tool_is_remembered(path: Path) -> None:
    box = OutboundDb(path)
    box.tool("Bash", 600.0)

    with apsw.Connection(str(path)) as db:
        assert db.execute("SELECT current_tool, tool_declared_timeout_ms FROM container_state").fetchall() == [
            ("Bash", 600_000)
        ]


@pytest.mark.parametrize("harm", ["rubbish", "foreign tables", "foreign content"])
def test_a_broken_file_is_moved_aside_and_said(path: Path, harm: str) -> None:
    if harm == "rubbish":
        path.write_bytes(b"rubbish" * 1000)
    elif harm == "foreign tables":
        with apsw.Connection(str(path)) as db:
            db.execute("CREATE TABLE messages_out (x)")
    else:
        OutboundDb(path).add(a_result(1))
        with apsw.Connection(str(path)) as db:
            db.execute("UPDATE messages_out SET content = 'not json'")

    box = OutboundDb(path)
    box.add(a_result(1))

    assert "outbound.db.broken" in box.trouble
    assert path.with_name("outbound.db.broken").exists()
    assert len(box.list_unacked()) == 1


WRITER = """
import json, sys
from pathlib import Path
from gatepost.mailbox.outbound import OutboundDb, OutboundRow
box = OutboundDb(Path(sys.argv[1]))
name = sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
print(json.dumps([box.add(OutboundRow(turn=name, epoch=1, attempt=1, part=n, text="x")) for n in range(1, 51)]))
"""


def test_nanoclaw_28_and_d11_two_writers_inside_never_take_the_same_number(path: Path) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for name in ("runner", "tool")
    ]
    for writer in writers:
        assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
    numbers = []
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        answer, _ = writer.communicate(timeout=60)
        mine = json.loads(answer)
        assert mine == sorted(mine)
        numbers += mine

    assert len(set(numbers)) == 100


DIE_IN_A_TRANSACTION = """
import os, signal, sys
from pathlib import Path
from gatepost.mailbox.outbound import OutboundDb, OutboundRow
box = OutboundDb(Path(sys.argv[1]))
box.add(OutboundRow(turn="t", epoch=1, attempt=1, part=1, text="kept"))
box._db.execute("PRAGMA cache_spill=1; PRAGMA cache_size=1; BEGIN IMMEDIATE").fetchall()
box._db.execute("DELETE FROM messages_out")
box._db.execute("CREATE TABLE filler AS WITH n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 3000)"
                " SELECT x, hex(randomblob(200)) FROM n")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nanoclaw_26_a_runner_killed_in_a_transaction_loses_no_earlier_result(path: Path) -> None:
    subprocess.run([sys.executable, "-c", DIE_IN_A_TRANSACTION, str(path)], check=False, env=os.environ)

    assert [row.text for row in OutboundDb(path).list_unacked()] == ["kept"]


def test_a_commit_does_not_wait_for_the_disk(path: Path) -> None:
    box = OutboundDb(path)
    box.add(a_result(1))

    assert box._db.pragma("journal_mode") == "wal"
    assert box._db.pragma("synchronous") == 1  # NORMAL: only a checkpoint does


def test_the_log_stays_small_while_it_is_written_and_goes_with_the_end(tmp_path: Path) -> None:
    path = tmp_path / "outbound.db"
    box, log = OutboundDb(path), tmp_path / "outbound.db-wal"
    for part in range(500):
        row = OutboundRow(turn="t", epoch=1, attempt=1, part=part, text="x" * 2000)
        box.add(row)
        box.mark_acked([row.id])
        box.prune()
    assert log.stat().st_size < 512 * 1024, "who is killed leaves no more than this"
    box.close()
    assert not log.exists()
