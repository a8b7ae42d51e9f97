"""Two gateways on one database, one of them cut off from it and from the platform, and joined again. The platform's own
record is the judge: nothing is said twice, nothing is lost, and the one that was away serves again by itself."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gatepost_testing.servers.postgres import PACKAGE, find_programs
from gatepost_testing.storms.cut import CUT, SMALL_CUT, run_busy_cut_storm, run_cut_storm
from gatepost_testing.storms.network_link import find_link_hindrance
from gatepost_testing.storms.storm import SEED, StormSize

pytestmark = [
    pytest.mark.skipif(find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"),
    pytest.mark.alone,
]


@pytest.fixture(autouse=True)
def check_links() -> None:
    if hindrance := find_link_hindrance():
        pytest.skip(hindrance)


@pytest.mark.parametrize("size", [SMALL_CUT, CUT], ids=["small", "whole"])
def test_a_gateway_whose_link_is_down_says_nothing_twice_and_rejoins_by_itself(
    tmp_path: Path, figures: Callable[[str], None], size: StormSize
) -> None:
    counts = run_cut_storm(tmp_path, SEED, size=size)
    figures(f"cut: {counts.render()}")
    assert counts.list_faults() == []


@pytest.mark.timeout(600)
def test_a_thousand_messages_are_answered_once_though_the_listeners_link_is_down(
    tmp_path: Path, figures: Callable[[str], None]
) -> None:
    counts = run_busy_cut_storm(tmp_path, SEED)
    figures(f"cut busy: {counts.render()}")
    assert counts.list_faults() == []
