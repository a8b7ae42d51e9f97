"""Engagement: a group that was spoken to in a room and thread is in that conversation for a while, and what people
write there needs no mention. Pure.

While a group is engaged, a message that speaks to nobody counts as one to it, for the route by which it was spoken to:
it is not asked for its verb or its words. All else is asked as ever, so a route that was removed, one before it that
drops the message, or one that now gives the room to another ends it; and the sender is judged for the group as always.
"""

import re
from collections.abc import Sequence

from gatepost.core.clock import SECOND
from gatepost.core.errors import Invalid
from gatepost.core.settings import setting
from gatepost.flow.intake import routing
from gatepost.flow.intake.route_question import RouteQuestion
from gatepost.flow.intake.routing import RouteDecision
from gatepost.messages.inbound import Verb
from gatepost.store.engagements import Engagement
from gatepost.store.routes import NEVER_ENDS, Route

TTL_S = setting(
    "engagement.ttl_s",
    600,
    help="How long a group stays in a conversation after somebody spoke to it, in seconds, where its route says nothing"
    " (0: not at all).",
)

NEVER = "never"
LONGEST_S = 10 * 365 * 86_400
PLAIN = frozenset((Verb.MESSAGE, Verb.REPLY, Verb.COMMENT))  # what speaks to nobody by itself
_UNITS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
_TIME = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?")


def parse_ttl(text: str) -> int | None:
    """`10m`, `1h30m`, a number of seconds, `0` or `never`, in seconds as a route keeps it; None for '': the default."""
    wanted = text.strip().lower()
    if wanted in ("", NEVER):
        return NEVER_ENDS if wanted else None
    found = _TIME.fullmatch(wanted)
    if wanted.isascii() and wanted.isdecimal() and len(wanted) < 10:
        seconds = int(wanted)
    elif found is not None:
        seconds = sum(int(number or 0) * size for number, size in zip(found.groups(), _UNITS.values(), strict=True))
    else:
        raise Invalid("ttl", f"{text[:40]!r} is no time; write it like 10m, 1h30m, 0 (not at all) or never (no end)")
    if seconds > LONGEST_S:
        raise Invalid("ttl", f"{text[:40]!r} is longer than ten years; write never for no end")
    return seconds


def render_ttl(ttl_s: int | None) -> str:
    """As `parse_ttl` reads it."""
    if ttl_s is None or ttl_s == NEVER_ENDS:
        return "" if ttl_s is None else NEVER
    parts: list[str] = []
    for unit, size in _UNITS.items():
        number, ttl_s = divmod(ttl_s, size)
        parts += [f"{number}{unit}"] if number else []
    return "".join(parts) or "0"


def get_ttl(route: Route, default_s: int) -> int:
    """In seconds; `NEVER_ENDS`, or 0 for none."""
    return max(default_s, 0) if route.ttl_s is None else route.ttl_s


def make_engagement(place: tuple[str, str, str], folder: str, route_id: int | None, ttl_s: int, now: int) -> Engagement:
    ends = ttl_s != NEVER_ENDS
    until, ttl = (now + ttl_s * SECOND, ttl_s * SECOND) if ends else (None, 0)
    return Engagement(*place, folder=folder, route_id=route_id, until=until, ttl=ttl, engaged_at=now)


def apply_engagements(
    question: RouteQuestion, routed: RouteDecision, engaged: Sequence[Engagement]
) -> RouteDecision | None:
    """Return who gets a message that speaks to nobody while these are engaged; None if that changes nothing. `routed`:
    who gets it otherwise. Who only observes still does; another who would be woken is, if the engaged routes go on."""
    woken = [each for each in routed.chosen if not each.observe]
    if any(routing.needs_words(each.route) for each in woken):
        return None  # it names somebody
    ways = [way for each in engaged if (way := question.find_way(each.folder, each.route_id)) is not None]
    folders = {way.folder for way in ways}
    if folders <= {each.folder for each in woken}:
        return None
    goes_on = all(way.route.also for way in ways)
    others = [each for each in routed.chosen if each.folder not in folders and (each.observe or goes_on)]
    return RouteDecision((*ways, *others))
