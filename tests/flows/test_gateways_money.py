"""Four gateways on one budget, one of them killed while its calls are in flight."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gatepost_testing.servers.postgres import PACKAGE, PostgresServer, find_programs
from gatepost_testing.storms.money import LIMIT, run_money_storm

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"),
]

# What one gateway has to itself while it decides is not its alone any more.
WITHOUT_LOCK = """
from gatepost.store.port import LockKind
from gatepost.store.postgres.postgres_db import PostgresDb

_lock = PostgresDb.lock

def lock(self, kind, *key):
    if kind is LockKind.MONEY:
        self.rows("SELECT pg_sleep(0.01)")
    else:
        _lock(self, kind, *key)

PostgresDb.lock = lock
"""


def test_four_gateways_never_pass_a_budget_together_and_a_killed_one_pays(
    tmp_path: Path, figures: Callable[[str], None]
) -> None:
    with PostgresServer() as server:
        counts = run_money_storm(server, tmp_path)
    figures(f"money: {counts}")
    assert counts.list_faults() == []
    assert counts.calls == 3 * 50


def test_without_the_lock_they_pass_it_and_the_judge_sees_it(tmp_path: Path, figures: Callable[[str], None]) -> None:
    (tmp_path / "patch").mkdir()
    (tmp_path / "patch" / "sitecustomize.py").write_text(WITHOUT_LOCK)
    with PostgresServer() as server:
        counts = run_money_storm(server, tmp_path, env={"PYTHONPATH": str(tmp_path / "patch")})
    figures(f"money without `alone`: {counts}")
    assert counts.peak > LIMIT and counts.list_faults()
