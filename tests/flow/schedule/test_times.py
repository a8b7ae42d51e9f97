"""When a task is due: every form that people write, both nights of daylight saving, and times that were missed."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from gatepost.core.clock import DAY, HOUR, MINUTE, SECOND
from gatepost.core.errors import Invalid
from gatepost.flow.schedule import times
from gatepost.flow.schedule.times import (
    Schedule,
    check_interval,
    find_first_from,
    list_coming,
    list_due,
    next_after,
    parse_cron,
    parse_interval,
    parse_moment,
    parse_schedule,
    parse_spoken_time,
    parse_zone,
)
from gatepost.store.schedule.tasks import ScheduleKind

BERLIN = "Europe/Berlin"
CRONS = ("30 2 * * *", "0,30 2,3 * * *", "*/30 * * * *", "15 * * * *", "0 */2 * * *", "30 1-4 * * *", "0 0 1 * *")


def at(text: str, zone: str = "UTC") -> int:
    moment = datetime.fromisoformat(text)
    return int((moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone))).timestamp()) * SECOND


def local(moment: int, zone: str) -> str:
    return datetime.fromtimestamp(moment // SECOND, ZoneInfo(zone)).isoformat()


NOW = at("2026-11-16T12:00:00")


@pytest.mark.parametrize(
    ("text", "kind", "first"),
    [
        ("0 9 * * 1-5", ScheduleKind.CRON, "2026-11-17T09:00:00"),
        ("  0  9 * * MON ", ScheduleKind.CRON, "2026-11-23T09:00:00"),
        ("@hourly", ScheduleKind.CRON, "2026-11-16T13:00:00"),
        ("@daily", ScheduleKind.CRON, "2026-11-17T00:00:00"),
        ("@midnight", ScheduleKind.CRON, "2026-11-17T00:00:00"),
        ("@Weekly", ScheduleKind.CRON, "2026-11-22T00:00:00"),
        ("@monthly", ScheduleKind.CRON, "2026-12-01T00:00:00"),
        ("@yearly", ScheduleKind.CRON, "2027-01-01T00:00:00"),
        ("@annually", ScheduleKind.CRON, "2027-01-01T00:00:00"),
        ("3600000", ScheduleKind.EVERY, "2026-11-16T13:00:00"),
        ("2h30m", ScheduleKind.EVERY, "2026-11-16T14:30:00"),
        ("every 90m", ScheduleKind.EVERY, "2026-11-16T13:30:00"),
        ("1d 12h", ScheduleKind.EVERY, "2026-11-18T00:00:00"),
        ("in 2 minutes", ScheduleKind.ONCE, "2026-11-16T12:02:00"),
        ("In 1 hour", ScheduleKind.ONCE, "2026-11-16T13:00:00"),
        ("in 3 weeks", ScheduleKind.ONCE, "2026-12-07T12:00:00"),
        ("+20m", ScheduleKind.ONCE, "2026-11-16T12:20:00"),
        ("+2h30m", ScheduleKind.ONCE, "2026-11-16T14:30:00"),
        ("in 2h30m", ScheduleKind.ONCE, "2026-11-16T14:30:00"),
        ("20m", ScheduleKind.EVERY, "2026-11-16T12:20:00"),
        ("14:30", ScheduleKind.ONCE, "2026-11-16T14:30:00"),
        ("tomorrow 9:00", ScheduleKind.ONCE, "2026-11-17T09:00:00"),
        ("2026-12-24T18:00:00Z", ScheduleKind.ONCE, "2026-12-24T18:00:00"),
        ("2026-12-24T18:00:00+01:00", ScheduleKind.ONCE, "2026-12-24T17:00:00"),
        ("2026-12-24 18:00", ScheduleKind.ONCE, "2026-12-24T18:00:00"),
    ],
)
def test_each_form_is_read(text: str, kind: ScheduleKind, first: str) -> None:
    schedule, due = parse_schedule(text, "UTC", NOW)
    assert (schedule.kind, due) == (kind, at(first))


def test_a_time_without_an_offset_is_local_in_the_zone_of_the_task() -> None:
    _, due = parse_moment("2026-12-24T18:00:00", BERLIN, NOW)
    assert due == at("2026-12-24T17:00:00")


def test_a_cron_time_is_a_time_of_day_in_the_zone() -> None:
    _, due = parse_cron("0 9 * * *", "America/New_York", NOW)
    assert due == at("2026-11-16T14:00:00")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "says nothing"),
        ("61 * * * *", "bad minute"),
        ("* 24 * * *", "bad hour"),
        ("* * 32 * *", "bad day of month"),
        ("* * * 13 *", "bad month"),
        ("* * * * 8", "bad day of week"),
        ("0 0 30 2 *", "bad day of month"),
        ("* * * *", "not five fields"),
        ("0 * * * * *", "not five fields"),
        ("@noon", "not five fields"),
        ("tomorrow", "write 'tomorrow at 9:00'"),
        ("20 minutes", "in 20 minutes"),  # 20m is again and again: nobody guesses what this is
        ("1w", "in 1w"),
        ("an hour", "in an hour"),
        ("*/0 * * * *", "bad minute"),
        ("1," * 150 + "1 * * * *", "309 characters"),
        ("2020-01-01T00:00:00Z", "in the past"),
        ("2026-13-01T00:00:00Z", "is no time"),
        ("2126-01-01T00:00:00Z", "ten years"),
        ("0", "is no interval"),
        ("9" * 30, "is no interval"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_schedule(text, "UTC", NOW)
    assert said in str(refused.value)


IMPOSSIBLE = ("0 0 */15 4,6,9,11 MON#5", "0 0 */3 2 MON#5", "0 0 LW * */6", "0 0 31 2 */2", "0 0 30,31 2 *")
RARE = ("0 0 29 2 *", "0 0 */4 2 MON#5", "0 0 29 2 */7", "0 0 L 2 1#5", "0 0 31 2 1L", "0 0 30 2 1", "0 0 LW 2 */5")


@pytest.mark.parametrize("cron", IMPOSSIBLE)
def test_a_cron_that_no_day_fits_is_refused_without_walking_through_years(
    cron: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty years are 18,000 days, and the event loop waits."""
    looked, match_day = [0], CronSim.match_day

    def count(self: CronSim, day: date) -> bool:
        looked[0] += 1
        return match_day(self, day)

    monkeypatch.setattr(CronSim, "match_day", count)
    with pytest.raises(Invalid, match=r"no day of the next fifty years fits|bad day of month"):
        parse_schedule(cron, BERLIN, NOW)
    assert looked[0] <= 28 * 31


