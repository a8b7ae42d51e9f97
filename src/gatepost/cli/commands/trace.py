"""`gatepost trace`: one message's whole life, moment by moment."""

from dataclasses import asdict
from typing import Any

import click

from gatepost.cli import show
from gatepost.cli.operate import home_of, reading
from gatepost.core.clock import iso
from gatepost.core.errors import NotFound
from gatepost.store import ledger
from gatepost.store.ledger import Life, Moment
from gatepost.store.port import Db

_BAD = ("failed", "refused", "cancelled", "uncertain", "interrupted", "retry")
_OUT = ("send ", "edit ", "react ", "file ", "delete ", "pin ", "unpin ", "card ", "status ")


@click.command()
@click.argument("message")
@click.option("--json", "as_json", is_flag=True, help="message, entries, moments (with offset_ms) and effects as JSON.")
@click.pass_obj
def command(home: str | None, message: str, as_json: bool) -> None:
    """One message's whole life. MESSAGE is its number in the ledger or its id on the platform."""
    life = reading(home_of(home), _find, message)
    if as_json:
        show.as_json(as_data(life))
    else:
        print("\n".join(lines(life)))


def _find(db: Db, wanted: str) -> Life:
    message_id = ledger.find_message(db, wanted)
    life = ledger.life(db, message_id) if message_id is not None else None
    if life is None:
        raise NotFound("message", wanted, "`gatepost ledger list` shows the newest")
    return life


def as_data(life: Life) -> dict[str, Any]:
    begin = life.message.accepted_at
    return {
        "message": {**asdict(life.message), "at": iso(life.message.at), "accepted_at": iso(begin)},
        "entries": [asdict(entry) for entry in life.entries],
        "moments": [
            {"at": iso(each.at), "offset_ms": (each.at - begin) / 1000, "what": each.what, "detail": each.detail}
            for each in life.moments
        ],
        "effects": [asdict(effect) for effect in life.effects],
    }


def lines(life: Life) -> list[str]:
    """As it is printed: what it was, then a line per moment with the time since it was accepted."""
    message = life.message
    who = message.sender_name or message.sender
    begin = message.accepted_at
    states = ", ".join(f"{entry.state} in {entry.folder or 'no group'}" for entry in life.entries)
    took = show.span((life.moments[-1].at - begin) / 1_000_000) if life.moments else ""
    out = [
        show.colored(f"message {message.id}", "bold") + f"  {who} in {message.address}"
        f"{'#' + message.thread if message.thread else ''}  {show.clock(begin)}",
        f"  {show.cut(' '.join(message.text.split()), show.WIDTH - 4)}",
        f"  {states or message.direction}" + (f", {took} in all" if took else ""),
        "",
    ]
    out += [_line(each, begin) for each in life.moments]
    said = [effect for effect in life.effects if effect.payload.get("text")]
    for effect in said:
        text = " ".join(str(effect.payload["text"]).split())
        out.append(show.cut(f"{'':>13}{effect.op} #{effect.seq} {effect.state}: {text}", show.WIDTH))
    return out


def _line(moment: Moment, begin: int) -> str:
    arrow = "→"
    if moment.what.startswith(_OUT):
        arrow = "←"
    elif moment.what.startswith("call "):
        arrow = "↔"
    elif moment.what.startswith("turn ") or moment.what in ("working", "begun"):
        arrow = "·"
    if moment.what.split()[-1] in _BAD:
        arrow = "✗"
    return show.cut(f"{offset(moment.at - begin):>10}  {arrow} {moment.what:<22} {moment.detail}", show.WIDTH).rstrip()


def offset(micros: int) -> str:
    """`+0.4 ms`, `+143 ms`, `+12.0 s`: as fine as it matters."""
    ms = micros / 1000
    if ms < 10:
        return f"+{ms:.1f} ms"
    return f"+{ms:.0f} ms" if ms < 10_000 else f"+{ms / 1000:.1f} s"
