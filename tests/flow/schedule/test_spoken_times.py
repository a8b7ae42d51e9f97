"""Times as people say them."""

from datetime import UTC, datetime

import pytest

from gatepost.core.clock import SECOND
from gatepost.core.errors import Invalid
from gatepost.flow.schedule.spoken_times import parse_spoken_time


def at(moment: str) -> int:
    return int(datetime.fromisoformat(moment).timestamp()) * SECOND


NOW = at("2026-11-16T10:00:00+01:00")


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
    assert parse_spoken_time(said, "Europe/Berlin", NOW) == means


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
        "tomorrow",
        "2026-12-24",
        "@daily",
        "x" * 500,
    ],
)
def test_what_is_no_time_is_refused_with_forms_that_are(said: str) -> None:
    with pytest.raises(Invalid, match=r"write it like 2027-01-31T09:00:00\+01:00.*tomorrow 9:00"):
        parse_spoken_time(said, "UTC", NOW)


def test_what_is_further_away_than_ten_years_is_refused() -> None:
    for said in ("+99999999d", "in 99999999 weeks"):
        with pytest.raises(Invalid, match="more than ten years away"):
            parse_spoken_time(said, "UTC", NOW)


def test_what_is_over_is_refused() -> None:
    with pytest.raises(Invalid, match="write 'tomorrow 9:30'"):
        parse_spoken_time("today 9:30", "Europe/Berlin", NOW)
    with pytest.raises(Invalid, match="in the past"):
        parse_spoken_time("2026-11-15 09:30", "Europe/Berlin", NOW)


def test_a_time_of_day_in_a_night_of_daylight_saving_is_one_moment() -> None:
    spring = at("2027-03-28T00:00:00+01:00")
    assert parse_spoken_time("2:30", "Europe/Berlin", spring) == "2027-03-28T03:30:00+02:00"
    autumn = at("2027-10-31T00:00:00+02:00")
    assert parse_spoken_time("2:30", "Europe/Berlin", autumn) == "2027-10-31T02:30:00+02:00"


def test_a_moment_between_two_seconds_is_never_early() -> None:
    now = NOW + 400_000
    found = datetime.fromisoformat(parse_spoken_time("+2m", "UTC", now)).astimezone(UTC)
    assert int(found.timestamp()) * SECOND >= now + 120 * SECOND