@pytest.mark.parametrize("cron", [*RARE, *IMPOSSIBLE[:3]])
@pytest.mark.parametrize("year", [2026, 2070, 2096])
def test_a_cron_is_refused_only_if_walking_finds_no_day(cron: str, year: int) -> None:
    """The years around 2100, which has no 29 February, among them."""
    start = at(f"{year}-11-16T12:00:00")
    found = next(iter(CronSim(cron, datetime.fromtimestamp(start // SECOND, UTC))), None)
    if found is None:
        with pytest.raises(Invalid, match="no day of the next fifty years fits"):
            parse_cron(cron, "UTC", start)
    else:
        assert parse_cron(cron, "UTC", start)[1] == int(found.timestamp()) * SECOND
    assert (found is None) is (cron in IMPOSSIBLE)


@pytest.mark.parametrize(
    ("kind", "known", "start", "found"),
    [
        (ScheduleKind.EVERY, NOW, NOW - 5 * HOUR - 1, NOW - 5 * HOUR),
        (ScheduleKind.EVERY, NOW, NOW - 5 * HOUR, NOW - 5 * HOUR),
        (ScheduleKind.EVERY, NOW, NOW + 1, NOW + HOUR),
        (ScheduleKind.CRON, NOW, NOW - 30 * MINUTE, NOW),
        (ScheduleKind.CRON, NOW, NOW, NOW),
        (ScheduleKind.ONCE, NOW, NOW - DAY, NOW),
        (ScheduleKind.ONCE, NOW, NOW + 1, None),
    ],
)
def test_the_first_time_from_a_moment_keeps_the_beat(kind: ScheduleKind, known: int, start: int, found: int) -> None:
    schedule = Schedule(kind=kind, text="0 * * * *", every=HOUR if kind is ScheduleKind.EVERY else 0)
    assert find_first_from(schedule, known, start) == found


def test_arizuko_28_a_cron_that_cannot_be_read_names_the_field_and_an_example() -> None:
    with pytest.raises(Invalid, match=r"invalid cron '61 \* \* \* \*': bad minute; write five fields such as '0 9"):
        parse_schedule("61 * * * *", "UTC", NOW)


@given(st.text(max_size=40))
def test_whatever_is_written_is_read_or_refused(text: str) -> None:
    try:
        _, first = parse_schedule(text, BERLIN, NOW)
    except Invalid:
        return
    assert first >= NOW - MINUTE


@pytest.mark.parametrize("name", ["Europe/Nowhere", "../../etc/passwd", "", "x" * 100, "Europe\0/Berlin"])
def test_a_zone_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="is no time zone; write it like Europe/Berlin"):
        parse_zone(name)
    assert parse_zone("Asia/Kolkata") == "Asia/Kolkata"


def test_times_closer_together_than_the_least_interval_are_refused() -> None:
    quick, first = parse_interval("1000", NOW)
    with pytest.raises(Invalid, match="every 1 s; the least is 60 s"):
        check_interval(quick, first, MINUTE)
    check_interval(quick, first, SECOND)
    twice, first = parse_cron("0,5 9 * * *", "UTC", NOW)
    check_interval(twice, first, MINUTE)
    with pytest.raises(Invalid, match="every 300 s; the least is 3600 s"):
        check_interval(twice, first, HOUR)
    once, first = parse_schedule("in 1 second", "UTC", NOW)
    check_interval(once, first, HOUR)


def test_a_time_that_a_spring_night_leaves_out_comes_once() -> None:
    schedule, first = parse_cron("30 2 * * *", BERLIN, at("2026-03-27T12:00:00", BERLIN))
    assert [local(each, BERLIN) for each in list_coming(schedule, first, 3)] == [
        "2026-03-28T02:30:00+01:00",
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
    ]


def test_a_time_that_an_autumn_night_has_twice_comes_once() -> None:
    schedule, first = parse_cron("30 2 * * *", BERLIN, at("2026-10-24T12:00:00", BERLIN))
    assert [local(each, BERLIN) for each in list_coming(schedule, first, 2)] == [
        "2026-10-25T02:30:00+02:00",
        "2026-10-26T02:30:00+01:00",
    ]


@pytest.mark.parametrize("minute", range(0, 60, 15))
def test_who_looks_in_the_second_half_of_the_doubled_hour_does_not_get_the_first_again(minute: int) -> None:
    schedule = Schedule(kind=ScheduleKind.CRON, text="30 2 * * *", zone=BERLIN)
    again = at(f"2026-10-25T02:{minute:02}:00+01:00")
    following = next_after(schedule, again)
    assert following == at("2026-10-26T02:30:00+01:00")


@pytest.mark.parametrize("cron", CRONS)
@pytest.mark.parametrize("zone", [BERLIN, "America/New_York", "Australia/Lord_Howe"])
def test_from_one_time_to_the_next_gives_what_one_walk_gives(cron: str, zone: str) -> None:
    for start in ("2026-03-06T00:00:00", "2026-03-27T00:00:00", "2026-04-03T00:00:00", "2026-10-02T00:00:00"):
        schedule, first = parse_cron(cron, zone, at(start))
        walked = list_coming(schedule, first, 60)
        assert walked == sorted(set(walked))
        for earlier, later in pairwise(walked):
            assert next_after(schedule, earlier) == later


def test_the_next_time_is_counted_from_the_scheduled_one() -> None:
    hourly = Schedule(kind=ScheduleKind.EVERY, text="1h", every=HOUR)
    due = list_due(hourly, NOW, NOW + 3 * HOUR + 17 * SECOND, 1)
    assert (due.newest, due.older, due.next) == ((NOW + 3 * HOUR,), 3, NOW + 4 * HOUR)


@pytest.mark.parametrize("cron", CRONS)
def test_what_was_missed_is_what_would_have_come(cron: str) -> None:
    schedule, first = parse_cron(cron, BERLIN, at("2026-03-20T00:00:00"))
    now = first + 12 * DAY
    every = [each for each in list_coming(schedule, first, 700) if each <= now]
    due = list_due(schedule, first, now, 100)
    assert due.newest == tuple(every[-100:])
    assert due.older == (len(every) - len(due.newest) if due.counted else 51)
    assert due.counted is (len(every) <= 150)
    assert due.next == next_after(schedule, now)


def test_a_year_of_missed_minutes_is_not_walked_through() -> None:
    schedule, first = parse_cron("* * * * *", BERLIN, NOW)
    due = list_due(schedule, first, first + 365 * DAY, 100)
    newest = first + 365 * DAY
    assert due.newest == tuple(newest - number * MINUTE for number in range(99, -1, -1))
    assert (due.counted, due.older, due.next) == (False, 51, newest + MINUTE)


def test_a_schedule_that_was_busy_and_then_rests_shows_its_newest_times() -> None:
    """More than are walked through, and few of them lately."""
    schedule, first = parse_cron("* * * 1 *", "UTC", at("2026-12-31T23:00:00"))
    now = at("2027-03-01T00:00:00")
    due = list_due(schedule, first, now, 2)
    assert due.newest == (at("2027-01-31T23:58:00"), at("2027-01-31T23:59:00"))
    assert due.next == at("2028-01-01T00:00:00")


def test_a_task_that_runs_once_has_no_second_time() -> None:
    once = Schedule(kind=ScheduleKind.ONCE, text="x")
    assert next_after(once, NOW) is None
    assert list_due(once, NOW, NOW + DAY, 5).newest == (NOW,)
    assert list_coming(once, NOW, 5) == [NOW]


@pytest.mark.parametrize("zone", ["UTC", BERLIN])
@pytest.mark.parametrize("most", [1, 100, 400])
def test_the_newest_of_half_a_year_full_of_times_are_found_in_bounded_steps(
    zone: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, walk = 0, times._walk

    def count(schedule: Schedule, start: int) -> Iterator[int]:
        nonlocal steps
        for each in walk(schedule, start):
            steps += 1
            yield each

    monkeypatch.setattr(times, "_walk", count)
    schedule = Schedule(kind=ScheduleKind.CRON, text="* * * 1-6 *", zone=zone)
    due = list_due(schedule, at("2024-01-01T00:00", zone), at("2026-12-31T00:00", zone), most)
    last = at("2026-06-30T23:59", zone)
    assert due.newest == tuple(last - number * MINUTE for number in reversed(range(most)))
    assert due.next == at("2027-01-01T00:00", zone) and not due.counted
    assert steps < 40 * (times.MOST_WALKED + most)


@pytest.mark.parametrize("hours", [4, 8])
def test_more_times_may_be_asked_for_than_are_walked_through_or_than_there_are(hours: int) -> None:
    schedule = Schedule(kind=ScheduleKind.CRON, text="* * * * *")
    due = list_due(schedule, NOW, NOW + hours * HOUR, 300)
    count = hours * 60 + 1
    assert due.newest == tuple(NOW + number * MINUTE for number in range(max(0, count - 300), count))
    assert due.next == NOW + hours * HOUR + MINUTE


TEN_IN_BERLIN = at("2026-11-16T10:00:00+01:00")


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ("+2m", "2026-11-16T10:02:00+01:00"),
        ("+1h30m", "2026-11-16T11:30:00+01:00"),
        ("in 2 minutes", "2026-11-16T10:02:00+01:00"),
        ("In 3 days", "2026-11-19T10:00:00+01:00"),
        ("20m", "2026-11-16T10:20:00+01:00"),
        ("2h30m", "2026-11-16T12:30:00+01:00"),
        ("2 h 30 min", "2026-11-16T12:30:00+01:00"),
        ("+ 90 minutes", "2026-11-16T11:30:00+01:00"),
        ("in 2h30m", "2026-11-16T12:30:00+01:00"),
        ("in 1 hour and 30 minutes", "2026-11-16T11:30:00+01:00"),
        ("in 1 day, 2 hours, and 5 secs", "2026-11-17T12:00:05+01:00"),
        ("in an hour", "2026-11-16T11:00:00+01:00"),
        ("in a week", "2026-11-23T10:00:00+01:00"),
        ("14:30", "2026-11-16T14:30:00+01:00"),
        ("9:30", "2026-11-17T09:30:00+01:00"),
        ("today 14:30", "2026-11-16T14:30:00+01:00"),
        ("tomorrow 9:00", "2026-11-17T09:00:00+01:00"),
        ("Tomorrow at 09:00", "2026-11-17T09:00:00+01:00"),
        ("2026-12-24 18:00", "2026-12-24T18:00:00+01:00"),
        ("2026-12-24T18:00:00Z", "2026-12-24T19:00:00+01:00"),
    ],
)
def test_a_time_is_a_moment_of_the_zone(said: str, means: str) -> None:
    assert parse_spoken_time(said, "Europe/Berlin", TEN_IN_BERLIN) == means


@pytest.mark.parametrize(
    "said",
    [
        "",
        "soon",
        "+",
        "+20 mintes",
        "in 20 mintes",
        "+5",
        "5",
        "-20m",
        "+-20m",
        "+0m",
        "in 0 minutes",
        "30m2h",
        "20m20m",
        "in 2 months",
        "in 2 hours and",
        "1.5h",
        "++20m",
        "in +20m",
        "in an",
        "+\u0662m",
        "in " + "1 day " * 200,
        "25:00",
        "12:60",
        "@daily",
        "x" * 500,
    ],
)
def test_what_is_no_time_is_refused_with_forms_that_are(said: str) -> None:
    with pytest.raises(Invalid, match="write it like 'tomorrow 9:00'"):
        parse_spoken_time(said, "UTC", TEN_IN_BERLIN)


@pytest.mark.parametrize(
    ("said", "way_out"),
    [
        ("tomorrow", "write 'tomorrow at 9:00'"),
        ("2026-12-24", "write it like '2026-12-24 09:00'"),
        ("every weekday at 9", r"again and again \(every weekday at 9:00\)"),
    ],
)
def test_what_is_no_single_time_says_what_is_understood(said: str, way_out: str) -> None:
    with pytest.raises(Invalid, match=way_out):
        parse_spoken_time(said, "UTC", TEN_IN_BERLIN)


def test_what_is_further_away_than_ten_years_is_refused() -> None:
    for said in ("+99999999d", "in 99999999 weeks"):
        with pytest.raises(Invalid, match="more than ten years away"):
            parse_spoken_time(said, "UTC", TEN_IN_BERLIN)


def test_what_is_over_is_refused() -> None:
    with pytest.raises(Invalid, match="write 'tomorrow 9:30'"):
        parse_spoken_time("today 9:30", "Europe/Berlin", TEN_IN_BERLIN)
    with pytest.raises(Invalid, match="in the past"):
        parse_spoken_time("2026-11-15 09:30", "Europe/Berlin", TEN_IN_BERLIN)


def test_a_time_of_day_in_a_night_of_daylight_saving_is_one_moment() -> None:
    spring = at("2027-03-28T00:00:00+01:00")
    assert parse_spoken_time("2:30", "Europe/Berlin", spring) == "2027-03-28T03:30:00+02:00"
    autumn = at("2027-10-31T00:00:00+02:00")
    assert parse_spoken_time("2:30", "Europe/Berlin", autumn) == "2027-10-31T02:30:00+02:00"


def test_a_moment_between_two_seconds_is_never_early() -> None:
    now = TEN_IN_BERLIN + 400_000
    found = datetime.fromisoformat(parse_spoken_time("+2m", "UTC", now)).astimezone(UTC)
    assert int(found.timestamp()) * SECOND >= now + 120 * SECOND
