"""Decisions about alerts: what begins, what is over, who is told when. Pure.

A condition that comes and goes is no storm. It has to last before it is told, and to be over for a while before that is
told: the longer, the more often it came back. In an hour there is a bounded number of messages; the last of them tells
of all that would go beyond it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, time, tzinfo

from msgspec import Struct

from gatepost.core.clock import HOUR, MINUTE, SECOND, find_zone
from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.core.settings import Config, setting, start_check
from gatepost.flow.schedule import TIMEZONE
from gatepost.serve.alerts.conditions import CONDITIONS, SeenConditions, get_family, get_hold, is_severe
from gatepost.store.gateways.alerts import Alert, AlertKey
from gatepost.store.messages.outbox import EffectState

SETTLE, LONGEST_SETTLE = MINUTE, 16 * MINUTE  # for which it has to be over
MISSED = MINUTE  # beyond its hold: so long after it somebody would have been told
LOOK_BACK = HOUR  # for what came back, and for the messages that were sent
FOR_SEVERE = 5  # messages of an hour that only severe ones may take
UNDELIVERED = MINUTE  # after which a message that waits on a channel in trouble is sent elsewhere
FIRST_PAUSE, LONGEST_PAUSE = MINUTE, HOUR  # before somebody is told again whom a message did not reach
QUIET = setting(
    "alerts.quiet_hours",
    "",
    help="When only severe alerts are told, such as 22:00-07:00, in the zone of `timezone`; the others follow after"
    " it. Empty: never.",
)
MOST_AN_HOUR = setting(
    "alerts.most_an_hour", 10, help="Messages about alerts in an hour; the last one tells how many more there are."
)


class QuietHours(Struct, frozen=True):
    start: time
    end: time
    zone: tzinfo

    def has(self, now: int) -> bool:
        """They may go over midnight."""
        local = datetime.fromtimestamp(now / SECOND, UTC).astimezone(self.zone).time()
        if self.start <= self.end:
            return self.start <= local < self.end
        return local >= self.start or local < self.end


def read_quiet_hours(config: Config) -> QuietHours | None:
    """None: there are none. Raises SetupError."""
    said = config[QUIET].strip()
    if not said:
        return None
    start, dash, end = said.partition("-")
    try:
        if not dash:
            raise ValueError
        first, last = time.fromisoformat(start.strip()), time.fromisoformat(end.strip())
    except ValueError:
        raise SetupError(f"{QUIET.name} = {said[:40]!r} is no span of a day; write it like 22:00-07:00") from None
    if first.tzinfo is not None or last.tzinfo is not None:
        raise SetupError(f"{QUIET.name} = {said[:40]!r} names a zone; the setting {TIMEZONE.name} says it")
    return QuietHours(first, last, find_zone(config[TIMEZONE]) or UTC)


@start_check
def check_alerts(home: Home, config: Config) -> None:
    read_quiet_hours(config)
    if config[MOST_AN_HOUR] < 1:
        raise SetupError(f"{MOST_AN_HOUR.name} = {config[MOST_AN_HOUR]}: nobody would ever be told; the least is 1")


class AlertChanges(Struct, frozen=True):
    """The changes that a look makes in the store: conditions that began, rows by id with a new detail, rows that are
    cleared."""

    begun: Mapping[AlertKey, str] = {}
    seen: Mapping[str, str] = {}
    cleared: tuple[str, ...] = ()

    @property
    def has_any(self) -> bool:
        return bool(self.begun or self.seen or self.cleared)


def compare(rows: Iterable[Alert], seen: SeenConditions, gateway: str, living: Collection[str] | None) -> AlertChanges:
    """`gateway`: whose own conditions were looked at; those of another are that one's, unless it is gone. `living`: the
    gateways that live; None where that was not looked at."""
    known = {each.key: each for each in rows}
    again, cleared = dict[str, str](), list[str]()
    for key, row in known.items():
        if key in seen.found:
            if row.cleared_at is not None or row.detail != seen.found[key]:
                again[row.id] = seen.found[key]
        elif key in seen.beyond:
            if row.cleared_at is not None:
                again[row.id] = row.detail
        elif row.cleared_at is None and _may_judge(key, seen, gateway, living):
            cleared.append(row.id)
    begun = {key: detail for key, detail in seen.found.items() if key not in known}
    return AlertChanges(begun, again, tuple(cleared))


def _may_judge(key: AlertKey, seen: SeenConditions, gateway: str, living: Collection[str] | None) -> bool:
    """A condition that this version does not know any more is over."""
    if key.condition not in CONDITIONS:
        return True
    if key.gateway not in ("", gateway):
        return living is not None and key.gateway not in living
    return key.condition in seen.looked


class AlertCircumstances(Struct, frozen=True, kw_only=True):
    """`returns`: how often each came back lately. `sent`: messages of the last hour. `most`: of an hour."""

    now: int
    quiet: QuietHours | None = None
    returns: Mapping[AlertKey, int] = {}
    sent: int = 0
    most: int = 10

    @property
    def is_quiet(self) -> bool:
        return self.quiet is not None and self.quiet.has(self.now)


class AlertMessages(Struct, frozen=True):
    """Messages that are due: each by itself, and the rest in one. `forgotten` passed before it was told of;
    `ended` is over, and nobody is told so."""

    begins: tuple[Alert, ...] = ()
    begins_together: tuple[Alert, ...] = ()
    ends: tuple[Alert, ...] = ()
    ends_together: tuple[Alert, ...] = ()
    forgotten: tuple[Alert, ...] = ()
    ended: tuple[Alert, ...] = ()

    @property
    def has_news(self) -> bool:
        """Return True if somebody is to be told."""
        return bool(self.begins or self.begins_together or self.ends or self.ends_together)

    @property
    def has_silent(self) -> bool:
        """Return True if something is to be written down of which nobody is told."""
        return bool(self.forgotten or self.ended)


def plan_messages(rows: Iterable[Alert], around: AlertCircumstances) -> AlertMessages:
    begins, ends, forgotten, ended = list[Alert](), list[Alert](), list[Alert](), list[Alert]()
    every = list(rows)
    lasting = {get_family(row.key) for row in every if row.cleared_at is None}
    for row in every:
        if row.cleared_at is None:
            if is_due(row, around):
                begins.append(row)
        elif get_family(row.key) in lasting:  # another has taken its place
            (forgotten if row.told_at is None else ended).append(row)
        elif around.now - row.cleared_at >= get_settle(around.returns.get(row.key, 0)):
            if row.told_at is None and not is_end_due(row, around):
                forgotten.append(row)
            elif row.is_muted(around.now) or row.condition not in CONDITIONS:
                ended.append(row)
            elif is_severe(row) or not around.is_quiet:
                ends.append(row)
    begins.sort(key=lambda each: (not is_severe(each), each.since, each.id))
    ends.sort(key=lambda each: (not is_severe(each), each.since, each.id))
    first, together, left = _share_out(begins, around, around.sent)
    last, last_together, _ = _share_out(ends, around, around.sent + left)
    return AlertMessages(first, together, last, last_together, tuple(forgotten), tuple(ended))


def is_due(row: Alert, around: AlertCircumstances) -> bool:
    if row.told_at is not None or row.is_muted(around.now) or (row.next_at or 0) > around.now:
        return False
    return around.now - row.since >= get_hold(row) and (is_severe(row) or not around.is_quiet)


def is_end_due(row: Alert, around: AlertCircumstances) -> bool:
    """Return True if somebody would have been told of what is over, and nobody could be reached."""
    lasted = (row.cleared_at or row.since) - row.since
    if row.is_muted(around.now) or row.condition not in CONDITIONS or lasted < get_hold(row) + MISSED:
        return False
    return is_severe(row) or around.quiet is None or not around.quiet.has(row.cleared_at or around.now)


def get_settle(returns: int) -> int:
    """Return for how long it has to be over: the longer, the more often it came back within the hour."""
    return min(SETTLE << min(returns, 10), LONGEST_SETTLE)


def _share_out(
    due: Sequence[Alert], around: AlertCircumstances, sent: int
) -> tuple[tuple[Alert, ...], tuple[Alert, ...], int]:
    """Return those that get a message each, those that share one, and how many messages that makes. Those without room
    wait until the hour has some."""
    room = max(around.most - sent, 0)
    if len(due) <= room:
        return tuple(due), (), len(due)
    if room:
        return tuple(due[: room - 1]), tuple(due[room - 1 :]), room
    severe = [each for each in due if is_severe(each)]
    room = max(around.most + FOR_SEVERE - sent, 0)
    if not severe or not room:
        return (), (), 0
    if len(severe) <= room:
        return tuple(severe), (), len(severe)
    return tuple(severe[: room - 1]), tuple(severe[room - 1 :]), room


def is_undelivered(state: EffectState, made_at: int, works: bool, now: int) -> bool:
    """Return True if a message about an alert is to be made anew, elsewhere. One that went out perhaps is not."""
    if state in (EffectState.FAILED, EffectState.CANCELLED):
        return True
    return state is EffectState.PENDING and not works and now - made_at >= UNDELIVERED


def get_pause(tries: int) -> int:
    """Return for how long nobody is tried again, after so many messages that did not arrive."""
    return min(FIRST_PAUSE << min(max(tries - 1, 0), 10), LONGEST_PAUSE)
