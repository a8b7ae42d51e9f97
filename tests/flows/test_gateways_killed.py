"""Two gateways on one database, of which some are killed in the middle of their turns. The platform's own record is the
judge: each message is answered once, in the order of its room."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gatepost_testing.servers.postgres import PACKAGE, find_programs
from gatepost_testing.storms.kill import Victim, run_kill_storm
from gatepost_testing.storms.storm import SEED, SMALL, WHOLE, StormSize

pytestmark = pytest.mark.skipif(
    find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"
)


def check(folder: Path, victim: Victim, size: StormSize, figures: Callable[[str], None]) -> None:
    counts = run_kill_storm(folder, SEED, victim=victim, size=size)
    figures(f"kill {victim}: {counts.render()}")
    assert counts.list_faults() == []


@pytest.mark.slow
def test_what_a_killed_listener_had_is_answered_once_by_the_other(
    tmp_path: Path, figures: Callable[[str], None]
) -> None:
    check(tmp_path, Victim.LISTENER, SMALL, figures)


@pytest.mark.alone
@pytest.mark.parametrize("victim", [each for each in Victim if each is not Victim.LISTENER])
def test_what_killed_gateways_had_is_answered_once_by_who_is_left(
    tmp_path: Path, figures: Callable[[str], None], victim: Victim
) -> None:
    check(tmp_path, victim, SMALL, figures)


@pytest.mark.alone
@pytest.mark.timeout(600)
@pytest.mark.parametrize("victim", Victim)
def test_a_thousand_messages_are_answered_once_though_gateways_are_killed(
    tmp_path: Path, figures: Callable[[str], None], victim: Victim
) -> None:
    check(tmp_path, victim, WHOLE, figures)
