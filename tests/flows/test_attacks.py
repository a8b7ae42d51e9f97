"""Every attack of the bench's table on a real daemon: the quiet group is answered, no step holds everybody up, and a
panic ends it. How long replies take meanwhile is the bench's affair (`make bench`)."""

import sys
from pathlib import Path

import pytest

from gatepost.sandboxes.bubblewrap import find_bwrap

BENCH = Path(__file__).parents[2] / "bench"
sys.path.insert(0, str(BENCH))

from attacker import ATTACKS  # noqa: E402  it lies beside the tests
from neighbours import OUTSIDE, House, attacked  # noqa: E402  it lies beside the tests

STEP_MS = 50  # on the processor, which a busy machine does not change

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_bwrap() is None, reason="bubblewrap is not installed"),
]


@pytest.mark.parametrize("attack", [*ATTACKS, *OUTSIDE])
def test_stranger_neighbours_are_answered_while_one_attacks(attack: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o711)
    with House(tmp_path / "h") as house:
        house.reply_ms("awake")
        with attacked(house, attack):
            for number in range(10):
                house.reply_ms(f"hello {number}")
            house.panic_s()
        status = house.control.get("/v1/status")["result"]
        account = house.daemon.json("ledger", "check")

    assert status["busiest_ms"] <= STEP_MS, status["busiest"]
    assert account["unaccounted"] == 0
