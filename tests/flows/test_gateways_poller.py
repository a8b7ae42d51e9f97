"""One gateway polls a platform that allows no second poll, through three takeovers."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gatepost.testing.postgres import PACKAGE, find_programs
from gatepost.testing.storm_poller import run_poller_storm

pytestmark = pytest.mark.skipif(
    find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"
)


@pytest.mark.slow
def test_a_thousand_updates_through_three_takeovers(tmp_path: Path, figures: Callable[[str], None]) -> None:
    counts = run_poller_storm(tmp_path)
    figures(f"poller: {counts}")
    assert counts.list_faults() == []
