"""`gatepost activity`, `ledger`, `trace`, `dropped` and `keep`: what happened, what became of each message, which were
refused, and how long all is kept."""

import time
from collections.abc import Mapping
from datetime import tzinfo
from types import MappingProxyType
from typing import Any

import click

from gatepost.cli import output, reasons
from gatepost.cli.operation_command import CommandRun, call_operation, from_operation, with_arguments
from gatepost.cli.operation_runner import zone_of
from gatepost.core import settings
from gatepost.core.clock import SystemClock
from gatepost.core.home import Home
from gatepost.core.money import render_usd
from gatepost.core.process import home_lock
from gatepost.core.terminal_text import one_line
from gatepost.messages.inbound import Direction, MessageKind
from gatepost.serve.control.answers import to_json
from gatepost.serve.control.arguments.activity import ActivityEntry, ActivityPage, ListActivityArgs
from gatepost.serve.control.arguments.ledger import (
    CheckLedgerArgs,
    DroppedReport,
    KeptRows,
    ListDroppedArgs,
    ListLedgerArgs,
    MessageTraceView,
    RetentionOverview,
    RetryMessageArgs,
    RetryResult,
    RunRetentionArgs,
    ShowRetentionArgs,
    TraceMessageArgs,
    render_days,
    render_size,
)
from gatepost.store.engine.place import find_place
from gatepost.store.engine.readonly import read_snapshot, read_store
from gatepost.store.gateways import group_places
from gatepost.store.messages.dropped import ONLY_COUNTED, DroppedCount
from gatepost.store.messages.inbox import END, InboxEntry
from gatepost.store.messages.messages import Message
from gatepost.store.money.costs import ModelCall
from gatepost.store.money.ledger import LedgerLine, LedgerStatus, TraceEvent

LONGEST_TEXT = 200  # characters where whoever reads it is no terminal
LONGEST_ROOM = 24  # where it is one
EVERYBODY_IS_THERE: Mapping[str, str] = MappingProxyType({})
_BAD_ENDS = ("failed", "refused", "cancelled", "uncertain", "interrupted", "retry")
_OUTGOING = ("send ", "edit ", "react ", "file ", "delete ", "pin ", "unpin ", "card ", "status ")
DROPPED_LOOK_S = 0.5
MOST_DROPPED_AT_ONCE = 10_000  # that a look of --follow shows
NOT_WRITTEN_DOWN = "only counted: the sender had written much in that hour"
SWEEP_PATIENCE_S = 3600.0  # a first sweep of an old home takes its time, so that nobody waits for it


@click.group()
def ledger_command() -> None:
    """Is every message accounted for, and what became of each. Works with the gateway up or down."""


def _find_gateway(home: Home, args: dict[str, Any]) -> dict[str, Any]:
    return {**args, "running": home_lock.find_holder(home) is not None}


@ledger_command.command("check")
@from_operation(CheckLedgerArgs, prepare=_find_gateway, exit_code=lambda account: 1 if account.unaccounted else 0)
def check_ledger(run: CommandRun, account: LedgerStatus) -> None:
    verdict = "fail" if account.unaccounted else "ok"
    output.print_line(output.colored(f"{account.unaccounted} unaccounted", verdict))
    output.print_line(
        f"{account.in_flight} in flight, {account.overdue} overdue, oldest {output.format_duration(account.oldest_s)}"
    )
    if account.in_flight and not run.args["running"]:
        output.print_line("the gateway is down; what is in flight goes on when it starts: gatepost up")


@ledger_command.command("list")
@from_operation(ListLedgerArgs)
def list_ledger(run: CommandRun, lines: list[LedgerLine]) -> None:
    width = output.get_line_width()
    share = LONGEST_TEXT if width is None else width // 3
    own = {
        "direction": lambda line: "→" if line.direction == Direction.IN else "←",
        "address": lambda line: _render_room(line, width is not None),
        "text": lambda line: output.cut(one_line(_render_text(line)), share),
        "reason": lambda line: reasons.render_reason(line.reason),
    }
    output.print_records(
        LedgerLine,
        lines,
        own,
        empty="the ledger holds no such rows",
        gives=("reason",),
        zone=zone_of(run.home),
    )


def _render_room(line: LedgerLine, narrow: bool) -> str:
    named = f"{line.address}#{line.thread}" if line.thread else line.address
    return output.cut(named, LONGEST_ROOM) if narrow else named


def _render_text(line: LedgerLine) -> str:
    is_note = line.event == "system" and not line.text
    return reasons.render_note_by_id(line.platform_id) if is_note else line.text


