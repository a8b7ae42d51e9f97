"""`gatepost status`: show if the gateway runs, and what it does."""

import click
from msgspec import UNSET, Struct, UnsetType

from gatepost import __version__
from gatepost.cli import output
from gatepost.cli.operation_runner import control_of, home_of
from gatepost.core import settings
from gatepost.core.clock import SystemClock, iso
from gatepost.core.errors import GatepostError
from gatepost.core.home import Home
from gatepost.core.process import home_lock
from gatepost.flow.channel_health import ChannelReport, render_trouble
from gatepost.serve.control.answers import to_json
from gatepost.serve.control.daemon_status import DaemonStatus, Lack, ask_daemon_status
from gatepost.store.engine.damage_check import READ_ONLY
from gatepost.store.engine.place import check_place, find_place
from gatepost.store.engine.readonly import read_snapshot
from gatepost.store.gateways import database_lives, gateways, group_places
from gatepost.store.gateways.gateways import GatewayState
from gatepost.store.money import ledger
from gatepost.store.money.ledger import LedgerStatus
from gatepost.store.people import newcomers
from gatepost.store.port import Db
from gatepost.store.rights import audit, switches, waiting_requests
from gatepost.store.schedule import tasks
from gatepost.store.sessions import groups, sessions

MOST_NAMED = 5  # tasks that are paused after failures


class SandboxStatus(Struct, frozen=True, kw_only=True):
    """The sandbox that agents get. `kind`: None if none works, for the reason in `trouble`."""

    kind: str | None
    isolated: bool
    trouble: str | None


class StoreTrouble(Struct, frozen=True):
    """The reason why the store cannot be read."""

    trouble: str


class PanicStatus(Struct, frozen=True):
    since: str | None
    reason: str


class RequestCounts(Struct, frozen=True):
    """Requests that wait for a person, and those of them that were shown to nobody."""

    waiting: int
    unreached: int


class TaskCounts(Struct, frozen=True, kw_only=True):
    """`broken`: a few of those that are paused after failures."""

    active: int
    next_at: int | None
    broken: list[str]


class StoreNumbers(Struct, frozen=True, kw_only=True):
    """The store in numbers. `gateways`: their states by name. `away`: the gateways of groups that wait for them.
    `failovers`: by their time, how many effects are held as uncertain. `sessions`: those that are open."""

    gateways: dict[str, GatewayState]
    away: dict[str, str]
    failovers: dict[str, int]
    groups: int
    sessions: int
    ledger: LedgerStatus
    panic: PanicStatus | None
    requests: RequestCounts
    newcomers: int
    tasks: TaskCounts
    audit_head: str


class StatusReport(Struct, frozen=True, kw_only=True):
    """A gateway as its home, the gateway itself and its store tell. Without a gateway that answers, its part is
    empty, and `trouble` says why one that runs does not answer."""

    running: bool
    answers: bool
    home: str
    version: str = __version__
    pid: int | None
    since: str | None
    listen: str | None
    control: str | None
    gateway: str
    draining: bool
    refused_writes: int
    sandbox: SandboxStatus
    awake: int
    waiting: int
    pressed: str
    store_trouble: str
    lacks: list[Lack]
    slow_steps: int
    slowest: str
    slowest_ms: int
    busiest: str
    busiest_ms: int
    channels: list[str]
    channel_health: list[ChannelReport]
    store: StoreNumbers | StoreTrouble | None  # None: there is none yet
    trouble: str | UnsetType = UNSET


@click.command()
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="running, answers, pid, since, home, version, listen, control, gateway, draining, refused_writes (that came"
    " after another gateway had taken over), sandbox, awake, waiting, pressed, store_trouble, lacks, slow_steps,"
    " slowest, slowest_ms, busiest, busiest_ms (the same by the processor's time), channels, channel_health, store.",
)
@click.pass_obj
def status_command(home: str | None, as_json: bool) -> int:
    """Show if the gateway runs, and what it does. Exit 0 if it runs and answers, else 1."""
    status = read_status(home_of(home))
    if as_json:
        output.print_json(to_json(status))
    else:
        for line in render_status(status):
            output.print_line(*line)
    return 0 if status.answers else 1


