"""Connections that break at every COMMIT: no unit is lost, and none is done twice."""

from collections.abc import Callable

import pytest

from gatepost.store.postgres.unit_worker import UnitWorker
from gatepost_testing.servers.postgres import PACKAGE, PostgresServer, find_programs
from gatepost_testing.storms.backends import run_backends_storm

pytestmark = pytest.mark.skipif(
    find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"
)


@pytest.mark.alone
@pytest.mark.parametrize(("units", "lanes"), [(60, 1), (200, 4)])
def test_no_unit_is_lost_or_done_twice(units: int, lanes: int, figures: Callable[[str], None]) -> None:
    with PostgresServer() as server:
        counts = run_backends_storm(server, units=units, lanes=lanes)
    figures(f"backends: {counts}")
    assert counts.list_faults() == []


@pytest.mark.alone
@pytest.mark.parametrize("believed", [True, False])
def test_without_asking_the_server_the_judge_sees_it(
    believed: bool, monkeypatch: pytest.MonkeyPatch, figures: Callable[[str], None]
) -> None:
    monkeypatch.setattr(UnitWorker, "_is_committed", lambda self, number: believed)
    with PostgresServer() as server:
        counts = run_backends_storm(server, units=30)
    figures(f"backends, not asked: {counts}")
    assert (counts.rows < counts.units) if believed else (counts.rows > counts.units)
