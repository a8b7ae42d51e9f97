"""When a gateway renews its lease and looks at those of others."""

import pytest

from gatepost.core.clock import SECOND
from gatepost.store.postgres.gateway_lease import BEAT_S, LEAST_S, choose_pause

NOON = 1_800_000_000_000_000


@pytest.mark.parametrize(
    ("ends", "pause"),
    [
        ([], BEAT_S),
        ([4 * SECOND], BEAT_S),
        ([SECOND], 1 + LEAST_S),
        ([SECOND, SECOND // 2], 0.5 + LEAST_S),
        ([0], LEAST_S),
        ([-1], BEAT_S),
        ([-1, SECOND], 1 + LEAST_S),
    ],
)
def test_the_next_beat_comes_when_the_lease_of_another_ends(ends: list[int], pause: float) -> None:
    assert choose_pause([NOON + each for each in ends], NOON) == pytest.approx(pause)
