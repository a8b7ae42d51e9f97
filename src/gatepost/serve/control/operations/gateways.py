"""Gateways that share a store: list, show, drain, forget; the panic switch, and the doctor.

The doctor runs as a process of its own: it reads the settings as the next start will, and cannot hold up the gateway.
One runs at a time, for everybody who asks.
"""

import asyncio
import os
import sys
from contextlib import suppress

import msgspec

from gatepost.core.clock import MINUTE, SECOND, Clock, iso
from gatepost.core.errors import Invalid, NotFound, Unavailable
from gatepost.core.home import Home
from gatepost.core.records import extend, replace
from gatepost.flow.gateways.group_place import PLACE
from gatepost.flow.reports import PanicResult
from gatepost.messages.text import clean
from gatepost.serve.control.arguments.gateways import (
    CloseHomeArgs,
    DoctorReport,
    DrainGatewayArgs,
    ForgetGatewayArgs,
    GatewayDetails,
    GatewayView,
    JudgeSecurityArgs,
    ListGatewaysArgs,
    PanicAnswer,
    PanicOffArgs,
    PanicOnArgs,
    RunDoctorArgs,
    ShowGatewayArgs,
)
from gatepost.serve.control.contract import OperationDeps, operation, read_operation
from gatepost.serve.health.findings import Finding, FindingLevel
from gatepost.serve.health.machine_checks import close_to_others
from gatepost.serve.health.security_checks import judge_security
from gatepost.serve.health.security_facts import read_security_facts
from gatepost.store.gateways import gateways, group_moves, group_places
from gatepost.store.gateways.gateway_checks import is_living
from gatepost.store.gateways.gateways import GatewayRow, GatewayState
from gatepost.store.gateways.shared_folders import GroupPlace
from gatepost.store.port import Db
from gatepost.store.rights import switches
from gatepost.store.rights.switches import PANIC, Switch

MOST_SESSIONS = 200  # that are named
MOST_WORLDS = 10  # that are named
SEE = "`gatepost gateway list` shows them"
LONGEST_REASON = 500
DOCTOR = "doctor"  # in `OperationDeps.extra`
WORST_FIRST: tuple[FindingLevel, ...] = ("fail", "warn", "note", "ok")
LONGEST_CHECK_S = 60.0
LARGEST_REPORT = 1024 * 1024  # bytes that it may print
FRESH_REPORT = 5 * SECOND  # even whoever wants it anew gets what was found so lately


def make_gateway_view(row: GatewayRow, sessions: int, duties: dict[str, str], now: int) -> GatewayView:
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
    return [make_gateway_view(row, running.get(row.name, 0), duties, now) for row in gateways.list_all(db)]


@read_operation
def show(db: Db, args: ShowGatewayArgs, now: int) -> GatewayDetails:
    row = _get_gateway(db, args.name)
    running = gateways.list_sessions(db, row.name, MOST_SESSIONS)
    count = gateways.count_sessions(db).get(row.name, 0)
    view = make_gateway_view(row, count, gateways.list_duties(db), now)
    return extend(GatewayDetails, view, running_sessions=running)


@operation
async def drain(deps: OperationDeps, args: DrainGatewayArgs) -> GatewayView:
    now = deps.clock.now()

    def change(db: Db) -> GatewayView:
        row = _get_gateway(db, args.name)
        if not is_living(row, now):
            raise Invalid("gateway", f"{row.name} does not run; `gatepost gateway forget {row.name}` removes it")
        gateways.set_state(db, row.name, row.epoch, GatewayState.DRAINING)
        count = gateways.count_sessions(db).get(row.name, 0)
        return make_gateway_view(replace(row, state=GatewayState.DRAINING), count, gateways.list_duties(db), now)

    return await deps.write(change)


@operation
async def forget(deps: OperationDeps, args: ForgetGatewayArgs) -> GatewayView:
    now = deps.clock.now()

    def change(db: Db) -> GatewayView:
        row = _get_gateway(db, args.name)
        if is_living(row, now):
            raise Invalid("gateway", f"{row.name} runs; `gatepost gateway drain {row.name}` ends it first")
        if deps.config[PLACE] == GroupPlace.LOCAL:
            _check_empty(db, row.name)
        if not gateways.remove(db, row.name):
            why = "nobody has taken over from it yet; a running gateway does so within seconds"
            raise Invalid("gateway", f"{row.name} died, and {why}")
        group_moves.end_of_forgotten(db, row.name, now)
        return make_gateway_view(row, 0, {}, now)

    return await deps.write(change)


