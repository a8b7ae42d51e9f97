"""The rows of alerts: one that is open for each condition and subject, and what was said of it."""

from tests.store.conftest import NOON

from gatepost.core.clock import DAY, HOUR, MINUTE
from gatepost.store.gateways import alerts
from gatepost.store.gateways.alerts import KEPT, Alert, AlertKey
from gatepost.store.port import Db

DEAF, DISK = AlertKey("channel_deaf", "telegram"), AlertKey("disk_low", "", "a")


def begin(db: Db, key: AlertKey = DEAF, now: int = NOON) -> Alert:
    alerts.begin(db, key, "", now)
    return next(each for each in alerts.list_open(db) if each.key == key)


def read(db: Db, alert_id: str) -> Alert:
    found = alerts.get(db, alert_id)
    assert found is not None
    return found


def test_a_condition_that_is_found_again_and_again_is_one_open_row_since_the_first_time(db: Db) -> None:
    first = begin(db)
    begin(db, now=NOON + MINUTE)
    begin(db, AlertKey("channel_deaf", "slack"))
    assert [(each.subject, each.since) for each in alerts.list_open(db)] == [("telegram", NOON), ("slack", NOON)]
    assert alerts.count_open(db) == {"channel_deaf": 2}
    alerts.end(db, [first.id], "over", NOON + HOUR)
    again = begin(db, now=NOON + 2 * HOUR)
    assert again.id != first.id and again.since == NOON + 2 * HOUR


def test_the_same_condition_of_two_machines_is_two_rows(db: Db) -> None:
    begin(db, DISK)
    begin(db, AlertKey("disk_low", "", "b"))
    assert [each.gateway for each in alerts.list_open(db)] == ["a", "b"]


def test_what_passed_before_it_was_told_is_forgotten_and_what_was_told_is_not(db: Db) -> None:
    row, told = begin(db), begin(db, DISK)
    alerts.clear(db, row.id, NOON + 1)
    alerts.clear(db, row.id, NOON + 2)
    assert read(db, row.id).cleared_at == NOON + 1
    alerts.record_message(db, [told.id], "k1", "telegram", NOON)
    alerts.forget(db, [row.id, told.id])
    assert [each.id for each in alerts.list_open(db)] == [told.id]


def test_what_is_seen_again_is_not_cleared_any_more(db: Db) -> None:
    row = begin(db, DISK)
    alerts.clear(db, row.id, NOON + 1)
    alerts.see_again(db, row.id, "0.3 GB")
    assert (read(db, row.id).cleared_at, read(db, row.id).detail) == (None, "0.3 GB")


def test_a_message_that_did_not_arrive_leaves_all_that_it_told_of_untold(db: Db) -> None:
    one, two, other = begin(db), begin(db, DISK), begin(db, AlertKey("backup"))
    alerts.record_message(db, [one.id, two.id], "k1", "telegram", NOON)
    alerts.record_message(db, [other.id], "k2", "telegram", NOON)
    alerts.record_undelivered(db, "k1", NOON + MINUTE)
    found = {each.condition: (each.told_at, each.tries, each.next_at) for each in alerts.list_open(db)}
    assert found["channel_deaf"] == found["disk_low"] == (None, 1, NOON + MINUTE)
    assert found["backup"] == (NOON, 1, None)


def test_messages_are_counted_once_for_all_that_share_them(db: Db) -> None:
    one, two = begin(db), begin(db, DISK)
    alerts.record_message(db, [one.id, two.id], "k1", "telegram", NOON)
    assert alerts.count_messages(db, NOON - 1) == 1
    alerts.end(db, [one.id], "k2", NOON + 1)
    alerts.end(db, [two.id], "", NOON + 1)
    assert alerts.count_messages(db, NOON - 1) == 2
    assert alerts.count_messages(db, NOON + 1) == 0
    assert alerts.count_returns(db, NOON - 1) == {DEAF: 1}, "of the other nobody was told"


def test_a_mute_outlasts_the_alert_that_it_was_given_for(db: Db) -> None:
    row = begin(db)
    assert alerts.mute(db, row.id, NOON + DAY)
    alerts.end(db, [row.id], "", NOON + HOUR)
    assert not alerts.mute(db, row.id, None), "it is over"
    assert begin(db, now=NOON + 2 * HOUR).is_muted(NOON + 2 * HOUR)
    alerts.end(db, [each.id for each in alerts.list_open(db)], "", NOON + 3 * HOUR)
    assert begin(db, now=NOON + 2 * DAY).muted_until is None


def test_an_alert_that_is_over_for_long_is_removed_and_an_open_one_is_not(db: Db) -> None:
    old, kept = begin(db), begin(db, DISK)
    alerts.end(db, [old.id], "k", NOON)
    assert [each.id for each in alerts.list_over(db, NOON - 1, 10)] == [old.id]
    assert alerts.remove_old(db, NOON + KEPT) == 0
    assert alerts.remove_old(db, NOON + KEPT + 1) == 1
    assert [each.id for each in alerts.list_open(db)] == [kept.id]
