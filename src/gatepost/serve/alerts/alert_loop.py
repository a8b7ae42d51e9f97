"""The job of alerts: looks at the facts, keeps the rows, and has one gateway tell.

Each gateway looks at its own machine. The one that has the duty also looks at what all share, and tells. Should two
believe that they have it, the rows decide: each alert has one message, whoever makes it.
"""

from collections.abc import Callable, Collection, Iterable

from msgspec import Struct

from gatepost.channels.contract import ChannelState
from gatepost.core import log
from gatepost.core.errors import GatepostError
from gatepost.core.event_bus import EventBus
from gatepost.core.process.wake_loop import WakeLoop
from gatepost.core.records import replace
from gatepost.flow.channel_health import ChannelReport
from gatepost.serve.alerts import alert_messages
from gatepost.serve.alerts.alert_facts import AlertFactReader, AlertSources
from gatepost.serve.alerts.alert_messages import Room, WaysToPeople
from gatepost.serve.alerts.alert_plan import (
    LOOK_BACK,
    MOST_AN_HOUR,
    AlertChanges,
    AlertCircumstances,
    compare,
    plan_messages,
    read_quiet_hours,
)
from gatepost.serve.alerts.conditions import CONDITIONS, AlertFacts, SeenConditions, find_conditions
from gatepost.store.gateways import alerts
from gatepost.store.port import Db, LockKind

LOOK_S = 10.0
LANE = "alerts"  # of the writer
_log = log.get("alerts")


class AlertLook(Struct, frozen=True):
    """The conditions that this gateway sees at a moment. `tells`: it is the one that tells."""

    seen: SeenConditions
    gateway: str
    living: Collection[str] | None
    around: AlertCircumstances
    tells: bool


class AlertLoop:
    """`forget_troubles`: is told which troubles of the store have become alerts."""

    def __init__(
        self,
        sources: AlertSources,
        events: EventBus,
        way: WaysToPeople,
        forget_troubles: Callable[[tuple[str, ...]], None],
    ) -> None:
        self._sources, self._events, self._way = sources, events, way
        self._forget_troubles = forget_troubles
        self._reader = AlertFactReader(sources)
        self._quiet = read_quiet_hours(sources.config)
        self.facts: AlertFacts | None = None  # of the last look

    async def run(self) -> None:
        """Until cancelled. Channels get a moment to begin."""
        errors = (GatepostError, OSError)  # whatever this machine lacks, the gateway goes on
        loop = WakeLoop(_log.error, "alerts cannot be written down", pause_s=LOOK_S, errors=errors)
        await loop.run(self.check, first_s=LOOK_S)

    async def check(self) -> None:
        """Look once. Nothing is written unless something changes."""
        self.facts = facts = await self._reader.read()
        gateway, tells = self._sources.gateway, self._sources.looks_for_all()
        wanted = [each for each in CONDITIONS.values() if each.is_local or tells]
        look = AlertLook(
            find_conditions(facts, wanted, gateway),
            gateway,
            self._reader.living if tells else None,
            AlertCircumstances(
                now=facts.now,
                quiet=self._quiet,
                most=self._sources.config[MOST_AN_HOUR],
            ),
            tells,
        )
        way = self.find_way()
        if await self._sources.store.read(needs_record, way, look):
            changed, rooms = await self._sources.store.write(record, way, look, lane=LANE)
            for room in rooms:
                self._events.room(*room)
            if changed:
                self._events.operation()
        self._forget_troubles(tuple(facts.store_troubles or ()))

    def find_way(self) -> WaysToPeople:
        return replace(self._way, working=find_working(self._sources.list_reports()))


def find_working(reports: Iterable[ChannelReport]) -> frozenset[str]:
    return frozenset(each.instance for each in reports if each.state is ChannelState.UP)


def needs_record(db: Db, way: WaysToPeople, look: AlertLook) -> bool:
    """Return True if this look changes anything, or somebody is to be told."""
    rows = alerts.list_open(db)
    if compare(rows, look.seen, look.gateway, look.living).has_any:
        return True
    if not look.tells or not rows:
        return False
    planned = plan_messages(rows, _complete(db, look.around))
    if planned.has_silent or (planned.has_news and alert_messages.list_rooms(db, way)):
        return True
    return bool(alert_messages.list_undelivered(db, way, rows, look.around.now))


def record(db: Db, way: WaysToPeople, look: AlertLook) -> tuple[bool, tuple[Room, ...]]:
    """Return True if an alert began or is over, and the rooms to ring once it is committed."""
    db.lock(LockKind.QUOTA, LANE)
    now = look.around.now
    changes = compare(alerts.list_open(db), look.seen, look.gateway, look.living)
    _apply(db, changes, now)
    if not look.tells:
        return bool(changes.begun), ()
    alert_messages.withdraw_undelivered(db, way, alerts.list_open(db), now)
    planned = plan_messages(alerts.list_open(db), _complete(db, look.around))
    rooms = alert_messages.send(db, way, planned, now)
    alerts.remove_old(db, now)
    return bool(changes.begun or rooms) or planned.has_silent, rooms


def _apply(db: Db, changes: AlertChanges, now: int) -> None:
    for key, detail in changes.begun.items():
        alerts.begin(db, key, detail, now)
    for alert_id, detail in changes.seen.items():
        alerts.see_again(db, alert_id, detail)
    for alert_id in changes.cleared:
        alerts.clear(db, alert_id, now)


def _complete(db: Db, around: AlertCircumstances) -> AlertCircumstances:
    before = around.now - LOOK_BACK
    return replace(around, returns=alerts.count_returns(db, before), sent=alerts.count_messages(db, before))
