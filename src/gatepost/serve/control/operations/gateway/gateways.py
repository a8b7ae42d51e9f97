"""Gateways that share a store: list, show, drain, forget."""

from gatepost.core.errors import Invalid, NotFound
from gatepost.core.records import extend, replace
from gatepost.flow.gateways.group_place import PLACE
from gatepost.serve.control.arguments.gateway.gateways import (
    DrainGatewayArgs,
    ForgetGatewayArgs,
    GatewayDetails,
    GatewayView,
    ListGatewaysArgs,
    ShowGatewayArgs,
)
from gatepost.serve.control.contract import OperationDeps, operation, read_operation
from gatepost.store.gateways import gateways, group_moves, group_places
from gatepost.store.gateways.gateway_checks import is_living
from gatepost.store.gateways.gateways import GatewayRow, GatewayState
from gatepost.store.port import Db
from gatepost.store.sessions.shared_folders import GroupPlace

MOST_SESSIONS = 200  # that are named
MOST_WORLDS = 10  # that are named
SEE = "`gatepost gateway list` shows them"


def make_view(row: GatewayRow, sessions: int, duties: dict[str, str], now: int) -> GatewayView:
    return GatewayView(
        name=row.name,
        alive=is_living(row, now),
        state=row.state,
        host=row.host,
        listen=row.listen,
        version=row.version,
        schema_number=row.schema_number,
        epoch=row.epoch,
        capacity=row.capacity,
        sessions=sessions,
        duties=sorted(name for name, holder in duties.items() if holder == row.name),
        started_at=row.started_at,
        lease_until=row.until,
    )


@read_operation
def list_gateways(db: Db, args: ListGatewaysArgs, now: int) -> list[GatewayView]:
    running, duties = gateways.count_sessions(db), gateways.list_duties(db)
    return [make_view(row, running.get(row.name, 0), duties, now) for row in gateways.list_all(db)]


@read_operation
def show(db: Db, args: ShowGatewayArgs, now: int) -> GatewayDetails:
    row = _get(db, args.name)
    running = gateways.list_sessions(db, row.name, MOST_SESSIONS)
    count = gateways.count_sessions(db).get(row.name, 0)
    view = make_view(row, count, gateways.list_duties(db), now)
    return extend(GatewayDetails, view, running_sessions=running)


@operation
async def drain(deps: OperationDeps, args: DrainGatewayArgs) -> GatewayView:
    now = deps.clock.now()

    def change(db: Db) -> GatewayView:
        row = _get(db, args.name)
        if not is_living(row, now):
            raise Invalid("gateway", f"{row.name} does not run; `gatepost gateway forget {row.name}` removes it")
        gateways.set_state(db, row.name, row.epoch, GatewayState.DRAINING)
        count = gateways.count_sessions(db).get(row.name, 0)
        return make_view(replace(row, state=GatewayState.DRAINING), count, gateways.list_duties(db), now)

    return await deps.write(change)


@operation
async def forget(deps: OperationDeps, args: ForgetGatewayArgs) -> GatewayView:
    now = deps.clock.now()

    def change(db: Db) -> GatewayView:
        row = _get(db, args.name)
        if is_living(row, now):
            raise Invalid("gateway", f"{row.name} runs; `gatepost gateway drain {row.name}` ends it first")
        if deps.config[PLACE] == GroupPlace.LOCAL:
            _check_empty(db, row.name)
        if not gateways.remove(db, row.name):
            why = "nobody has taken over from it yet; a running gateway does so within seconds"
            raise Invalid("gateway", f"{row.name} died, and {why}")
        group_moves.end_of_forgotten(db, row.name, now)
        return make_view(row, 0, {}, now)

    return await deps.write(change)


def _check_empty(db: Db, name: str) -> None:
    """Nobody would run the groups that lie on a gateway which is not there any more."""
    if worlds := group_places.list_worlds(db, name):
        more = f" and {len(worlds) - MOST_WORLDS} more" if len(worlds) > MOST_WORLDS else ""
        named = f"{', '.join(worlds[:MOST_WORLDS])}{more}"
        way = f"`gatepost group move {worlds[0]} GATEWAY --without-files` has another gateway run it"
        raise Invalid("gateway", f"groups lie on {name}: {named}; start it and move them, or {way}")


def _get(db: Db, name: str) -> GatewayRow:
    row = gateways.get(db, name)
    if row is None:
        raise NotFound("gateway", name, SEE)
    return row
