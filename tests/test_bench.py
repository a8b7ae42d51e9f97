"""The bench measures what is there: every part of it runs, with a few calls. What the figures are is its own affair."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parent.parent / "bench"
TIMEOUT_S = 280  # the parts on PostgreSQL take two minutes on a busy machine
PARTS = {
    "replies": "print(uvloop.run(run.replies('process')))",
    "rates": "print(uvloop.run(run.ingest_per_s(64)), uvloop.run(run.deliver_per_s(100)))",
    "tools": "print(uvloop.run(run.tools(40)))",
    "gate": "print(uvloop.run(run.permission()))",
    "embed": "print(run.table(uvloop.run(run.embed.figures(1, 1, 20))))",
    "neighbours": "print(run.table(run.neighbours.figures(['busy_loop', 'page_views'], 2)))",
    "growth": (
        "print(uvloop.run(run.growth.warm_replies(400, 5)), uvloop.run(run.growth.new_rooms_per_s('process', 4)),"
        " uvloop.run(run.growth.quiet_beside_flood('process', 5, 4)))"
    ),
    "telegram_rooms": "print(run.table(uvloop.run(run.telegram_rooms.figures(1, 20, 60, 6))))",
    "dashboard": "print(run.table(uvloop.run(run.dashboard.figures(40, 400, 60, 2))))",
    "browser": "print(run.table(uvloop.run(run.browser.figures(40, 400, 60, 8, 3))))",
    "drafts": "print(run.table(run.drafts.figures(100, 2)))",
    "schedule_tick": "print(run.table(run.schedule_tick.figures(20, 60, 3)))",
    "postgres": "print(run.table(uvloop.run(run.postgres.figures(10, 128))))",
    "streamable": "print(run.table(uvloop.run(run.streamable.figures(1, 1, 20))))",
}


@pytest.mark.alone
@pytest.mark.parametrize("part", PARTS)
def test_every_part_of_the_bench_runs(part: str) -> None:
    code = f"import sys; sys.path.insert(0, {str(BENCH)!r}); import run, uvloop; {PARTS[part]}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "_right_of_50" not in done.stdout or "= 50          ✓" in done.stdout
