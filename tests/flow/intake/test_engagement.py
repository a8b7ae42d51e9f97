"""How long a group stays in a conversation. Pure; `test_engaged_rooms.py` has the rest."""

import pytest

from gatepost.core.clock import SECOND
from gatepost.core.errors import Invalid
from gatepost.flow.intake.engagement import get_ttl, make_engagement, parse_ttl, render_ttl
from gatepost.store.rooms.routes import NEVER_ENDS, Route

NOON = 1_800_000_000_000_000
PLACE = ("tg", "tg:group/1", "")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("", None), ("never", NEVER_ENDS), ("0", 0), ("90", 90), ("10m", 600), ("1h30m", 5400), ("1d", 86_400), ("5S", 5)],
)
def test_a_ttl_is_read_and_written(text: str, seconds: int | None) -> None:
    assert parse_ttl(text) == seconds
    assert parse_ttl(render_ttl(seconds)) == seconds


@pytest.mark.parametrize("text", ["soon", "-5", "10 m", "m", "99999d", "1.5h", "9" * 40])
def test_a_ttl_that_is_no_time_is_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(Invalid, match="ttl"):
        parse_ttl(text)


def test_a_route_says_how_long_and_otherwise_the_gateway_does() -> None:
    route = Route(id=1, seq=10, match="", target="acme", created_by="test", created_at=0)
    assert get_ttl(route, 600) == 600
    assert make_engagement(PLACE, "acme", 1, NEVER_ENDS, NOON).until is None
    engaged = make_engagement(PLACE, "acme", 1, 600, NOON)
    assert engaged.is_on(NOON + 599 * SECOND) and not engaged.is_on(NOON + 600 * SECOND)
    assert engaged.is_fresh(NOON + 299 * SECOND) and not engaged.is_fresh(NOON + 300 * SECOND)
