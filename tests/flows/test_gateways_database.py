"""Two gateways whose database goes away in the middle of the work, and comes back: everything is answered once, and
nobody takes over from anybody."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gatepost_testing.servers.postgres import PACKAGE, find_programs
from gatepost_testing.storms.database import run_database_storm
from gatepost_testing.storms.storm import SEED

pytestmark = pytest.mark.skipif(
    find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"
)


@pytest.mark.alone
def test_a_database_that_crashes_and_comes_back_loses_and_doubles_nothing(
    tmp_path: Path, figures: Callable[[str], None]
) -> None:
    counts = run_database_storm(tmp_path, SEED)
    assert counts.list_faults() == []
    figures(counts.render())
