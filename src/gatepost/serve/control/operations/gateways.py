"""Gateways that share a store: list, show, drain, forget; groups that move between them, the panic switch, and the
doctor.

Of a move the operation says what is wanted, and the gateways do it. The doctor runs as a process of its own: it reads
the settings as the next start will, and cannot hold up the gateway. One runs at a time, for everybody who asks.
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
from gatepost.flow.gateways.folder_check import NOWHERE, FolderElsewhere
from gatepost.flow.gateways.group_place import PLACE
from gatepost.flow.groups.groups import complete_folders
from gatepost.flow.sessions.panic_result import PanicResult
from gatepost.messages.text import clean
from gatepost.serve.control.arguments.gateways import (
    DoctorReport,
    DrainGatewayArgs,
    ForgetGatewayArgs,
    GatewayDetails,
    GatewayView,
    GroupMoveView,
    ListGatewaysArgs,
    MoveGroupArgs,
    PanicAnswer,
    PanicOffArgs,
    PanicOnArgs,
    RunDoctorArgs,
    ShowGatewayArgs,
)
from gatepost.serve.control.contract import OperationDeps, operation, read_operation
from gatepost.serve.health.findings import FindingLevel
from gatepost.store.gateways import gateways, group_moves, group_places
from gatepost.store.gateways.gateway_checks import is_living
from gatepost.store.gateways.gateways import GatewayRow, GatewayState
from gatepost.store.gateways.group_moves import GroupMove, GroupMoveState
from gatepost.store.gateways.shared_folders import GroupPlace
from gatepost.store.port import Db, LockKind, Store
from gatepost.store.rights import switches
from gatepost.store.rights.switches import PANIC, Switch
from gatepost.store.sessions import groups, worktrees

MOST_SESSIONS = 200  # that are named
MOST_WORLDS = 10  # that are named
SEE = "`gatepost gateway list` shows them"
MOVE_LOOK_S = 0.2
NOWHERE_TO_MOVE = (
    "this store is a file of one machine, so it has one gateway; docs/scale.md tells how several share one"
)
NOTHING_TO_MOVE = (
    "groups lie in a folder that all gateways share (groups.place), so each of them runs them; nothing is to move"
)
LOST_FILES = "; if it never comes back, --without-files moves the group without them"
_SETTLED_MOVES = (GroupMoveState.ARRIVED, GroupMoveState.DONE, GroupMoveState.FAILED)
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


def make_move_view(move: GroupMove) -> GroupMoveView:
    return GroupMoveView(
        world=move.world,
        source=move.source,
        target=move.target,
        state=move.state,
        files=move.files,
        bytes=move.bytes,
        note=move.note,
    )


@operation
async def move_group(deps: OperationDeps, args: MoveGroupArgs) -> GroupMoveView:
    if not await deps.store.read(gateways.count):
        raise Invalid("gateway", NOWHERE_TO_MOVE)
    if deps.config[PLACE] == GroupPlace.SHARED:
        raise Invalid("groups.place", NOTHING_TO_MOVE)
    if args.without_files:
        return await _move_without_files(deps, args)
    now = deps.clock.now()
    begun = await deps.write(lambda db: begin_move(db, args.folder, args.gateway, now))
    deps.events.gateways()
    found = await _wait_for_move(deps.store, begun, args.wait_s)
    if found.state is GroupMoveState.FAILED and begun.state is not GroupMoveState.FAILED:
        raise Invalid("folder", f"{found.world} stays on {found.source}; {found.note}")
    return make_move_view(found)


class _AtTarget(FolderElsewhere):
    """The target itself takes it in, because it has the folder where the group is to lie."""

    def __init__(self, world: str, target: str) -> None:
        way = "start the gateway of this home, or run this there"
        Invalid.__init__(self, "gateway", f"{target} has to make the folder of {world} itself; {way}")
        self.gateway = target


async def _move_without_files(deps: OperationDeps, args: MoveGroupArgs) -> GroupMoveView:
    """Move a group whose files are lost: first its folder, then the rows, as for a new group. Files that are there
    stay."""
    world, now = group_places.get_world(args.folder), deps.clock.now()
    source: str = await deps.store.read(find_lost_source, args.folder, args.gateway, now)
    if deps.home.gateway != args.gateway:
        raise _AtTarget(world, args.gateway)
    made = [each for each in await deps.store.read(groups.list_all) if group_places.get_world(each.folder) == world]
    await asyncio.to_thread(complete_folders, deps.home, made)

    def change(db: Db) -> GroupMove:
        db.lock(LockKind.RULES, f"move:{world}")
        if find_lost_source(db, args.folder, args.gateway, now) != source or not gateways.hold_gone(db, source):
            raise Invalid("gateway", f"{source} has come back; move {world} with its files")
        _end_open_move(db, world, now)
        return group_moves.move_without_files(db, world, source, args.gateway, now)

    moved = await deps.write(change, source=source, conversations="begin anew")
    deps.events.gateways()
    return make_move_view(moved)


def find_lost_source(db: Db, folder: str, target: str, now: int) -> str:
    """The gateway that had a group's files and is gone. Raises why the group cannot be moved without them."""
    world, source = _find_places(db, folder, target)
    row = gateways.get(db, source)
    if row is not None and is_living(row, now):
        raise Invalid("without_files", f"{source} runs and has the files of {world}; move it with them")
    if row is not None and row.state is not gateways.GatewayState.GONE:
        raise Invalid("gateway", f"nobody has taken over from {source} yet; try again in some seconds")
    _check_living(db, target, now, "it cannot take anything")
    known = group_moves.find_open(db, world)
    if known is not None and known.state is GroupMoveState.PACKED and _is_living(db, known.target, now):
        way = f"`gatepost group move {world} {known.target}` waits until they are there"
        raise Invalid("without_files", f"the files of {world} are on their way to {known.target}; {way}")
    if known is not None and known.state is GroupMoveState.ARRIVED and _is_living(db, known.source, now):
        raise Invalid("gateway", f"{known.source} removes what {world} left there; try again in some seconds")
    return source