def read_status(home: Home) -> StatusReport:
    """Return what the lock, the daemon itself and the store say. The daemon's own word wins."""
    holder = home_lock.find_holder(home)
    store, status = _read_store(home), None
    trouble: str | UnsetType = UNSET
    if holder is not None:
        try:
            status = ask_daemon_status(control_of(home))
        except GatepostError as error:
            trouble = str(error)
    known = status or DaemonStatus(store_trouble=READ_ONLY if home.is_read_only() else "")
    return StatusReport(
        running=holder is not None,
        answers=status is not None,
        home=str(home.path),
        pid=holder.pid if holder else None,
        since=holder.started_at if holder else None,
        listen=holder.listen if holder else None,
        control=holder.control if holder else None,
        gateway=known.gateway,
        draining=known.draining,
        refused_writes=known.refused_writes,
        sandbox=_parse_sandbox(status) if status else _find_sandbox(home),
        awake=known.sessions_awake,
        waiting=known.sessions_waiting,
        pressed=known.pressed,
        store_trouble=known.store_trouble,
        lacks=known.lacks,
        slow_steps=known.slow_steps,
        slowest=known.slowest,
        slowest_ms=known.slowest_ms,
        busiest=known.busiest,
        busiest_ms=known.busiest_ms,
        channels=known.channels,
        channel_health=known.channel_health,
        store=store,
        trouble=trouble,
    )


def _read_store(home: Home) -> StoreNumbers | StoreTrouble | None:
    place = find_place(home)
    try:
        check_place(place)
        if not place.exists():
            return None
        return read_snapshot(place, _count, home_lock.find_holder(home) is not None, bool(place.url))
    except GatepostError as error:
        return StoreTrouble(str(error))


def _count(db: Db, running: bool, shared: bool) -> StoreNumbers:
    """`shared`: several gateways may use the store, each with folders of its own."""
    failovers = [each for each in database_lives.list_all(db) if each.held >= 0]
    on = switches.get(db, switches.PANIC)
    return StoreNumbers(
        gateways={each.name: each.state for each in gateways.list_all(db)},
        away={each.world: each.gateway for each in group_places.list_away(db)} if shared else {},
        failovers={iso(each.since) or "": each.held for each in failovers},
        groups=len(groups.list_all(db)),
        sessions=len(sessions.list_open(db)),
        ledger=ledger.check(db, SystemClock().now(), running=running),
        panic=None if on is None else PanicStatus(iso(on.since), on.reason),
        requests=RequestCounts(*waiting_requests.count_pending(db)),
        newcomers=newcomers.count_waiting(db),
        tasks=TaskCounts(
            active=tasks.count_active(db),
            next_at=tasks.get_next_due(db),
            broken=[each.id for each in tasks.list_broken(db, MOST_NAMED)],
        ),
        audit_head=audit.render_heads(db),
    )


def _parse_sandbox(status: DaemonStatus) -> SandboxStatus:
    """The daemon's own words: a note is trouble where there is none, else it says that there are no walls."""
    if status.sandbox == "none":
        return SandboxStatus(kind=None, isolated=False, trouble=status.sandbox_note)
    return SandboxStatus(kind=status.sandbox, isolated=not status.sandbox_note, trouble=None)


def _find_sandbox(home: Home) -> SandboxStatus:
    """Return what agents would get, asked of this machine."""
    from gatepost.cli.sandbox_isolation import get_isolation

    found = get_isolation(home, settings.load_declared(home.path))
    return SandboxStatus(kind=found.kind or None, isolated=found.isolated, trouble=found.trouble or None)


def render_status(status: StatusReport) -> list[output.Line]:
    out: list[output.Line]
    if not status.running:
        out = [(output.colored("gatepost is down", "warn"), f"  ({status.home})")]
    elif not status.answers:
        out = [(output.colored(f"gatepost runs as pid {status.pid} but does not answer", "fail"),)]
        out.append((f"  {status.trouble or ''}; it may be starting, `gatepost logs` tells",))
    else:
        out = [(output.colored("gatepost is up", "ok"), f"  pid {status.pid} since {status.since}")]
        out.append((f"  {'home':<10} {status.home}",))
        out += _gateway_lines(status)
        out.append((f"  {'web':<10} {status.listen}",))
        out.append((f"  {'control':<10} {status.control}",))
        out.append((f"  {'channels':<10} {', '.join(status.channels) or 'none'}",))
        out += _channel_lines(status.channel_health)
        awake, waiting = status.awake, status.waiting
        queue = f"{waiting} session{' waits' if waiting == 1 else 's wait'} for one"
        out.append((f"  {'awake':<10} {awake} sandbox{'' if awake == 1 else 'es'}, {queue}",))
    if status.pressed:
        out.append((f"  {'held back':<10} ", output.colored(f"{status.pressed}: no further sandbox is woken", "warn")))
    if status.store_trouble:
        out.append((f"  {'trouble':<10} ", output.colored(f"the store is not well: {status.store_trouble}", "fail")))
    if status.slow_steps:
        count, worst = status.slow_steps, f"the longest {status.slowest_ms} ms ({status.slowest})"
        steps = f"{count} step{'' if count == 1 else 's'} of over 50 ms"
        out.append((f"  {'slow':<10} {steps} held up everybody, {worst}",))
    out.append((f"  {'sandbox':<10} ", _render_sandbox(status.sandbox)))
    return out + _store_lines(status.store)


