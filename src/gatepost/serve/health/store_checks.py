"""The checks of what the store holds. Each is a question to an index: none reads every message."""

from collections.abc import Iterator

from gatepost.core.clock import DAY, iso
from gatepost.core.settings import Config
from gatepost.core.terminal_text import one_line
from gatepost.flow.intake.routing import why_unreadable
from gatepost.flow.requests.restored_rows import describe_incarnation, render_incarnation
from gatepost.serve.health.channel_checks import check_waiting
from gatepost.serve.health.findings import Finding
from gatepost.store.engine.readonly import count_expired_leases
from gatepost.store.gateways import incarnations
from gatepost.store.gateways.incarnations import IncarnationReason
from gatepost.store.messages import awaited_files, outbox
from gatepost.store.messages.outbox import EffectState
from gatepost.store.money import ledger
from gatepost.store.port import Db
from gatepost.store.rights import requests, switches, waiting_requests
from gatepost.store.rights.requests import RequestState
from gatepost.store.rooms import routes
from gatepost.store.schedule import tasks
from gatepost.store.web import overview

MOST_TASKS = 10  # that are named
RECENT = DAY
RESTORED_LATELY = 7 * DAY
_UNCLEAR = {
    EffectState.UNCERTAIN: "went out perhaps: the platform did not say",
    EffectState.FAILED: "could not be sent",
}


def check_panic(db: Db) -> Iterator[Finding]:
    halted = switches.get(db, switches.PANIC)
    if halted is not None:
        why = f": {halted.reason}" if halted.reason else ""
        text = f"is on since {iso(halted.since)}{why}; nothing starts, messages are kept"
        yield Finding("warn", "panic", text, "`gatepost panic --off` goes on")


def check_incarnation(db: Db, now: int) -> Iterator[Finding]:
    """Yield a finding if the store was restored or copied: for a while, and while a decision is open."""
    current = incarnations.get_current(db)
    if current is None or current.reason is IncarnationReason.FIRST:
        return
    asked = requests.get(db, current.request_id) if current.request_id else None
    if asked is not None and asked.state is RequestState.PENDING:
        cure = f"`gatepost permit allow {asked.id}` sends it, `gatepost permit deny {asked.id}` drops it"
        yield Finding("warn", "restored", render_incarnation(current), cure)
    elif now - current.begun_at < RESTORED_LATELY:
        yield Finding("note", "restored", f"{describe_incarnation(current)}; nothing waits for a decision")


def check_late(db: Db, now: int) -> Iterator[Finding]:
    """Report messages that wait and were due long ago. `gatepost ledger check` looks through all messages."""
    if late := ledger.count_late(db, now):
        cure = "`gatepost ledger check` counts them, `gatepost logs` may say why"
        yield Finding("fail", "ledger", f"{late} of what waits was due long ago", cure)


def check_rows(db: Db, config: Config, now: int) -> list[Finding]:
    """Return what waits for nobody, matches nothing or was given up."""
    found: list[Finding] = []
    waiting, unreached = waiting_requests.count_pending(db)
    if unreached:
        text = f"{unreached} of {waiting} that wait for a person reached nobody"
        cure = "`gatepost permit ls`; an admin who once wrote to the gateway directly is asked there"
        found.append(Finding("warn", "requests", text, cure))
    stuck = count_expired_leases(db, now)
    if stuck:
        found.append(
            Finding("warn", "turns", f"{stuck} are held by nobody", "a running gateway takes them up by itself")
        )
    for route in routes.list_all(db):
        if fault := why_unreadable(route):
            text = f"route {route.id} matches nothing: {fault}"
            found.append(Finding("warn", "routes", text, f"`gatepost route rm {route.id}`, then add it anew"))
    for unclear in overview.list_unclear(db, now - RECENT):
        text = f"{unclear.count} message{'' if unclear.count == 1 else 's'} of the last day {_UNCLEAR[unclear.state]}"
        found.append(Finding("warn", "outbox", text, f"`gatepost ledger list --state {unclear.state}` shows them"))
    if awaited := awaited_files.count(db):
        text = f"messages that went on without a file that is still coming: {awaited}"
        found.append(Finding("note", "files", text, "`gatepost logs` says what the platform answers"))
    for late in outbox.list_stuck(db):
        many = f"were tried {outbox.STUCK} times or more ({late.count})"
        text = f"{late.instance} has messages that {many}: {late.reason[:200]}"
        found.append(Finding("warn", "outbox", text, "`gatepost ledger list --state pending` shows them"))
    return [*found, *check_incarnation(db, now), *_check_tasks(db), *check_waiting(db, config)]


def _check_tasks(db: Db) -> Iterator[Finding]:
    broken = tasks.list_broken(db, MOST_TASKS)
    for task in broken:
        cure = f"mend it, then `gatepost task resume {task.id}`; `gatepost task show {task.id}` has its runs"
        yield Finding("warn", "tasks", f"{task.id} of {task.folder} is paused: {one_line(task.reason)[:200]}", cure)
    if active := tasks.count_active(db):
        yield Finding("ok", "tasks", f"{active} active, the next at {iso(tasks.get_next_due(db))}")
