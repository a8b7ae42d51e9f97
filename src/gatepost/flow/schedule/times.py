"""When a task is due: pure. A schedule is parsed from what somebody wrote, and the next time follows the scheduled one.

Cron times are times of day in a zone. A time that a spring night leaves out comes once, right after the gap; one that
an autumn night has twice comes once, the first time. Schedules that begin with `*` go by elapsed time in both nights.

Times as people say them (`14:30`, `tomorrow 9:00`, `+20m`, `in 20 minutes`, and the words of `spoken_times`) become
moments in RFC 3339, or a calendar. The moment is written down, not the words: whoever says `+20m` twice means two
moments.
"""

import re
from calendar import monthrange
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import cache
from itertools import islice, pairwise, takewhile
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from msgspec import Struct

from gatepost.core.clock import DAY, HOUR, MINUTE, SECOND, find_zone, iso
from gatepost.core.errors import Invalid
from gatepost.core.languages.calendar import render_clock, render_date
from gatepost.core.late_pattern import late_pattern
from gatepost.flow.schedule.spoken_times import SPOKEN, expand_numbers, read_words, render_cron
from gatepost.store.schedule.tasks import ScheduleKind, Task

LONGEST_TEXT = 200  # characters of a schedule
LONGEST_INTERVAL = 3660 * DAY
MOST_WALKED = 150  # times that are counted one by one
EXAMPLES = (
    "write five fields such as '0 9 * * 1-5', '@daily', '2h30m' again and again, '2027-01-31T09:00:00+01:00' or +20m;"
    f" or words like {SPOKEN}"
)
FORMS = (
    "'tomorrow 9:00', 'friday at 18:00', 14:30, '2027-01-31 09:00', 2027-01-31T09:00:00+01:00, +20m, 2h30m or"
    " 'in 20 minutes'"
)
_NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_ONCE, _EVERY = ScheduleKind.ONCE, ScheduleKind.EVERY  # in Python 3.11 it takes as long as a call to find a member
_UNITS = {"d": DAY, "h": HOUR, "m": MINUTE, "s": SECOND}
_DURATION = late_pattern(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,8})m)?(?:(\d{1,9})s)?", re.ASCII)
_WORDS = {  # of a time from now on, the longest first
    "w|wks?|weeks?": 7 * DAY,
    "d|days?": DAY,
    "h|hrs?|hours?": HOUR,
    "m|mins?|minutes?": MINUTE,
    "s|secs?|seconds?": SECOND,
}
_FROM_NOW = late_pattern(
    r"(?P<begin>\+ ?|in )?"
    + "".join(rf"(?:(\d{{1,8}}|an?(?= )) ?(?:{words})(?![a-z])(?:,? and |,? )?)?" for words in _WORDS),
    re.ASCII | re.IGNORECASE,
)
_OF_DAY = late_pattern(r"(?:(today|tomorrow) (?:at )?)?(\d{1,2}):(\d\d)", re.ASCII | re.IGNORECASE)
_MOMENT = late_pattern(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d", re.ASCII)
_DATE = len("2027-01-31")
_DATE_ALONE = late_pattern(r"\d{4}-\d\d-\d\d|\d{8}|\d{4}-W\d\d(?:-\d)?", re.ASCII)
LATE = MINUTE  # what comes so long after its time is late
CRON_EXAMPLES = "write it like '0 9 * * 1-5' or @daily"


class Schedule(Struct, frozen=True, kw_only=True):
    """`text`: five fields for cron, else as it was written. `every`: microseconds, 0 for another kind."""

    kind: ScheduleKind
    text: str
    zone: str = "UTC"
    every: int = 0


class DueTimes(Struct, frozen=True, kw_only=True):
    """Times that have come. `newest`: the last of them, oldest first. `older`: how many came before those, and
    `counted`: whether that is exact. `next`: the first that has not come, None if there is none."""

    newest: tuple[int, ...]
    older: int = 0
    counted: bool = True
    next: int | None


def parse_zone(name: str, field: str = "timezone") -> str:
    try:
        if len(name) <= 64:
            ZoneInfo(name)
            return name
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass
    raise Invalid(field, f"{name[:64]!r} is no time zone; write it like Europe/Berlin")


def parse_schedule(text: str, zone: str, now: int, field: str = "cron") -> tuple[Schedule, int]:
    """Any form, and when it is due first. A bare number is milliseconds between two times."""
    said = " ".join(text.split())
    if not said:
        raise Invalid(field, f"says nothing, so the task would never run; {EXAMPLES}")
    if len(said) > LONGEST_TEXT:
        raise Invalid(field, f"invalid cron: it has {len(said)} characters; {EXAMPLES}")
    bare = said.removeprefix("every ")
    if said.isascii() and (said.isdecimal() or read_duration(bare) is not None):
        return parse_interval(bare, now, field)
    if (every := _read_every(said, field)) is not None:
        return parse_interval(render_duration(every, exact=True), now, field)
    wait = read_from_now(said)
    if wait is not None and not said.lower().startswith(("+", "in ")):  # its short form is an interval: 20m
        raise Invalid(
            field, f"{said[:64]!r} may be once or again and again; for once write 'in {said[:64]}'; {EXAMPLES}"
        )
    if wait is not None or _MOMENT.match(said) or _OF_DAY.fullmatch(said):
        return parse_moment(said, zone, now, field)
    if (exact := _read_words(said, zone, now, field)) is not None:
        return parse_moment(exact, zone, now, field) if _MOMENT.match(exact) else parse_cron(exact, zone, now, field)
    return parse_cron(said, zone, now, field)


def _read_every(said: str, field: str) -> int | None:
    """Return the microseconds of `every 30 minutes` or `every hour`, None for another text. A day alone names no time
    of day, which nobody would guess alike."""
    words = expand_numbers(said)
    begun = next((each for each in ("every ", "each ") if words.startswith(each)), None)
    if words == "hourly":
        return HOUR
    if begun is None:
        return None
    rest = words.removeprefix(begun)
    if rest in ("day", "week", "month", "year"):
        day = "1st of the month" if rest == "month" else {"day": "day", "week": "monday"}.get(rest, "1 january")
        raise Invalid(field, f"{said!r} says no time of day; write 'every {day} at 9:00'")
    return read_from_now(f"a {rest}" if rest in ("hour", "minute", "second") else rest)


def _read_words(said: str, zone: str, now: int, field: str) -> str | None:
    return read_words(said, datetime.fromtimestamp(now / SECOND, _zone(zone)), field)


def parse_moment(text: str, zone: str, now: int, field: str = "at") -> tuple[Schedule, int]:
    """A time in one of the `FORMS`. Without an offset it is local time of the zone; a bare time of day that is over
    today is tomorrow's."""
    said = " ".join(text.split())
    if (wait := read_from_now(said)) is not None:
        return _once(now + wait, said, zone, now, field)
    exact = said
    if not (_OF_DAY.fullmatch(said) or _MOMENT.match(said) or len(said) > LONGEST_TEXT):
        exact = _read_words(said, zone, now, field) or said
        if exact != said and not _MOMENT.match(exact):
            raise Invalid(field, f"{text[:64]!r} is again and again ({render_cron(exact)}), where one time is wanted")
    try:
        if found := _OF_DAY.fullmatch(said):
            return _once(_find_time_of_day(found, zone, now, field), said, zone, now, field)
        moment = datetime.fromisoformat(exact.upper())
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=_zone(zone))
        at = int(moment.timestamp() * SECOND)
    except (ValueError, OverflowError):
        raise Invalid(field, f"{text[:64]!r} is no time; write it like {FORMS}") from None
    return _once(at, said, zone, now, field)