def _gateway_lines(status: StatusReport) -> list[output.Line]:
    """Render the gateway's name and the others on its store; nothing on a store that cannot be shared."""
    if not status.gateway:
        return []
    others = [
        f"{name} ({state})" if state != GatewayState.RUNNING else name
        for name, state in (status.store.gateways.items() if isinstance(status.store, StoreNumbers) else ())
        if name != status.gateway
    ]
    line = status.gateway + (", draining" if status.draining else "")
    beside = "unknown" if isinstance(status.store, StoreTrouble) else ", ".join(others) or "none"
    lines: list[output.Line] = [(f"  {'gateway':<10} {line}; beside it: {beside}",)]
    if refused := status.refused_writes:
        writes = f"{refused} write{'' if refused == 1 else 's'}"
        lines.append((f"  {'refused':<10} {writes} that came after another gateway had taken over",))
    return lines


def _channel_lines(health: list[ChannelReport]) -> list[output.Line]:
    """Those that are not well."""
    return [
        (
            f"  {'channel':<10} ",
            output.colored(f"{each.instance} is {render_trouble(each)}", "fail" if each.remedy else "warn"),
        )
        for each in health
        if not each.is_well
    ]


def _render_sandbox(sandbox: SandboxStatus) -> output.Piece:
    if sandbox.kind is None:
        return output.colored(f"none: {sandbox.trouble}", "fail")
    return sandbox.kind if sandbox.isolated else output.colored(f"{sandbox.kind}: NO ISOLATION", "warn")


def _store_lines(store: StoreNumbers | StoreTrouble | None) -> list[output.Line]:
    if store is None:
        return [(f"  {'store':<10} none yet; `gatepost up` makes it",)]
    if isinstance(store, StoreTrouble):
        return [(f"  {'store':<10} ", output.colored(store.trouble, "fail"))]
    account = store.ledger
    return [
        *_panic_lines(store.panic),
        (f"  {'groups':<10} {store.groups}, with {_open(store.sessions)}",),
        *_away_lines(store.away),
        *_failover_lines(store.failovers),
        (
            f"  {'ledger':<10} {account.unaccounted} unaccounted, {account.in_flight} in flight,"
            f" {account.overdue} overdue",
        ),
        *_request_lines(store.requests),
        *_newcomer_lines(store.newcomers),
        *_task_lines(store.tasks),
        (f"  {'audit':<10} {_audit(store.audit_head)}",),
    ]


def _failover_lines(failovers: dict[str, int]) -> list[output.Line]:
    return [
        (f"  {'database':<10} ", output.colored(f"failed over at {at}; held as uncertain: {held}", "warn"))
        for at, held in failovers.items()
    ]


def _away_lines(away: dict[str, str]) -> list[output.Line]:
    return [
        (f"  {'groups':<10} ", output.colored(f"{world} {group_places.render_wait(gateway)}", "warn"))
        for world, gateway in away.items()
    ]


def _request_lines(found: RequestCounts) -> list[output.Line]:
    if not found.waiting:
        return []
    text = f"{found.waiting} wait for a person, `gatepost permit ls` shows them"
    if found.unreached:
        text += f"; {found.unreached} reached nobody: an admin or owner must have written to the gateway once"
    return [(f"  {'requests':<10} ", output.colored(text, "warn" if found.unreached else "dim"))]


def _newcomer_lines(waiting: int) -> list[output.Line]:
    if not waiting:
        return []
    return [(f"  {'newcomers':<10} ", output.colored(f"{waiting} wait; `gatepost onboarding list` shows them", "dim"))]


def _task_lines(found: TaskCounts) -> list[output.Line]:
    lines: list[output.Line] = []
    if found.active:
        coming = output.format_time(found.next_at)
        lines.append((f"  {'tasks':<10} {found.active} active, the next at {coming}",))
    if found.broken:
        text = f"paused after failures: {', '.join(found.broken)}; `gatepost task show` tells why"
        lines.append((f"  {'tasks':<10} ", output.colored(text, "warn")))
    return lines


def _audit(head: str) -> str:
    return "nothing is recorded yet" if head == f"0:{audit.START}" else head


def _open(count: int) -> str:
    """Conversations that can go on; whether a sandbox runs for one, `awake` tells."""
    return f"{count} open session{'' if count == 1 else 's'}"


def _panic_lines(panic: PanicStatus | None) -> list[output.Line]:
    if panic is None:
        return []
    why = f": {panic.reason}" if panic.reason else ""
    text = f"ON since {panic.since}{why}; nothing starts until `gatepost panic --off`"
    return [(f"  {'panic':<10} ", output.colored(text, "fail"))]
