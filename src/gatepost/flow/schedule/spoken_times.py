"""Times as people say them, as moments in RFC 3339: `14:30`, `tomorrow 9:00`, `+20m`, `in 20 minutes`. Pure.

The moment is written down, not the words: whoever says `+20m` twice means two moments.
"""

from datetime import datetime
from zoneinfo import ZoneInfo

from gatepost.core.clock import SECOND
from gatepost.core.errors import Invalid
from gatepost.flow.schedule.times import FORMS, parse_cron, parse_interval, parse_moment, read_from_now

CRON_EXAMPLES = "write it like '0 9 * * 1-5' or @daily"


def parse_spoken_time(text: str, zone: str, now: int, field: str = "at") -> str:
    """A moment from now on. `zone`: one that was checked."""
    said = " ".join(text.split())
    if not said:
        raise Invalid(field, f"says no time; write it like {FORMS}")
    if ":" not in said and read_from_now(said) is None:  # a bare date would be midnight, which nobody means
        raise Invalid(field, f"{text[:64]!r} is no time; write it like {FORMS}")
    _, at = parse_moment(said, zone, now, field)
    whole = -(-at // SECOND)
    return datetime.fromtimestamp(whole, ZoneInfo(zone)).isoformat()


def parse_when(at: str, cron: str, every: str, zone: str, now: int) -> str:
    """Exactly one of the three, each in its own form."""
    given = {name: said for name, said in (("at", at), ("cron", cron), ("every", every)) if said.strip()}
    if len(given) != 1:
        raise Invalid("at", "say when with exactly one of at, cron and every")
    if at.strip():
        return parse_spoken_time(at, zone, now)
    if cron.strip():
        parse_cron(cron, zone, now, examples=CRON_EXAMPLES)
        return cron
    parse_interval(every, now)
    return every