def read_from_now(text: str) -> int | None:
    """Return the microseconds of `+20m`, `in 20 minutes`, `20m` or `2h30m`, None if the text says no such time. A bare
    number has no unit, and no time at all is none."""
    found = _FROM_NOW.fullmatch(expand_numbers(text)) if len(text) <= LONGEST_TEXT else None
    if found is None:
        return None
    numbers = zip(found.groups()[1:], _WORDS.values(), strict=True)
    return sum((int(said) if said.isdecimal() else 1) * unit for said, unit in numbers if said) or None


def _find_time_of_day(found: re.Match[str], zone: str, now: int, field: str) -> int:
    """ValueError, if there is no such time of day."""
    day, hour, minute = (found[1] or "").lower(), int(found[2]), int(found[3])
    here = _zone(zone)
    today = datetime.fromtimestamp(now / SECOND, here).date()
    at = _at(today + timedelta(days=day == "tomorrow"), hour, minute, here)
    if at <= now and day == "today":
        raise Invalid(field, f"{found[0]!r} is over; write 'tomorrow {found[2]}:{found[3]}'")
    return at if at > now else _at(today + timedelta(days=1), hour, minute, here)


def _at(day: date, hour: int, minute: int, zone: tzinfo) -> int:
    """A time that a spring night leaves out comes an hour later; of two in an autumn night it is the first."""
    return int(datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone).timestamp()) * SECOND