@ledger_command.command("retry")
@from_operation(RetryMessageArgs)
def retry_message(run: CommandRun, done: RetryResult) -> None:
    if done.sent:
        doubt = "; it may arrive twice" if done.doubtful else ""
        output.print_line(f"message {done.message} goes to {done.address} again{doubt}")
    for session in done.given:
        output.print_line(f"message {done.message} waits for its agent again, in session {session}")


@click.command()
@with_arguments(TraceMessageArgs)
def trace_command(home: Home, args: dict[str, Any], as_json: bool) -> None:
    life = call_operation(home, TraceMessageArgs, args)
    if as_json:
        output.print_json(to_json(life))
    else:
        place, (zone, called) = find_place(home), zone_of(home)
        away = read_snapshot(place, group_places.list_away) if place.url else []
        for line in render_trace(life, zone, called, {each.world: each.gateway for each in away}):
            output.print_line(*line)


def render_trace(
    life: MessageTraceView, zone: tzinfo | None, called: str, away: Mapping[str, str] = EVERYBODY_IS_THERE
) -> list[output.Line]:
    """As it is printed: what it was, then a line per moment with the time since it was accepted. `away`: by world, its
    gateway, if that is gone."""
    message = life.message
    who = one_line(message.sender_name or message.sender)
    begin = message.accepted_at
    states = ", ".join(_render_entry(each, away) for each in life.entries)
    took = output.format_duration((life.moments[-1].at - begin) / 1_000_000) if life.moments else ""
    where = one_line(message.address + (f"#{message.thread}" if message.thread else ""))
    out: list[output.Line] = [
        (
            output.colored(f"message {message.id}", "bold"),
            f"  {who} in {where}  {output.format_time(begin, zone)} ({called})",
        ),
        (f"  {output.fit_line(_render_traced_text(message), 4)}",),
        (
            f"  {one_line(states) or message.direction}"
            + (f", {took} in all" if took else "")
            + _render_spent(life.model_calls),
        ),
        ("",),
    ]
    out += [
        (_render_moment(each, begin),)
        for each in sorted([*life.moments, *map(_moment_of_call, life.model_calls)], key=_get_moment)
    ]
    for effect in life.effects:
        if text := one_line(str(effect.payload.get("text") or "")):
            out.append((output.fit_line(f"{'':>13}{effect.op} #{effect.seq} {effect.state}: {text}"),))
    return out


def _render_spent(calls: list[ModelCall]) -> str:
    if not calls:
        return ""
    return f", {len(calls)} model call{'' if len(calls) == 1 else 's'}, {render_usd(sum(each.micro for each in calls))}"


def _render_traced_text(message: Message) -> str:
    if message.kind == MessageKind.SYSTEM and not message.text:
        return reasons.render_note_of(message.content)
    return one_line(message.text)


def _get_moment(moment: TraceEvent) -> int:
    return moment.at


def _moment_of_call(call: ModelCall) -> TraceEvent:
    counted = "" if call.measured else " (as reported or set aside, not measured)"
    told = f"{call.model}, {call.input} tokens in, {call.output} out, {render_usd(call.micro)}{counted}"
    return TraceEvent(call.at, "model call", told)


def _render_state(entry: InboxEntry) -> str:
    if entry.state in END:
        return entry.state + (f" ({reasons.render_reason(entry.reason)})" if entry.reason else "")
    return reasons.render_waiting(entry.state, entry.reason).removeprefix("is ")


def _render_entry(entry: InboxEntry, away: Mapping[str, str]) -> str:
    gateway = None if entry.state in END else away.get(group_places.get_world(entry.folder or ""))
    wait = "" if gateway is None else f" ({group_places.render_wait(gateway)})"
    return f"{_render_state(entry)} in {entry.folder or 'no group'}{wait}"


def _render_moment(moment: TraceEvent, begin: int) -> str:
    arrow = "→"
    if moment.what.startswith(_OUTGOING):
        arrow = "←"
    elif moment.what.startswith(("call ", "model ")):
        arrow = "↔"
    elif moment.what.startswith("turn ") or moment.what in ("working", "begun"):
        arrow = "·"
    if moment.what.split()[-1] in _BAD_ENDS:
        arrow = "✗"
    what, detail = one_line(moment.what), one_line(reasons.render_reason(moment.detail))
    return output.fit_line(f"{render_offset(moment.at - begin):>10}  {arrow} {what:<22} {detail}").rstrip()