def _end_open_move(db: Db, world: str, now: int) -> None:
    """Mark a move that was under way as failed. Files that it has left on either gateway stay there."""
    if (known := group_moves.find_open(db, world)) is not None:
        group_moves.set_failed(db, known, "it was moved without its files", now)
        group_moves.set_done(db, known, now)


async def _wait_for_move(store: Store, move: GroupMove, wait_s: float) -> GroupMove:
    until = asyncio.get_running_loop().time() + wait_s
    while move.state not in _SETTLED_MOVES and asyncio.get_running_loop().time() < until:
        await asyncio.sleep(MOVE_LOOK_S)
        found: GroupMove | None = await store.read(group_moves.get, move.id)
        move = move if found is None else found
    return move


def begin_move(db: Db, folder: str, target: str, now: int) -> GroupMove:
    """The move that is wanted: a new one, or the one that is under way."""
    world = group_places.get_world(folder)
    db.lock(LockKind.RULES, f"move:{world}")
    _check_known(db, folder, target)
    if (known := group_moves.find_open(db, world)) is not None:
        return _go_on_moving(db, known, group_places.find_gateway(db, folder), target, now)
    _, source = _find_places(db, folder, target)
    _check_living(db, source, now, f"the files of {world} are there", LOST_FILES)
    _check_living(db, target, now, "it cannot take anything")
    used = [each.name for each in worktrees.list_all(db) if group_places.get_world(each.folder) == world]
    if used:
        names = ", ".join(used[:5])
        raise Invalid("folder", f"{world} has worktrees on {source}: {names}; `gatepost worktree archive` them first")
    return group_moves.add(db, world, source, target, now)


def _check_known(db: Db, folder: str, target: str) -> None:
    if groups.get(db, folder) is None:
        raise NotFound("group", folder, "`gatepost group list` shows them")
    if gateways.get(db, target) is None:
        raise NotFound("gateway", target, "`gatepost gateway list` shows them")


def _find_places(db: Db, folder: str, target: str) -> tuple[str, str]:
    """The world, and the gateway that has it, which is another than the target."""
    _check_known(db, folder, target)
    world, source = group_places.get_world(folder), group_places.find_gateway(db, folder)
    if source == target:
        raise Invalid("gateway", f"{world} is on {target} already")
    if not source:
        raise Invalid("folder", f"{world} is on no gateway yet: {NOWHERE}")
    return world, source


def _go_on_moving(db: Db, known: GroupMove, source: str, target: str, now: int) -> GroupMove:
    if known.state is GroupMoveState.ARRIVED:
        if target == known.target:
            return known
        why = f"start it, or `gatepost gateway forget {known.source}`"
        raise Invalid("gateway", f"{known.source} has yet to remove what {known.world} left there; {why}")
    if target == known.target:
        return known
    if target == source:
        group_moves.set_failed(db, known, "it was given up", now)
        return group_moves.get(db, known.id) or known
    raise Invalid(
        "gateway", f"{known.world} is on its way to {known.target}; `group move {known.world} {source}` ends it"
    )


def _is_living(db: Db, name: str, now: int) -> bool:
    row = gateways.get(db, name)
    return row is not None and is_living(row, now)


def _check_living(db: Db, name: str, now: int, why: str, otherwise: str = "") -> None:
    row = gateways.get(db, name)
    if row is None or not is_living(row, now):
        raise Invalid("gateway", f"{name} is away, and {why}; start it first{otherwise}")
    if row.state is gateways.GatewayState.DRAINING:
        raise Invalid("gateway", f"{name} is being drained; start it again first")


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
    runs: DoctorRuns = deps.extra.setdefault(DOCTOR, DoctorRuns(deps.home, deps.clock))
    return await runs.get_report(args.fresh)
