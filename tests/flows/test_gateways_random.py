"""Two gateways that are killed at random moments and started again, and the faults that the judge must see."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gatepost_testing.servers.postgres import PACKAGE, find_programs
from gatepost_testing.storms.mixed import FAULTS, SMALL_RANDOM, run_random_storm
from gatepost_testing.storms.storm import SEED

pytestmark = [
    pytest.mark.alone,
    pytest.mark.timeout(600),
    pytest.mark.skipif(find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"),
]


def test_kills_at_random_moments_lose_nothing_and_say_nothing_twice(
    tmp_path: Path, figures: Callable[[str], None]
) -> None:
    counts = run_random_storm(tmp_path, SEED, size=SMALL_RANDOM, kills=6)
    figures(f"random: {counts.render()}")
    assert counts.list_faults() == []


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(tmp_path: Path, figures: Callable[[str], None], fault: str) -> None:
    counts = run_random_storm(tmp_path, SEED, size=SMALL_RANDOM, kills=6, fault=fault)
    figures(f"random with {fault}: {counts.render()}")
    assert counts.verdict.doubled > 0
