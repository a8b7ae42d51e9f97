"""Alerts: what is not well, one row for as long as it lasts, and what was said about it.

There is one open row for each condition and subject, however many gateways see it. A message is written down in the
transaction that makes the message, so a crash in between neither loses nor repeats one.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from gatepost.core import ids
from gatepost.core.clock import DAY
from gatepost.store.engine.table import Table
from gatepost.store.port import Db

KEPT = 90 * DAY  # an alert that is over
MOST_LISTED = 500
MOST_REMOVED = 200  # at once


class AlertKey(Struct, frozen=True, order=True):
    """`subject`: a channel, a group and so on; '' where there is one alone. `gateway`: whose machine it is about; '':
    it is about the store, which all share."""

    condition: str
    subject: str = ""
    gateway: str = ""


class Alert(Struct, frozen=True, kw_only=True):
    id: str
    condition: str
    subject: str
    gateway: str
    detail: str  # a number or a day, as it was last seen
    since: int
    cleared_at: int | None = None  # since when it is not seen any more
    told_at: int | None = None
    told_key: str = ""  # of the message; several may share one
    told_instance: str = ""
    tries: int = 0  # messages that were made to tell of it
    next_at: int | None = None  # before then nobody is told: it could not be delivered
    muted_until: int | None = None
    over_at: int | None = None
    over_key: str = ""

    @property
    def key(self) -> AlertKey:
        return AlertKey(self.condition, self.subject, self.gateway)

    def is_muted(self, now: int) -> bool:
        return self.muted_until is not None and now < self.muted_until


ALERTS = Table("alerts", Alert)


def list_open(db: Db) -> list[Alert]:
    return ALERTS.list(db, "WHERE over_at IS NULL ORDER BY since, id LIMIT ?", MOST_LISTED)


def list_over(db: Db, since: int, most: int) -> list[Alert]:
    """Return those that were over after `since`, the latest first."""
    return ALERTS.list(db, "WHERE over_at > ? ORDER BY over_at DESC, id LIMIT ?", since, min(most, MOST_LISTED))


def get(db: Db, alert_id: str) -> Alert | None:
    return ALERTS.get(db, "WHERE id = ?", alert_id)


def count_open(db: Db) -> dict[str, int]:
    """By condition."""
    rows = db.rows("SELECT condition, COUNT(*) FROM alerts WHERE over_at IS NULL GROUP BY condition")
    return {str(condition): int(count) for condition, count in rows}


def begin(db: Db, key: AlertKey, detail: str, now: int) -> None:
    """Open an alert, unless it is open. A mute of the last one of its kind still holds."""
    row = db.row(
        "SELECT MAX(muted_until) FROM alerts WHERE condition = ? AND subject = ? AND gateway = ?"
        " AND over_at IS NOT NULL",
        (key.condition, key.subject, key.gateway),
    )
    muted_until = row[0] if row is not None and row[0] is not None and row[0] > now else None
    new = Alert(
        id=ids.new("al"),
        condition=key.condition,
        subject=key.subject,
        gateway=key.gateway,
        detail=detail,
        since=now,
        muted_until=muted_until,
    )
    ALERTS.insert(db, "ON CONFLICT (condition, subject, gateway) WHERE over_at IS NULL DO NOTHING", new)


def see_again(db: Db, alert_id: str, detail: str) -> None:
    db.run(
        "UPDATE alerts SET cleared_at = NULL, detail = ? WHERE id = ? AND over_at IS NULL",
        (detail, alert_id),
    )


def clear(db: Db, alert_id: str, now: int) -> None:
    """It is not seen any more. It is over once that lasts."""
    db.run(
        "UPDATE alerts SET cleared_at = ? WHERE id = ? AND cleared_at IS NULL AND over_at IS NULL",
        (now, alert_id),
    )


def forget(db: Db, alert_ids: Iterable[str]) -> None:
    """Remove what passed before anybody was told of it."""
    for each in alert_ids:
        db.run("DELETE FROM alerts WHERE id = ? AND told_at IS NULL AND over_at IS NULL", (each,))


def record_message(db: Db, alert_ids: Sequence[str], message_key: str, instance: str, now: int) -> None:
    for each in alert_ids:
        db.run(
            "UPDATE alerts SET told_at = ?, told_key = ?, told_instance = ?, tries = tries + 1, next_at = NULL"
            " WHERE id = ?",
            (now, message_key, instance, each),
        )


def record_undelivered(db: Db, message_key: str, next_at: int) -> None:
    """The message did not arrive: whoever it told of is to be told again."""
    db.run(
        "UPDATE alerts SET told_at = NULL, next_at = ? WHERE told_key = ? AND over_at IS NULL",
        (next_at, message_key),
    )


def end(db: Db, alert_ids: Sequence[str], message_key: str, now: int) -> None:
    """`message_key`: of the message that says so; '': nobody was told."""
    for each in alert_ids:
        db.run("UPDATE alerts SET over_at = ?, over_key = ? WHERE id = ? AND over_at IS NULL", (now, message_key, each))


def mute(db: Db, alert_id: str, until: int | None) -> bool:
    """None: it is told of again. False: there is no such alert, or it is over."""
    return bool(db.run("UPDATE alerts SET muted_until = ? WHERE id = ? AND over_at IS NULL", (until, alert_id)))


def count_messages(db: Db, since: int) -> int:
    """Return the messages about alerts that were made after `since`, of which each may tell of several."""
    row = db.row(
        "SELECT COUNT(*) FROM (SELECT told_key AS key FROM alerts WHERE told_at > ? AND told_key <> ''"
        " UNION SELECT over_key FROM alerts WHERE over_at > ? AND over_key <> '') AS messages",
        (since, since),
    )
    return int(row[0]) if row is not None else 0


def count_returns(db: Db, since: int) -> dict[AlertKey, int]:
    """Return how often what is open was told as over after `since`: it comes and goes."""
    rows = db.rows(
        "SELECT condition, subject, gateway, COUNT(*) FROM alerts WHERE over_at > ? AND over_key <> ''"
        " GROUP BY condition, subject, gateway LIMIT ?",
        (since, MOST_LISTED),
    )
    return {AlertKey(str(row[0]), str(row[1]), str(row[2])): int(row[3]) for row in rows}


def remove_old(db: Db, now: int) -> int:
    """Remove some of those that are over for long."""
    old = "SELECT id FROM alerts WHERE over_at < ? ORDER BY over_at LIMIT ?"
    return db.run(f"DELETE FROM alerts WHERE id IN ({old})", (now - KEPT, MOST_REMOVED))
