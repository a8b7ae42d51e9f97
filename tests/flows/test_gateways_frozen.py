"""Two gateways on one database, one of them stopped for longer than its lease, and then continued. The platform's own
record is the judge: nothing is said twice, and nothing that the stopped one's agents still had in hand comes out."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gatepost_testing.servers.postgres import PACKAGE, find_programs
from gatepost_testing.storms.storm import SEED, StormSize
from gatepost_testing.storms.zombie import SMALL_ZOMBIE, ZOMBIE, ZombieCounts, run_zombie_storm

pytestmark = pytest.mark.skipif(
    find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"
)

# Nothing of what keeps a stopped gateway from acting: no fence, no clock of its own, no keeper, no end of connections.
UNGUARDED = """
from gatepost.flow.gateways.keeper import Keeper
from gatepost.store.postgres.gateway_lease import GatewayLease
from gatepost.store.postgres.unit_worker import NUMBER
GatewayLease.render_opening = lambda self: NUMBER
GatewayLease.in_contact = property(lambda self: True)
GatewayLease.is_over = property(lambda self: False, lambda self, value: None)
GatewayLease.end_connections = lambda self, name: None
Keeper.add = lambda self, sandbox, freezer: None
Keeper.set_time = lambda self, until, epoch: None
"""
# … and an old attempt at a turn is believed, too: turns have a fence of their own behind that of gateways.
UNFENCED_TURNS = """
from gatepost.store.sessions import turns
turns.claim_bytes = lambda db, turn_id, *_, **__: (turns.get(db, turn_id), None)
"""


def run_unguarded(folder: Path, patch: str, size: StormSize = SMALL_ZOMBIE) -> ZombieCounts:
    """The storm with gateways that run this before anything else."""
    site = folder / "unguarded" / "sitecustomize.py"
    site.parent.mkdir()
    site.write_text(patch, encoding="utf-8")
    return run_zombie_storm(folder, SEED, size=size, env={"PYTHONPATH": str(site.parent)}, guarded=False)


@pytest.mark.slow
@pytest.mark.parametrize("size", [SMALL_ZOMBIE, pytest.param(ZOMBIE, marks=pytest.mark.alone)], ids=["small", "whole"])
def test_a_gateway_that_was_stopped_and_goes_on_says_nothing_twice(
    tmp_path: Path, figures: Callable[[str], None], size: StormSize
) -> None:
    counts = run_zombie_storm(tmp_path, SEED, size=size)
    figures(f"zombie: {counts.render()}")
    assert counts.list_faults() == []


@pytest.mark.alone
def test_without_its_guards_a_gateway_that_goes_on_says_things_twice_and_the_judge_sees_it(
    tmp_path: Path, figures: Callable[[str], None]
) -> None:
    counts = run_unguarded(tmp_path, UNGUARDED + UNFENCED_TURNS)
    figures(f"zombie without guards: {counts.verdict.doubled} said twice, {counts.verdict.disordered} out of order")
    assert counts.verdict.doubled > 0
    assert f"{counts.verdict.doubled} said twice" in counts.list_faults()
    assert counts.refused == 0 and counts.wrote_after


@pytest.mark.alone
def test_turns_hold_back_late_words_where_the_gateways_guards_are_gone(tmp_path: Path) -> None:
    """What their own fence cannot stop is what an agent writes into the shared folder."""
    counts = run_unguarded(tmp_path, UNGUARDED)
    assert counts.verdict.doubled == 0
    assert counts.refused == 0 and counts.wrote_after
