"""When somebody is told of an alert, and when not: values in, values out."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gatepost.core.clock import HOUR, MINUTE, SECOND
from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.serve.alerts.alert_plan import (
    LONGEST_PAUSE,
    LONGEST_SETTLE,
    SETTLE,
    AlertCircumstances,
    AlertMessages,
    check_alerts,
    compare,
    get_pause,
    get_settle,
    is_undelivered,
    plan_messages,
    read_quiet_hours,
)
from gatepost.serve.alerts.conditions import SeenConditions
from gatepost.store.gateways.alerts import Alert, AlertKey
from gatepost.store.messages.outbox import EffectState

NOON = 1_800_000_000_000_000
DEAF, FULL = AlertKey("channel_deaf", "tg"), AlertKey("disk_full")
LOOKED = frozenset({"channel_deaf", "disk_full", "agent"})
QUIET = read_quiet_hours(Config({"alerts.quiet_hours": "22:00-07:00", "timezone": "Europe/Berlin"}))


def row(condition: str = "channel_deaf", subject: str = "tg", **more: Any) -> Alert:
    given = {"id": f"{condition}/{subject}", "gateway": "", "detail": "", "since": NOON - HOUR, **more}
    return Alert(condition=condition, subject=subject, **given)


def plan(*rows: Alert, **around: Any) -> AlertMessages:
    return plan_messages(rows, AlertCircumstances(**{"now": NOON, **around}))


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND


def test_a_look_opens_what_is_new_clears_what_is_gone_and_keeps_what_it_could_not_see() -> None:
    rows = [row(), row("agent", "acme"), row("backup", "")]
    seen = SeenConditions({FULL: "", AlertKey("agent", "acme"): ""}, LOOKED)
    changes = compare(rows, seen, "", None)
    assert (dict(changes.begun), dict(changes.seen), changes.cleared) == ({FULL: ""}, {}, ("channel_deaf/tg",))
    assert not compare(rows[1:], SeenConditions({AlertKey("agent", "acme"): ""}, LOOKED), "", None).has_any


def test_what_others_have_crowded_out_is_not_said_to_be_over() -> None:
    lasting, back = row("agent", "home"), row("agent", "work", cleared_at=NOON)
    seen = SeenConditions({}, frozenset({"agent"}), frozenset({lasting.key, back.key}))
    changes = compare([lasting, back], seen, "", None)
    assert (changes.begun, changes.cleared, dict(changes.seen)) == ({}, (), {back.id: back.detail})


def test_what_is_seen_again_or_has_another_number_is_written_down() -> None:
    rows = [row(cleared_at=NOON), row("disk_full", "", detail="1")]
    changes = compare(rows, SeenConditions({DEAF: "", FULL: "2"}, LOOKED), "", None)
    assert changes.seen == {"channel_deaf/tg": "", "disk_full/": "2"} and not changes.cleared


def test_another_machines_condition_is_its_own_until_that_gateway_is_gone() -> None:
    rows, seen = [row("disk_full", "", gateway="b")], SeenConditions({}, LOOKED)
    assert not compare(rows, seen, "a", None).cleared
    assert not compare(rows, seen, "a", {"a", "b"}).cleared
    assert compare(rows, seen, "a", {"a"}).cleared == ("disk_full/",)


def test_a_condition_that_this_version_does_not_know_is_over_without_a_word() -> None:
    old = row("of_another_version", "x", told_at=NOON - HOUR)
    assert compare([old], SeenConditions({}, frozenset()), "", None).cleared == (old.id,)
    done = plan(row("of_another_version", "x", told_at=1, cleared_at=NOON - HOUR))
    assert len(done.ended) == 1 and not done.has_news


def test_it_is_told_once_it_has_lasted_and_then_not_again() -> None:
    assert not plan(row(since=NOON - 29 * SECOND)).has_news
    assert len(plan(row(since=NOON - 30 * SECOND)).begins) == 1
    assert not plan(row(told_at=NOON - MINUTE)).has_news


def test_what_passes_before_it_is_told_is_forgotten() -> None:
    done = plan(row(since=NOON - SETTLE - 40 * SECOND, cleared_at=NOON - SETTLE))
    assert len(done.forgotten) == 1 and not done.has_news


def test_the_end_is_told_once_it_has_lasted_and_takes_the_longer_the_more_often_it_came_back() -> None:
    told = {"told_at": NOON - HOUR}
    assert not plan(row(cleared_at=NOON - SETTLE + 1, **told)).has_news
    assert len(plan(row(cleared_at=NOON - SETTLE, **told)).ends) == 1
    assert not plan(row(cleared_at=NOON - SETTLE, **told), returns={DEAF: 1}).has_news
    assert [get_settle(count) // MINUTE for count in (0, 1, 2, 4, 99)] == [1, 2, 4, 16, LONGEST_SETTLE // MINUTE]


def test_what_another_condition_of_the_same_channel_has_replaced_is_not_said_to_be_over() -> None:
    ended = row("channel_ended", since=NOON - MINUTE)
    done = plan(row(cleared_at=NOON, told_at=NOON - HOUR), ended)
    assert (done.begins, done.ends, [each.condition for each in done.ended]) == ((ended,), (), ["channel_deaf"])


def test_somebody_who_could_not_be_reached_is_told_when_it_is_over() -> None:
    assert len(plan(row(cleared_at=NOON - SETTLE)).ends) == 1
    in_the_night = at("2027-01-15T02:00")
    slept = row(since=in_the_night - HOUR, cleared_at=in_the_night)
    assert not plan(slept, now=at("2027-01-15T08:00"), quiet=QUIET).has_news, "they slept, and it is over"


def test_a_muted_alert_says_nothing_and_is_told_once_the_mute_is_over() -> None:
    assert not plan(row(muted_until=NOON + 1)).has_news
    assert plan(row(muted_until=NOON)).has_news
    done = plan(row(told_at=NOON - HOUR, cleared_at=NOON - HOUR, muted_until=NOON + 1))
    assert len(done.ended) == 1 and not done.has_news


def test_quiet_hours_let_severe_ones_pass_and_the_others_follow_in_the_morning() -> None:
    night, morning = at("2027-01-15T03:00"), at("2027-01-15T06:30")  # in Berlin it is an hour later
    rows = [row(since=night - HOUR), row("disk_full", "", since=night - HOUR)]
    assert [each.condition for each in plan(*rows, now=night, quiet=QUIET).begins] == ["disk_full"]
    assert len(plan(*rows, now=morning, quiet=QUIET).begins) == 2


@pytest.mark.parametrize(
    ("hours", "moment", "quiet"), [("22:00-07:00", "23:30", True), ("22:00-07:00", "12:00", False)]
)
def test_quiet_hours_may_go_over_midnight(hours: str, moment: str, quiet: bool) -> None:
    found = read_quiet_hours(Config({"alerts.quiet_hours": hours}))
    assert found is not None and found.has(at(f"2027-01-15T{moment}")) is quiet


def test_hours_within_a_day_and_none_at_all() -> None:
    found = read_quiet_hours(Config({"alerts.quiet_hours": "12:00-13:30"}))
    assert found is not None and found.has(at("2027-01-15T13:29")) and not found.has(at("2027-01-15T13:30"))
    assert read_quiet_hours(Config({"alerts.quiet_hours": ""})) is None


@pytest.mark.parametrize("said", ["late", "22-", "25:00-07:00", "22:00+01:00-07:00"])
def test_quiet_hours_that_are_none_stop_the_start_with_an_example(said: str, home: Home) -> None:
    with pytest.raises(SetupError, match=r"alerts\.quiet_hours.*"):
        check_alerts(home, Config({"alerts.quiet_hours": said}))


def test_no_message_at_all_is_refused_as_a_setting(home: Home) -> None:
    with pytest.raises(SetupError, match="nobody would ever be told"):
        check_alerts(home, Config({"alerts.most_an_hour": 0}))


def test_a_storm_has_a_bounded_number_of_messages_and_the_last_tells_of_all_the_rest() -> None:
    rows = [row(subject=f"c{number:03}") for number in range(200)]
    done = plan(*rows, most=10)
    assert (len(done.begins), len(done.begins_together)) == (9, 191)
    full = plan(*rows, most=10, sent=10)
    assert not full.has_news, "they wait until the hour has room"


def test_a_severe_one_has_room_of_its_own_in_a_full_hour() -> None:
    rows = [row(subject=f"c{number}") for number in range(50)]
    done = plan(*rows, row("disk_full", "", since=NOON - MINUTE), most=10, sent=10)
    assert [each.condition for each in done.begins] == ["disk_full"] and not done.begins_together
    assert not plan(*rows, row("disk_full", ""), most=10, sent=15).has_news


def test_severe_ones_come_first() -> None:
    done = plan(row(subject="a"), row("disk_full", "", since=NOON - MINUTE), row(subject="b"), most=2)
    assert [each.condition for each in done.begins] == ["disk_full"]
    assert [each.subject for each in done.begins_together] == ["a", "b"]


def test_begins_and_ends_share_the_hour() -> None:
    over = [row("agent", f"g{number}", told_at=1, cleared_at=NOON - HOUR) for number in range(9)]
    done = plan(row(), row(subject="b"), *over, most=4)
    assert (len(done.begins), len(done.ends), len(done.ends_together)) == (2, 1, 8)


@pytest.mark.parametrize(
    ("state", "age", "works", "missed"),
    [
        (EffectState.FAILED, 0, True, True),
        (EffectState.PENDING, 2 * MINUTE, False, True),
        (EffectState.PENDING, 2 * MINUTE, True, False),
        (EffectState.PENDING, 0, False, False),
        (EffectState.SENDING, HOUR, False, False),
        (EffectState.UNCERTAIN, HOUR, False, False),
        (EffectState.SENT, HOUR, False, False),
    ],
)
def test_only_what_surely_did_not_arrive_is_told_anew(state: EffectState, age: int, works: bool, missed: bool) -> None:
    assert is_undelivered(state, NOON - age, works, NOON) is missed


def test_who_is_not_reached_is_tried_ever_more_rarely() -> None:
    assert [get_pause(tries) // MINUTE for tries in (1, 2, 3, 99)] == [1, 2, 4, LONGEST_PAUSE // MINUTE]
    assert not plan(row(next_at=NOON + 1, tries=1)).has_news
