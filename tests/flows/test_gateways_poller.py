"""One gateway polls a platform that allows no second poll, through three takeovers."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gatepost.store.postgres.gateway_lease import LEASE_S
from gatepost_testing.servers.postgres import PACKAGE, find_programs
from gatepost_testing.storms.poller import run_poller_storm

from .test_gateways_frozen import UNGUARDED

pytestmark = pytest.mark.skipif(
    find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"
)

# … and the channel does not end by itself, though the platform says again and again that another polls, too.
OBSTINATE = """
from gatepost.channels.telegram import polling
polling.CONFLICTS = 1_000_000
"""


@pytest.mark.alone
def test_a_thousand_updates_through_three_takeovers(tmp_path: Path, figures: Callable[[str], None]) -> None:
    counts = run_poller_storm(tmp_path)
    figures(f"poller: {counts.render()}")
    assert counts.list_faults() == []


@pytest.mark.alone
def test_a_stopped_gateway_without_a_lease_polls_beside_the_other_and_the_judge_sees_it(
    tmp_path: Path, figures: Callable[[str], None]
) -> None:
    site = tmp_path / "unguarded" / "sitecustomize.py"
    site.parent.mkdir()
    site.write_text(UNGUARDED + OBSTINATE, encoding="utf-8")
    counts = run_poller_storm(tmp_path, updates=80, env={"PYTHONPATH": str(site.parent)})
    figures(f"poller without a lease: {counts.render()}")
    assert counts.overlap_s > LEASE_S
    assert f"two polled beside each other for {counts.overlap_s:.1f} s" in counts.list_faults()
    assert f"two polled at once, {counts.conflicts} times" in counts.list_faults()