def _once(at: int, text: str, zone: str, now: int, field: str) -> tuple[Schedule, int]:
    if at < now - MINUTE:
        raise Invalid(field, f"{text[:64]!r} is in the past; it is {iso(now)} now")
    if at > now + LONGEST_INTERVAL:
        raise Invalid(field, f"{text[:64]!r} is more than ten years away")
    return Schedule(kind=ScheduleKind.ONCE, text=text, zone=zone), at


def parse_interval(text: str, now: int, field: str = "every") -> tuple[Schedule, int]:
    """`2h30m`, `30 minutes`, or milliseconds. The first time is one interval from now."""
    said = text.strip()
    whole = said.isascii() and said.isdecimal() and len(said) <= 15
    every = int(said) * 1000 if whole else read_duration(said)
    if every is None and (every := read_from_now(said.removeprefix("every "))) is not None:
        said = render_duration(every, exact=True)
    if every is None or not 0 < every <= LONGEST_INTERVAL:
        raise Invalid(field, f"{text[:64]!r} is no interval; write it like 2h30m, 45m or 1d, or in milliseconds")
    return Schedule(kind=ScheduleKind.EVERY, text=said, every=every), now + every


def read_duration(text: str) -> int | None:
    found = _DURATION.fullmatch(text.lower().replace(" ", ""))
    if found is None or not any(found.groups()):
        return None
    return sum(int(number) * unit for number, unit in zip(found.groups(), _UNITS.values(), strict=True) if number)


def render_duration(every: int, *, exact: bool = False) -> str:
    """Return an interval in words, or as it is written: `2h30m`. A day is 24 hours: it has no time of day."""
    if every == DAY and not exact:
        return "24 hours"
    parts, rest = list[str](), every // SECOND * SECOND
    for letter, unit in _UNITS.items():
        number, rest = divmod(rest, unit)
        word = {"d": "day", "h": "hour", "m": "minute", "s": "second"}[letter]
        if number:
            parts.append(f"{number}{letter}" if exact else f"{number} {word}{'s' * (number > 1)}")
    if exact:
        return "".join(parts)
    return " ".join(parts).removeprefix("1 ") if len(parts) == 1 else " ".join(parts)


def render_schedule(schedule: Schedule, at: int | None = None) -> str:
    """Return a schedule in words. `at`: the next time, which is all of one that runs once."""
    if schedule.kind is ScheduleKind.EVERY:
        return f"every {render_duration(schedule.every)}" if schedule.every >= SECOND else schedule.text
    if schedule.kind is ScheduleKind.CRON:
        return render_cron(schedule.text)
    return "once" if at is None else f"once, {render_moment(at, schedule.zone)}"