def render_offset(micros: int) -> str:
    """`+0.4 ms`, `+143 ms`, `+12.0 s`: as fine as it matters."""
    ms = micros / 1000
    if ms < 10:
        return f"+{ms:.1f} ms"
    return f"+{ms:.0f} ms" if ms < 10_000 else f"+{ms / 1000:.1f} s"


@click.command()
@with_arguments(ListDroppedArgs)
@click.option("-f", "--follow", is_flag=True, help="Go on with those that are refused from now on.")
def dropped_command(home: Home, args: dict[str, Any], as_json: bool, follow: bool) -> None:
    found = call_operation(home, ListDroppedArgs, args)
    zone = zone_of(home)
    if as_json and follow:
        _print_dropped_lines(found, zone[0], as_json)
    elif as_json:
        output.print_json(to_json(found))
    else:
        _print_dropped_counts(found, zone)
        _print_dropped_lines(found, zone[0], as_json)
    while follow:
        time.sleep(DROPPED_LOOK_S)
        seen = {"after": found.last, "after_audit": found.last_audit, "limit": MOST_DROPPED_AT_ONCE}
        found = call_operation(home, ListDroppedArgs, {**args, "since": "", **seen})
        _print_dropped_lines(found, zone[0], as_json)


def _print_dropped_counts(found: DroppedReport, zone: output.Zone) -> None:
    counted = f", {found.only_counted:,} of them only counted" if found.only_counted else ""
    output.print_line(f"{found.total:,} refused{counted}")
    if not found.counts:
        return
    unknown = [name for name in ("reason", "room", "sender") if not any(getattr(each, name) for each in found.counts)]
    own = {"reason": lambda each: _render_reason(each.reason), "times": lambda each: f"{each.times:,}"}
    output.print_records(DroppedCount, found.counts, own, zone=zone, without=unknown)


def _print_dropped_lines(found: DroppedReport, zone: tzinfo | None, as_json: bool) -> None:
    for each in found.newest:
        if as_json:
            output.print_json_line(to_json(each))
            continue
        many = f" ({each.times:,} times)" if each.times > 1 else ""
        where = f"{output.format_time(each.at, zone)}  {each.sender} in {each.room}"
        output.print_line(f"{where}: {_render_reason(each.reason)}{many}", flush=True)


def _render_reason(reason: str) -> str:
    return NOT_WRITTEN_DOWN if reason == ONLY_COUNTED else reasons.render_reason(reason)


@click.command()
@from_operation(ListActivityArgs)
def activity_command(run: CommandRun, found: ActivityPage) -> None:
    output.print_records(ActivityEntry, found.entries, empty="nothing like that happened", zone=zone_of(run.home))
    if found.more:
        output.print_line(f"--before {found.more} shows what came before")


@click.group()
def keep_command() -> None:
    """How long things are kept, how much there is of each, and removing what is over age now."""


@keep_command.command("show")
@with_arguments(ShowRetentionArgs)
def show_retention(home: Home, args: dict[str, Any], as_json: bool) -> None:
    found = _read_retention(home)
    if as_json:
        output.print_json(to_json(found))
        return
    output.print_records(KeptRows, found.rows, empty="nothing is kept", zone=zone_of(home))
    for each in found.files:
        output.print_line(f"{each.what}: {render_size(each.bytes)}, kept for {render_days(each.days)} ({each.setting})")
    output.print_line(f"store: {render_size(found.store.bytes)}")
    if not found.store.shrinks:
        output.print_line(
            "the store was made by an older gatepost: it uses freed space again, but its file does not shrink"
        )


@keep_command.command("run")
@with_arguments(RunRetentionArgs)
@click.option("--dry-run", is_flag=True, help="Only tell how much is over age.")
def run_sweep(home: Home, args: dict[str, Any], as_json: bool, dry_run: bool) -> None:
    if dry_run:
        done = {each.what: each.over_age for each in _read_retention(home).rows}
    else:
        done = to_json(call_operation(home, RunRetentionArgs, args, SWEEP_PATIENCE_S))
    if as_json:
        output.print_json(done)
        return
    told = ", ".join(f"{count} {what}" for what, count in done.items() if count)
    output.print_line(f"{'over age' if dry_run else 'removed'}: {told or 'nothing'}")


def _read_retention(home: Home) -> RetentionOverview:
    from gatepost.serve.control.operations.ledger import RETENTION_SETTINGS, get_retention_overview

    config = settings.load_declared(home.path, *RETENTION_SETTINGS)
    return read_store(home, get_retention_overview, home, config, SystemClock().now())
