"""How long a group stays in a conversation. Pure; `test_engaged_rooms.py` has the rest."""

from gatepost.core.clock import SECOND
from gatepost.flow.intake.engagement import get_ttl, make_engagement
from gatepost.store.rooms.routes import NEVER_ENDS, Route

NOON = 1_800_000_000_000_000
PLACE = ("tg", "tg:group/1", "")


def test_a_route_says_how_long_and_otherwise_the_gateway_does() -> None:
    route = Route(id=1, seq=10, match="", target="acme", created_by="test", created_at=0)
    assert get_ttl(route, 600) == 600
    assert make_engagement(PLACE, "acme", 1, NEVER_ENDS, NOON).until is None
    engaged = make_engagement(PLACE, "acme", 1, 600, NOON)
    assert engaged.is_on(NOON + 599 * SECOND) and not engaged.is_on(NOON + 600 * SECOND)
    assert engaged.is_fresh(NOON + 299 * SECOND) and not engaged.is_fresh(NOON + 300 * SECOND)
