"""`gatepost trace`: one message's whole life, moment by moment."""

from collections.abc import Mapping
from datetime import tzinfo
from types import MappingProxyType
from typing import Any

import click

from gatepost.access.budgets import render_usd
from gatepost.cli import output, reasons
from gatepost.cli.operation_command import with_arguments
from gatepost.cli.operation_runner import zone_of
from gatepost.core.home import Home
from gatepost.core.terminal_text import one_line
from gatepost.messages.inbound import MessageKind
from gatepost.serve.control.answers import to_json
from gatepost.serve.control.arguments.ledger import TraceMessageArgs
from gatepost.serve.control.operations.ledger import find_trace, make_trace_view
from gatepost.store.engine.place import find_place
from gatepost.store.engine.readonly import read_snapshot
from gatepost.store.gateways import group_places
from gatepost.store.messages.inbox import END, InboxEntry
from gatepost.store.messages.messages import Message
from gatepost.store.money.costs import ModelCall
from gatepost.store.money.ledger import MessageTrace, TraceEvent

EVERYBODY_IS_THERE: Mapping[str, str] = MappingProxyType({})
_BAD = ("failed", "refused", "cancelled", "uncertain", "interrupted", "retry")
_OUT = ("send ", "edit ", "react ", "file ", "delete ", "pin ", "unpin ", "card ", "status ")


@click.command()
@with_arguments(TraceMessageArgs)
def command(home: Home, args: dict[str, Any], as_json: bool) -> None:
    place = find_place(home)
    life = read_snapshot(place, find_trace, args["message"])
    if as_json:
        output.print_json(to_json(make_trace_view(life)))
    else:
        zone, called = zone_of(home)
        away = read_snapshot(place, group_places.list_away) if place.url else []
        for line in render_trace(life, zone, called, {each.world: each.gateway for each in away}):
            output.print_line(*line)


def render_trace(
    life: MessageTrace, zone: tzinfo | None, called: str, away: Mapping[str, str] = EVERYBODY_IS_THERE
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
        (f"  {output.fit_line(_text(message), 4)}",),
        (f"  {one_line(states) or message.direction}" + (f", {took} in all" if took else "") + _spent(life.calls),),
        ("",),
    ]
    out += [(_line(each, begin),) for each in sorted([*life.moments, *map(_moment_of_call, life.calls)], key=_at)]
    for effect in life.effects:
        if text := one_line(str(effect.payload.get("text") or "")):
            out.append((output.fit_line(f"{'':>13}{effect.op} #{effect.seq} {effect.state}: {text}"),))
    return out


def _spent(calls: list[ModelCall]) -> str:
    if not calls:
        return ""
    return f", {len(calls)} model call{'' if len(calls) == 1 else 's'}, {render_usd(sum(each.micro for each in calls))}"


def _text(message: Message) -> str:
    if message.kind == MessageKind.SYSTEM and not message.text:
        return reasons.render_note_of(message.content)
    return one_line(message.text)


def _at(moment: TraceEvent) -> int:
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


def _line(moment: TraceEvent, begin: int) -> str:
    arrow = "→"
    if moment.what.startswith(_OUT):
        arrow = "←"
    elif moment.what.startswith(("call ", "model ")):
        arrow = "↔"
    elif moment.what.startswith("turn ") or moment.what in ("working", "begun"):
        arrow = "·"
    if moment.what.split()[-1] in _BAD:
        arrow = "✗"
    what, detail = one_line(moment.what), one_line(reasons.render_reason(moment.detail))
    return output.fit_line(f"{offset(moment.at - begin):>10}  {arrow} {what:<22} {detail}").rstrip()


def offset(micros: int) -> str:
    """`+0.4 ms`, `+143 ms`, `+12.0 s`: as fine as it matters."""
    ms = micros / 1000
    if ms < 10:
        return f"+{ms:.1f} ms"
    return f"+{ms:.0f} ms" if ms < 10_000 else f"+{ms / 1000:.1f} s"
