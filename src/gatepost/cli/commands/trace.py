"""`gatepost trace`: one message's whole life, moment by moment."""

from dataclasses import asdict
from datetime import tzinfo
from typing import Any

import click

from gatepost.access.budgets import usd
from gatepost.cli import reasons, show
from gatepost.cli.operate import home_of, reading, zone_of
from gatepost.core.clock import iso
from gatepost.core.errors import NotFound
from gatepost.core.visible import one_line
from gatepost.serve.control.contract import as_told
from gatepost.store import ledger
from gatepost.store.costs import Call
from gatepost.store.inbox import END, Entry
from gatepost.store.ledger import Life, Moment
from gatepost.store.messages import Message
from gatepost.store.port import Db

GAPS = (
    "; what comes in, what goes out and what the gateway itself writes share their numbers, so one that is missing is"
    " no message lost"
)
_BAD = ("failed", "refused", "cancelled", "uncertain", "interrupted", "retry")
_OUT = ("send ", "edit ", "react ", "file ", "delete ", "pin ", "unpin ", "card ", "status ")


@click.command()
@click.argument("message")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="message, entries, moments (with offset_ms), model_calls and effects as JSON.",
)
@click.pass_obj
def command(home: str | None, message: str, as_json: bool) -> None:
    """One message's whole life: every step, the model calls and tool calls of its turn, what was sent and what it cost.

    MESSAGE is its number in the ledger or its id on the platform. What was spent in a turn is told with each message
    that the turn worked on.
    """
    place = home_of(home)
    life = reading(place, _find, message)
    if as_json:
        show.as_json(as_data(life))
    else:
        zone, called = zone_of(place)
        for line in lines(life, zone, called):
            show.say(*line)


def _find(db: Db, wanted: str) -> Life:
    message_id = ledger.find_message(db, wanted)
    life = ledger.life(db, message_id) if message_id is not None else None
    if life is None:
        raise NotFound(
            "message", wanted, "`gatepost ledger list` shows the newest" + (GAPS if wanted.isdigit() else "")
        )
    return life


def as_data(life: Life) -> dict[str, Any]:
    begin = life.message.accepted_at
    return {
        "message": {**asdict(life.message), "at": iso(life.message.at), "accepted_at": iso(begin)},
        "entries": [as_told(entry) for entry in life.entries],
        "moments": [
            {"at": iso(each.at), "offset_ms": (each.at - begin) / 1000, "what": each.what, "detail": each.detail}
            for each in life.moments
        ],
        "model_calls": [as_told(call) for call in life.calls],
        "effects": [as_told(effect) for effect in life.effects],
    }


def lines(life: Life, zone: tzinfo | None, called: str) -> list[show.Line]:
    """As it is printed: what it was, then a line per moment with the time since it was accepted."""
    message = life.message
    who = one_line(message.sender_name or message.sender)
    begin = message.accepted_at
    states = ", ".join(f"{_far(entry)} in {entry.folder or 'no group'}" for entry in life.entries)
    took = show.span((life.moments[-1].at - begin) / 1_000_000) if life.moments else ""
    where = one_line(message.address + (f"#{message.thread}" if message.thread else ""))
    out: list[show.Line] = [
        (show.colored(f"message {message.id}", "bold"), f"  {who} in {where}  {show.clock(begin, zone)} ({called})"),
        (f"  {show.fit(_text(message), 4)}",),
        (f"  {one_line(states) or message.direction}" + (f", {took} in all" if took else "") + _spent(life.calls),),
        ("",),
    ]
    out += [(_line(each, begin),) for each in sorted([*life.moments, *map(_of_call, life.calls)], key=_at)]
    for effect in life.effects:
        if text := one_line(str(effect.payload.get("text") or "")):
            out.append((show.fit(f"{'':>13}{effect.op} #{effect.seq} {effect.state}: {text}"),))
    return out


def _spent(calls: list[Call]) -> str:
    if not calls:
        return ""
    return f", {len(calls)} model call{'' if len(calls) == 1 else 's'}, {usd(sum(each.micro for each in calls))}"


def _text(message: Message) -> str:
    if message.kind == "system" and not message.text:
        return reasons.note_of(message.content)
    return one_line(message.text)


def _at(moment: Moment) -> int:
    return moment.at


def _of_call(call: Call) -> Moment:
    counted = "" if call.measured else " (as reported or set aside, not measured)"
    told = f"{call.model}, {call.input} tokens in, {call.output} out, {usd(call.micro)}{counted}"
    return Moment(call.at, "model call", told)


def _far(entry: Entry) -> str:
    if entry.state in END:
        return entry.state + (f" ({reasons.sentence(entry.reason)})" if entry.reason else "")
    return reasons.waiting(entry.state, entry.reason).removeprefix("is ")


def _line(moment: Moment, begin: int) -> str:
    arrow = "→"
    if moment.what.startswith(_OUT):
        arrow = "←"
    elif moment.what.startswith(("call ", "model ")):
        arrow = "↔"
    elif moment.what.startswith("turn ") or moment.what in ("working", "begun"):
        arrow = "·"
    if moment.what.split()[-1] in _BAD:
        arrow = "✗"
    what, detail = one_line(moment.what), one_line(reasons.sentence(moment.detail))
    return show.fit(f"{offset(moment.at - begin):>10}  {arrow} {what:<22} {detail}").rstrip()


def offset(micros: int) -> str:
    """`+0.4 ms`, `+143 ms`, `+12.0 s`: as fine as it matters."""
    ms = micros / 1000
    if ms < 10:
        return f"+{ms:.1f} ms"
    return f"+{ms:.0f} ms" if ms < 10_000 else f"+{ms / 1000:.1f} s"
