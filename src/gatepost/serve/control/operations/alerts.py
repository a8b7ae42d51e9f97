"""Alerts: list, mute, and a test of the way to people."""

from gatepost.core.clock import DAY, HOUR
from gatepost.core.errors import NotFound, Unavailable
from gatepost.serve.alerts.alert_loop import AlertLoop
from gatepost.serve.alerts.alert_messages import send_test
from gatepost.serve.alerts.conditions import CONDITIONS, Severity, get_hold, is_severe, render_alert, render_command
from gatepost.serve.control.arguments.alerts import (
    AlertState,
    AlertTest,
    AlertView,
    ListAlertsArgs,
    MuteAlertArgs,
    SendTestAlertArgs,
)
from gatepost.serve.control.contract import OperationDeps, operation, read_operation
from gatepost.store.gateways import alerts
from gatepost.store.gateways.alerts import Alert
from gatepost.store.port import Db

ALERTS = "alerts"  # in `OperationDeps.extra`, while a gateway runs
LOOK_BACK = 30 * DAY
MOST_OVER = 100
SEE = "`gatepost alert list` shows those that are open"


def find_state(row: Alert, now: int) -> AlertState:
    if row.over_at is not None:
        return AlertState.OVER
    if row.is_muted(now):
        return AlertState.MUTED
    if row.cleared_at is not None:
        return AlertState.PASSING
    if row.told_at is not None:
        return AlertState.TOLD
    return AlertState.NEW if now - row.since < get_hold(row) else AlertState.UNTOLD


def make_view(row: Alert, now: int) -> AlertView:
    condition = CONDITIONS.get(row.condition)  # None: it is one of another version
    return AlertView(
        id=row.id,
        state=find_state(row, now),
        text=render_alert(row) or row.condition,
        cure=condition.cure if condition is not None else "",
        command=render_command(row),
        since=row.since,
        told=row.told_instance if row.told_at is not None else "",
        told_at=row.told_at,
        muted_until=row.muted_until if row.is_muted(now) else None,
        over_at=row.over_at,
        condition=row.condition,
        subject=row.subject,
        gateway=row.gateway,
        severity=Severity.SEVERE if is_severe(row) else Severity.NORMAL,
        page=condition.page if condition is not None else "",
        mend=condition.mend if condition is not None else None,
    )


@read_operation
def list_alerts(db: Db, args: ListAlertsArgs, now: int) -> list[AlertView]:
    """The severe ones first, then the latest."""
    rows = alerts.list_open(db)
    rows.sort(key=lambda each: (not is_severe(each), -each.since, each.id))
    over = alerts.list_over(db, now - LOOK_BACK, MOST_OVER) if args.over else []
    return [make_view(each, now) for each in (*rows, *over)]


@operation
async def mute_alert(deps: OperationDeps, args: MuteAlertArgs) -> AlertView:
    now = deps.clock.now()
    until = now + int(args.hours * HOUR) if args.hours else None

    def mute(db: Db) -> Alert:
        if not alerts.mute(db, args.alert, until):
            raise NotFound("alert", args.alert, SEE)
        found = alerts.get(db, args.alert)
        assert found is not None
        return found

    muted = await deps.write(mute)
    deps.events.operation()
    return make_view(muted, now)


@operation
async def send_test_alert(deps: OperationDeps, args: SendTestAlertArgs) -> AlertTest:
    loop = deps.extra.get(ALERTS)
    if not isinstance(loop, AlertLoop):
        raise Unavailable("the alerts", "they are told by a running gateway")
    room, rung = await deps.write(lambda db: send_test(db, loop.find_way(), deps.clock.now()))
    for each in rung:
        deps.events.room(*each)
    return AlertTest(room.instance if room is not None else "")