def _check_empty(db: Db, name: str) -> None:
    """Nobody would run the groups that lie on a gateway which is not there any more."""
    if worlds := group_places.list_worlds(db, name):
        more = f" and {len(worlds) - MOST_WORLDS} more" if len(worlds) > MOST_WORLDS else ""
        named = f"{', '.join(worlds[:MOST_WORLDS])}{more}"
        way = f"`gatepost group move {worlds[0]} GATEWAY --without-files` has another gateway run it"
        raise Invalid("gateway", f"groups lie on {name}: {named}; start it and move them, or {way}")


def _get_gateway(db: Db, name: str) -> GatewayRow:
    row = gateways.get(db, name)
    if row is None:
        raise NotFound("gateway", name, SEE)
    return row


@operation
async def turn_panic_on(deps: OperationDeps, args: PanicOnArgs) -> PanicAnswer:
    """Acted upon in memory first, then written down: a store that cannot be written, or does not answer, keeps nothing
    alive, and it is said so."""
    reason, now = clean(args.reason).strip()[:LONGEST_REASON], deps.clock.now()

    def write(db: Db) -> bool:
        return switches.turn_on(db, PANIC, reason, deps.caller, now)

    async def turn() -> bool:
        return await deps.write(write, reason=reason)

    done = await deps.halt(turn) if deps.halt is not None else PanicResult(0, await turn(), "")
    unwritten = Switch(PANIC, reason, deps.caller, now)
    shown = unwritten if done.why else await deps.store.read(switches.get, PANIC)
    return PanicAnswer(
        changed=done.changed,
        ended=done.ended,
        on=shown is not None,
        reason=shown.reason if shown else "",
        since=iso(shown.since) if shown else None,
        durable=not done.why,
        why=done.why,
    )


@operation
async def turn_panic_off(deps: OperationDeps, args: PanicOffArgs) -> PanicAnswer:
    changed = await deps.write(lambda db: switches.turn_off(db, PANIC))
    if deps.apply_switches is not None:
        await deps.apply_switches()
    deps.events.requests()
    return PanicAnswer(changed=changed)


class DoctorRuns:
    """The last report, and the run that is under way."""

    def __init__(self, home: Home, clock: Clock) -> None:
        self._home, self._clock = home, clock
        self._last: DoctorReport | None = None
        self._running: asyncio.Task[DoctorReport] | None = None

    async def get_report(self, fresh: bool) -> DoctorReport:
        age = self._clock.now() - self._last.checked_at if self._last is not None else None
        if self._last is not None and age is not None and age < (FRESH_REPORT if fresh else MINUTE):
            return self._last
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())
        return await asyncio.shield(self._running)  # whoever leaves does not end it for the others

    def forget(self) -> None:
        """Something was mended: the next who asks is told how it is now."""
        self._last = None

    async def _run(self) -> DoctorReport:
        found = parse_report(await run_doctor(self._home))
        self._last = msgspec.structs.replace(found, checked_at=self._clock.now())
        return self._last


async def run_doctor(home: Home) -> bytes:
    """Return what the command prints. It is ended if it takes too long or prints too much."""
    words = (sys.executable, "-m", "gatepost", "--home", str(home.path), "doctor", "--json")
    null = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *words, stdin=null, stdout=asyncio.subprocess.PIPE, stderr=null, start_new_session=True
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(LONGEST_CHECK_S):
            printed = bytearray()
            while (chunk := await process.stdout.read(64 * 1024)) and len(printed) <= LARGEST_REPORT:
                printed += chunk
            return bytes(printed)
    except TimeoutError:
        raise Unavailable(
            "the doctor", f"it was not done within {LONGEST_CHECK_S:g} s; run `gatepost doctor`"
        ) from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        await process.wait()


def parse_report(printed: bytes) -> DoctorReport:
    try:
        found = msgspec.json.decode(printed, type=DoctorReport)
    except (msgspec.DecodeError, msgspec.ValidationError):
        raise Unavailable("the doctor", "it ended without a report; run `gatepost doctor`") from None
    found.findings.sort(key=lambda each: WORST_FIRST.index(each.level))
    return found


@operation
async def run_checks(deps: OperationDeps, args: RunDoctorArgs) -> DoctorReport:
    return await get_doctor_runs(deps).get_report(args.fresh)


def get_doctor_runs(deps: OperationDeps) -> DoctorRuns:
    runs: DoctorRuns = deps.extra.setdefault(DOCTOR, DoctorRuns(deps.home, deps.clock))
    return runs


@operation
async def judge(deps: OperationDeps, args: JudgeSecurityArgs) -> list[Finding]:
    return judge_security(await asyncio.to_thread(read_security_facts, deps.home, deps.config))


@operation
async def close_home(deps: OperationDeps, args: CloseHomeArgs) -> list[str]:
    closed = await asyncio.to_thread(close_to_others, deps.home)
    await deps.write(lambda db: None, closed=len(closed))
    get_doctor_runs(deps).forget()
    return [str(each) for each in closed]
