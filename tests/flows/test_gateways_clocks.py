"""Two gateways on one database, one of them on a machine whose clock is wrong: the database's time counts."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.servers.postgres import PACKAGE, find_programs
from gatepost_testing.storms.cluster import Cluster, find_faketime
from gatepost_testing.waiting import PATIENCE_S, block_until

from .channel_desk import SETTINGS

OFF_S = 600
FAILS_ONCE = ScriptBuilder().otherwise().error("overloaded", kind="retryable", times=1).say("echo: {text}")

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"),
    pytest.mark.skipif(find_faketime() is None, reason="faketime is not installed: apt-get install faketime"),
]


def list_moments(cluster: Cluster) -> list[float]:
    """Return what the gateways wrote down as times, in seconds."""
    rows = cluster.query(
        "SELECT accepted_at FROM messages UNION ALL SELECT started_at FROM turns UNION ALL SELECT at FROM audit"
        " UNION ALL SELECT started_at FROM gateways"
    )
    return [int(row[0]) / 1e6 for row in rows]


@pytest.mark.parametrize("off_s", [OFF_S, -OFF_S], ids=["ahead", "behind"])
def test_tasks_retries_and_rows_of_a_gateway_with_a_wrong_clock_are_as_with_a_right_one(
    tmp_path: Path, off_s: int
) -> None:
    begun = time.time()
    with Cluster(tmp_path, ("a", "b"), **SETTINGS) as cluster:
        assert cluster.first.gatepost("secret", "rotate").returncode == 0
        cluster.share_keys()
        cluster.skew("a", off_s)
        a, b = cluster["a"].start(), cluster["b"]
        FAILS_ONCE.write(a.home / "groups" / "home").chmod(0o644)
        block_until(lambda: cluster.find_holder("schedule") == "a", "a to have the schedule")
        told = a.gatepost("chat", "-m", "hello", "--wait")
        assert "echo: hello" in told.stdout, (told.stdout, told.stderr)

        added = time.time()
        made = a.gatepost("task", "add", "home", "--text", "tea", "--at", "+4s", "--room", "terminal:main")
        assert made.returncode == 0, made.stderr
        block_until(lambda: count_said(cluster, "tea") == 1, "the task to fire")
        assert time.time() >= added + 4
        assert cluster.find_holder("schedule") == "a"
        b.start()  # duties are spread from here on

        assert {each["name"]: each["alive"] for each in b.json("gateway", "list")} == {"a": True, "b": True}
        moments = list_moments(cluster)
        assert len(moments) > 5
        assert begun - 5 < min(moments) and max(moments) < time.time() + 5
        doctor = subprocess.run(
            [sys.executable, "-m", "gatepost", "doctor"],
            env=a.env,
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE_S,
            check=False,
        )
        assert f"clock is {OFF_S} s {'ahead of' if off_s > 0 else 'behind'} the database's" in doctor.stdout


def count_said(cluster: Cluster, text: str) -> int:
    rows = cluster.query(f"SELECT COUNT(*) FROM outbox WHERE state = 'sent' AND payload LIKE '%{text}%'")
    return int(rows[0][0])
