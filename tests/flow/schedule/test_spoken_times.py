"""Times in words: what is meant, what may mean two things, and the same words for what is written down."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.core.clock import SECOND
from gatepost.core.errors import Invalid
from gatepost.flow.schedule.spoken_times import read_words, render_cron
from gatepost.flow.schedule.times import parse_schedule, parse_when, render_schedule
from gatepost.store.schedule.tasks import ScheduleKind

BERLIN = "Europe/Berlin"
HERE = datetime(2026, 11, 19, 10, 30, tzinfo=ZoneInfo(BERLIN))  # a Thursday
NOW = int(HERE.timestamp()) * SECOND


@pytest.mark.parametrize(
    ("said", "fields"),
    [
        ("every weekday at 9", "0 9 * * 1-5"),
        ("Every weekday at 9:30", "30 9 * * 1-5"),
        ("on weekdays at 5 pm", "0 17 * * 1-5"),
        ("every day at noon", "0 12 * * *"),
        ("daily at 6:15", "15 6 * * *"),
        ("every day at 9 and 17", "0 9,17 * * *"),
        ("at 9 every day", "0 9 * * *"),
        ("every morning at 8", "0 8 * * *"),
        ("every evening at 8", "0 20 * * *"),
        ("every day at 12 am", "0 0 * * *"),
        ("every weekend at 10", "0 10 * * 6,0"),
        ("every monday at 9", "0 9 * * 1"),
        ("mondays at 9", "0 9 * * 1"),
        ("every mon, wed and fri at 9:00", "0 9 * * 1,3,5"),
        ("every tuesday to saturday at 9", "0 9 * * 2-6"),
        ("every week on sunday at 9", "0 9 * * 0"),
        ("every 1st of the month at 8", "0 8 1 * *"),
        ("every month on the 15th at 8", "0 8 15 * *"),
        ("on the 1st and 15th of every month at 8", "0 8 1,15 * *"),
        ("every last day of the month at 18:00", "0 18 L * *"),
        ("every first monday of the month at 9", "0 9 * * 1#1"),
        ("every last friday of the month at 16:00", "0 16 * * 5L"),
        ("every 24 december at 18:00", "0 18 24 12 *"),
        ("every year on December 24th at 6 pm", "0 18 24 12 *"),
    ],
)
def test_a_calendar_in_words_is_five_fields(said: str, fields: str) -> None:
    schedule, _ = parse_schedule(said, BERLIN, NOW)
    assert (schedule.kind, schedule.text, schedule.zone) == (ScheduleKind.CRON, fields, BERLIN)


@pytest.mark.parametrize(
    ("said", "moment"),
    [
        ("tomorrow at 18:00", "2026-11-20T18:00:00+01:00"),
        ("tomorrow evening at 6", "2026-11-20T18:00:00+01:00"),
        ("tomorrow at 8 in the evening", "2026-11-20T20:00:00+01:00"),
        ("9 am tomorrow", "2026-11-20T09:00:00+01:00"),
        ("today at 5pm", "2026-11-19T17:00:00+01:00"),
        ("tonight at 8", "2026-11-19T20:00:00+01:00"),
        ("at 18", "2026-11-19T18:00:00+01:00"),
        ("at 9", "2026-11-20T09:00:00+01:00"),
        ("the day after tomorrow at noon", "2026-11-21T12:00:00+01:00"),
        ("friday at 9", "2026-11-20T09:00:00+01:00"),
        ("on thursday at 18:00", "2026-11-19T18:00:00+01:00"),
        ("thursday at 9:00", "2026-11-26T09:00:00+01:00"),
        ("24 December at 18:00", "2026-12-24T18:00:00+01:00"),
        ("on March 1st at 9", "2027-03-01T09:00:00+01:00"),
        ("24.12. at 18:00", "2026-12-24T18:00:00+01:00"),
        ("1 july 2027 at 9", "2027-07-01T09:00:00+02:00"),
        ("2026-12-24 at 18:00", "2026-12-24T18:00:00+01:00"),
        ("in two hours", "2026-11-19T12:30:00+01:00"),
        ("in half an hour", "2026-11-19T11:00:00+01:00"),
        ("in three days at 9", "2026-11-22T09:00:00+01:00"),
        ("in two weeks at 9", "2026-12-03T09:00:00+01:00"),
    ],
)
def test_a_time_in_words_is_one_moment_of_the_zone(said: str, moment: str) -> None:
    assert parse_when("", "", "", BERLIN, NOW, said) == moment
    assert parse_when(said, "", "", BERLIN, NOW) == moment


@pytest.mark.parametrize(
    ("said", "exact", "words"),
    [
        ("every 30 minutes", "30m", "every 30 minutes"),
        ("every half an hour", "30m", "every 30 minutes"),
        ("every hour", "1h", "every hour"),
        ("hourly", "1h", "every hour"),
        ("every two hours", "2h", "every 2 hours"),
        ("every 2 days", "2d", "every 2 days"),
        ("every 24 hours", "1d", "every 24 hours"),
        ("every 90 minutes", "1h30m", "every 1 hour 30 minutes"),
    ],
)
def test_an_interval_in_words_is_exact_and_is_said_in_words_again(said: str, exact: str, words: str) -> None:
    schedule, _ = parse_schedule(said, BERLIN, NOW)
    assert (schedule.kind, schedule.text, render_schedule(schedule)) == (ScheduleKind.EVERY, exact, words)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("next friday at 9", "'20 November' or '27 November'"),
        ("3/4 at 9", "'3 April' or '4 March'"),
        ("1st of the month at 8", "'every 1st of the month' or a date"),
        ("every day", "write 'every day at 9:00'"),
        ("every week", "write 'every monday at 9:00'"),
        ("every weekday", "write 'every weekday at 9:00'"),
        ("every other day at 9", "write 'every 2 days' or 'every 14 days'"),
        ("every day at 9:00 and 17:30", "make a task for each"),
        ("every weekday at 25", "understood 'every weekday', but '25' is no time of day"),
        ("evry weekday at 9", "understood the time '9', but not 'evry weekday'; did you mean 'every weekday'"),
        ("30 february at 9", "there is no 30 February"),
        ("every 32nd of the month at 9", "a month has no '32nd'"),
        ("tomorrow at 9 and 10", "says 2 times"),
    ],
)
def test_what_may_mean_two_things_or_none_says_what_is_understood(said: str, why: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_schedule(said, BERLIN, NOW, "when")
    assert refused.value.target == "when" and why in str(refused.value)


@pytest.mark.parametrize(
    "exact", ["0 9 * * 1-5", "@daily", "61 * * * *", "2026-12-24T18:00:00+01:00", "٣ friday at 9", ""]
)
def test_what_is_exact_already_is_not_read_as_words(exact: str) -> None:
    assert read_words(exact, HERE, "when") is None


numbers = st.integers(0, 59)
WEEKDAYS = ["* * *", "* * 1-5", "* * 6,0", "* * 1", "* * 0", "* * 2,4", "* * 3#2", "* * 5L"]
DAYS = st.sampled_from([*WEEKDAYS, "1 * *", "31 * *", "1,15,22 * *", "L * *", "24 12 *", "29 2 *"])


@given(minute=numbers, hours=st.sets(st.integers(0, 23), min_size=1, max_size=3), days=DAYS)
def test_words_for_five_fields_are_read_as_the_same_fields(minute: int, hours: set[int], days: str) -> None:
    fields = f"{minute} {','.join(map(str, sorted(hours)))} {days}"
    words = render_cron(fields)
    assert words != fields and read_words(words, HERE, "when") == fields


@pytest.mark.parametrize("fields", ["*/5 * * * *", "0 9-17 * * 1-5", "0 9 1 * 1", "0 9 1-7 * *", "@daily"])
def test_fields_without_words_are_said_as_they_are(fields: str) -> None:
    assert render_cron(fields) == fields


@given(st.text(alphabet="abcdefghimnorstuvwy0123456789 :,./-#", max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_schedule(text, BERLIN, NOW)
    except Invalid as refused:
        assert refused.target == "cron"
