"""Times as people say them, as moments in RFC 3339: `14:30`, `tomorrow 9:00`, `+2m`, `in 2 minutes`. Pure.

The moment is written down, not the words: whoever says `+2m` twice means two moments.
"""

import re
from datetime import date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from gatepost.core.clock import SECOND
from gatepost.core.errors import Invalid
from gatepost.flow.schedule.times import (
    FROM_NOW,
    parse_cron,
    parse_interval,
    parse_moment,
    parse_schedule,
    read_duration,
)

FORMS = "2027-01-31T09:00:00+01:00, '2027-01-31 09:00', 14:30, 'tomorrow 9:00', +2m or 'in 2 minutes'"
CRON_EXAMPLES = "write it like '0 9 * * 1-5' or @daily"
_OF_DAY = re.compile(r"(?:(today|tomorrow) +(?:at +)?)?([0-9]{1,2}):([0-9]{2})", re.IGNORECASE)


def parse_spoken_time(text: str, zone: str, now: int, field: str = "at") -> str:
    """A moment from now on. A bare time of day that is over today is tomorrow's. `zone`: one that was checked."""
    said = " ".join(text.split())
    if not said:
        raise Invalid(field, f"says no time; write it like {FORMS}")
    if said.startswith("+"):
        _, at = parse_interval(_check_unit(said[1:].strip(), field, text), now, field)
    elif FROM_NOW.fullmatch(said):
        _, at = parse_schedule(said, zone, now, field)
    elif found := _OF_DAY.fullmatch(said):
        at = _find_time_of_day(found, zone, now, field)
    else:
        _, at = parse_moment(_check_moment(said, field), zone, now, field)
    whole = -(-at // SECOND)
    return datetime.fromtimestamp(whole, ZoneInfo(zone)).isoformat()


def _check_moment(said: str, field: str) -> str:
    """A bare date would be midnight, which nobody means either."""
    try:
        if ":" in said:
            datetime.fromisoformat(said.upper())
            return said
    except ValueError:
        pass
    raise _unreadable(field, said)


def _check_unit(duration: str, field: str, text: str) -> str:
    """A bare number would be milliseconds, which nobody means here."""
    if duration.isdecimal() or read_duration(duration) is None:
        raise _unreadable(field, text)
    return duration


def _unreadable(field: str, text: str) -> Invalid:
    return Invalid(field, f"{text[:64]!r} is no time; write it like {FORMS}")


def _find_time_of_day(found: re.Match[str], zone: str, now: int, field: str) -> int:
    day, hour, minute = (found[1] or "").lower(), int(found[2]), int(found[3])
    if hour > 23 or minute > 59:
        raise _unreadable(field, found[0])
    here = ZoneInfo(zone)
    today = datetime.fromtimestamp(now / SECOND, here).date()
    at = _at(today + timedelta(days=day == "tomorrow"), hour, minute, here)
    if at <= now and day == "today":
        raise Invalid(field, f"{found[0]!r} is over; write 'tomorrow {found[2]}:{found[3]}'")
    return at if at > now else _at(today + timedelta(days=1), hour, minute, here)


def _at(day: date, hour: int, minute: int, zone: tzinfo) -> int:
    """A time that a spring night leaves out comes an hour later; of two in an autumn night it is the first."""
    return int(datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone).timestamp()) * SECOND


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