def render_moment(at: int, zone: str) -> str:
    """Return a time as a calendar has it: `Friday 20 November 2026, 9:00`, in its zone."""
    known = find_zone(zone) or UTC
    moment = datetime.fromtimestamp(at // SECOND, known)
    return f"{render_date(moment)}, {render_clock(moment)}"


def parse_cron(text: str, zone: str, now: int, field: str = "cron", examples: str = EXAMPLES) -> tuple[Schedule, int]:
    """`examples`: what else is read there, for the error."""
    said = " ".join(text.split())
    fields = _NICKNAMES.get(said.lower(), said)
    if len(fields) > LONGEST_TEXT or len(fields.split()) != 5:
        known = ", ".join(_NICKNAMES)
        shape = "minute, hour, day of the month, month, day of the week"
        raise Invalid(field, f"invalid cron {said[:64]!r}: it has not five fields ({shape}); {examples}; also {known}")
    schedule = Schedule(kind=ScheduleKind.CRON, text=fields, zone=zone)
    try:
        first = next_after(schedule, now) if _has_day(fields) else None
    except ValueError as error:
        why = str(error).lower().replace("-", " ")
        raise Invalid(field, f"invalid cron {said[:64]!r}: {why}; {examples}") from None
    if first is None:
        raise Invalid(field, f"invalid cron {said[:64]!r}: no day of the next fifty years fits; {examples}")
    return schedule, first


def _has_day(fields: str) -> bool:
    """Return True if any day fits. A month has one of 28 shapes: its length, and the weekday that it begins with.
    Each shape that a month can have comes within fifty years, so these few days stand for all that would be walked
    through."""
    cron = _make_cron(fields, datetime(2000, 1, 1))  # only days are asked for
    lengths = {
        length for month in cron.months for length in ((28, 29) if month == 2 else (monthrange(2001, month)[1],))
    }
    return any(cron.match_day(day) for days in _list_month_shapes() if len(days) in lengths for day in days)


@cache
def _list_month_shapes() -> tuple[tuple[date, ...], ...]:
    """The days of one month for each shape."""
    shapes: dict[tuple[int, int], tuple[int, int]] = {}
    for year in range(2000, 2028):
        for month in range(1, 13):
            shapes.setdefault(monthrange(year, month), (year, month))
    return tuple(
        tuple(date(year, month, day) for day in range(1, length + 1)) for (_, length), (year, month) in shapes.items()
    )


def check_interval(schedule: Schedule, first: int, least: int, field: str = "cron") -> None:
    """Two times lie at least so many microseconds apart."""
    gap = schedule.every
    if schedule.kind is ScheduleKind.CRON and least > MINUTE:
        times = [first, *islice(_walk(schedule, first), 10)]
        gap = min((later - earlier for earlier, later in pairwise(times)), default=least)
    if schedule.kind is not ScheduleKind.ONCE and 0 < gap < least:
        why = f"{schedule.text!r} runs every {gap / SECOND:g} s; the least is {least / SECOND:g} s"
        raise Invalid(field, f"{why} (schedule.least_interval_s)")


def next_after(schedule: Schedule, at: int) -> int | None:
    """The next time behind a scheduled one; None: that was the last."""
    if schedule.kind is ScheduleKind.ONCE:
        return None
    return at + schedule.every if schedule.kind is ScheduleKind.EVERY else next(_walk(schedule, at), None)


def find_first_from(schedule: Schedule, known: int, start: int) -> int | None:
    """The first time that is not before a moment. `known`: one of its times, by which an interval keeps its beat."""
    if schedule.kind is ScheduleKind.ONCE:
        return known if known >= start else None
    if schedule.kind is ScheduleKind.EVERY:
        return start + (known - start) % schedule.every
    return next(_walk(schedule, start - 1), None)


def list_coming(schedule: Schedule, first: int, most: int) -> list[int]:
    """The next times, from the first that is due on."""
    if schedule.kind is ScheduleKind.EVERY:
        return [first + number * schedule.every for number in range(most)]
    return [first, *islice(_walk(schedule, first), most - 1)] if schedule.kind is ScheduleKind.CRON else [first]


def _walk(schedule: Schedule, at: int) -> Iterator[int]:
    """Times of a cron schedule behind a moment, each later than the one before."""
    for moment in _make_cron(schedule.text, datetime.fromtimestamp(at // SECOND, _zone(schedule.zone))):
        found = int(moment.timestamp()) * SECOND
        if found > at:  # in an hour that comes twice, it starts from the first
            at = found
            yield found


def _make_cron(fields: str, after: datetime) -> CronSim:
    """ValueError, if they cannot be read."""
    try:
        return CronSim(fields, after)
    except CronSimError as error:
        raise ValueError(str(error)) from None


def list_due(schedule: Schedule, first: int, now: int, most: int) -> DueTimes:
    """Times from `first` until now: the newest, so many at most. The work is bounded, however long ago that is."""
    if schedule.kind is _ONCE:
        return DueTimes(newest=(first,), next=None)
    if schedule.kind is _EVERY:
        every = schedule.every
        count = (now - first) // every + 1
        shown, coming = min(count, most), first + count * every
        newest = (coming - every,) if shown == 1 else tuple(range(coming - shown * every, coming, every))
        return DueTimes(newest=newest, older=count - shown, next=coming)
    found: list[int] = []
    for at in _walk(schedule, first - 1):
        if at > now:
            return DueTimes(newest=tuple(found[-most:]), older=max(0, len(found) - most), next=at)
        found.append(at)
        if len(found) > MOST_WALKED:
            break
    return _list_newest(schedule, first, now, most, len(found))


def _list_newest(schedule: Schedule, first: int, now: int, most: int, known: int) -> DueTimes:
    """Return the newest due times when there are more than can be walked through. Bisection finds the start of the last
    ones, because a schedule may have all its times in one half of the year."""
    enough, few = max(MOST_WALKED, most + 10), list[int]()
    low, high, start = first, now, first  # there are too many from `low` on, too few from `high` on
    while True:
        found = list(islice(takewhile(lambda at: at <= now, _walk(schedule, start - 1)), enough + 1))
        if most <= len(found) <= enough:
            break
        if len(found) > enough:
            low = start
        else:
            few, high = found, start
        if high - low <= SECOND:
            found = few
            break
        start = (low + high) // 2
    older = max(0, known - most)
    return DueTimes(newest=tuple(found[-most:]), older=older, counted=False, next=next(_walk(schedule, now), None))


def _zone(name: str) -> tzinfo:
    return UTC if name == "UTC" else ZoneInfo(name)


def render_late(task: Task, due_at: int, now: int) -> str:
    """Return what is said with something that comes late; '' if it does not."""
    if now - due_at <= LATE:
        return ""
    due, today = render_local(due_at - due_at % SECOND, task.zone), render_local(now, task.zone)
    same_day = due[:_DATE] == today[:_DATE]
    return f"(late: it was due at {due[_DATE:].strip() if same_day else due})"


def render_local(at: int, zone: str) -> str:
    """To the minute, with its zone; in UTC, if this machine does not know that."""
    known = zone if find_zone(zone) is not None else "UTC"
    return f"{(iso(at, known) or '')[:16].replace('T', ' ')} {known}"


def parse_spoken_time(text: str, zone: str, now: int, field: str = "at") -> str:
    """A moment from now on. `zone`: one that was checked."""
    said = " ".join(text.split())
    if not said:
        raise Invalid(field, f"says no time; write it like {FORMS}")
    if _DATE_ALONE.fullmatch(said):  # would be midnight, which nobody means
        raise Invalid(field, f"{text[:64]!r} says no time of day; write it like '{said} 09:00'")
    _, at = parse_moment(said, zone, now, field)
    return _write_moment(at, zone)


def _write_moment(at: int, zone: str) -> str:
    return datetime.fromtimestamp(-(-at // SECOND), ZoneInfo(zone)).isoformat()


def parse_when(at: str, cron: str, every: str, zone: str, now: int, when: str | None = None) -> str:
    """Exactly one of them. Each but `when` is in its own form; that is any, also in words. None: it is not offered."""
    given = ({} if when is None else {"when": when}) | {"at": at, "cron": cron, "every": every}
    said = [name for name, text in given.items() if text.strip()]
    if len(said) != 1:
        *names, last = given
        raise Invalid(
            said[-1] if said else next(iter(given)), f"say when with exactly one of {', '.join(names)} and {last}"
        )
    if when and when.strip():
        schedule, first = parse_schedule(when, zone, now, "when")
        return _write_moment(first, zone) if schedule.kind is ScheduleKind.ONCE else schedule.text
    if at.strip():
        return parse_spoken_time(at, zone, now)
    if cron.strip():
        parse_cron(cron, zone, now, examples=CRON_EXAMPLES)
        return cron
    return parse_interval(every, now)[0].text
