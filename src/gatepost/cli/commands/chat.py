"""`gatepost chat`: talk to the agents from a terminal, by hand or from a script."""

import contextlib
import json
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import click

from gatepost.core.errors import GatepostError, Unavailable
from gatepost.core.home import find
from gatepost.core.listen import find_control
from gatepost.serve.control.client import Control

PROMPT = "> "
WAIT_S = 30.0  # one request of a longer wait
ANSWERED = ("answered", "silent", "observed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where and as whom somebody talks."""

    room: str
    thread: str
    sender: str

    def body(self, text: str, key: str = "") -> dict[str, Any]:
        return {"text": text, "room": self.room, "thread": self.thread, "as": self.sender, "id": key}


@click.command("chat")
@click.option("-m", "--message", "text", metavar="TEXT", help="Send this and return; - reads it from standard input.")
@click.option("--wait", is_flag=True, help="Return when it is answered, and print the answer.")
@click.option("--timeout", type=click.FloatRange(min=0), default=300.0, show_default=True, help="Seconds to wait.")
@click.option("--room", default="", help="The terminal room; the default is main.")
@click.option("--thread", default="", help="A conversation of its own inside the room.")
@click.option("--as", "sender", default="", metavar="NAME", help="Speak as terminal:NAME instead of the owner.")
@click.option("--id", "key", default="", metavar="KEY", help="The message's identity: sent twice, accepted once.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def command(
    ctx: click.Context,
    text: str | None,
    wait: bool,
    timeout: float,
    room: str,
    thread: str,
    sender: str,
    key: str,
    as_json: bool,
) -> None:
    """Talk to an agent. Without -m: a conversation; /quit or Ctrl-D ends it."""
    control = Control(find_control(find(ctx.obj)))
    place = Place(room=room, thread=thread, sender=sender)
    if text is None:
        if wait or as_json or key:
            raise click.UsageError("--wait, --json and --id belong to -m TEXT")
        converse(control, place)
        return
    if text == "-":
        text = sys.stdin.read().removesuffix("\n")
    outcome = say(control, place, text, key, timeout if wait else None)
    told = json.dumps(outcome, ensure_ascii=False) if as_json else render(outcome, wait)
    if told:
        click.echo(told)
    if wait and outcome["state"] not in ANSWERED:
        if not as_json:
            click.echo(complaint(outcome, timeout), err=True)
        ctx.exit(1)


def say(control: Control, place: Place, text: str, key: str, timeout: float | None) -> dict[str, Any]:
    """Send, and wait for the answer unless `timeout` is None."""
    receipt = control.post("/v1/chat", place.body(text, key))["result"]
    outcome: dict[str, Any] = {
        "message": receipt["message_id"],
        "new": receipt["new"],
        "state": receipt["state"],
        "reason": receipt["reason"],
        "replies": [],
    }
    if timeout is None:
        return outcome
    deadline = time.monotonic() + timeout
    while True:
        left = max(0.0, deadline - time.monotonic())
        query = urlencode({"message": outcome["message"], "timeout": min(left, WAIT_S)})
        try:
            answer = control.get(f"/v1/chat/wait?{query}")["result"]
        except Unavailable as error:
            raise Unavailable("the answer", f"message {outcome['message']} is accepted, but {error}") from None
        outcome |= {name: answer[name] for name in ("state", "reason", "replies")}
        if answer["done"] or left <= 0:
            return outcome


def render(outcome: dict[str, Any], waited: bool) -> str:
    if waited:
        return "\n".join(reply["text"] for reply in outcome["replies"])
    known = "" if outcome["new"] else ", seen before"
    reason = f": {outcome['reason']}" if outcome["reason"] else ""
    return f"message {outcome['message']} {outcome['state']}{reason}{known}"


def complaint(outcome: dict[str, Any], timeout: float) -> str:
    number, state, reason = outcome["message"], outcome["state"], outcome["reason"]
    if state in ("failed", "refused", "cancelled"):
        return f"message {number} {state}" + (f": {reason}" if reason else "")
    return f"no answer within {timeout:g} s; message {number} is {state}: `gatepost trace {number}`"


def converse(control: Control, place: Place) -> None:
    """Read lines and send them; print what comes meanwhile."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  gives input() its line editing
    control.get("/v1/health")
    click.echo("Type a message; /quit or Ctrl-D ends the conversation.")
    threading.Thread(target=_listen, args=(control, place), daemon=True).start()
    while True:
        try:
            line = input(PROMPT)
        except (EOFError, KeyboardInterrupt):
            click.echo()
            return
        if line.strip() == "/quit":
            return
        if not line.strip():
            continue
        try:
            receipt = control.post("/v1/chat", place.body(line))["result"]
        except GatepostError as error:
            click.echo(str(error), err=True)
            continue
        if receipt["state"] == "refused":
            click.echo(f"refused: {receipt['reason']}", err=True)


def _listen(control: Control, place: Place) -> None:
    """Print what is said in the room, from now on; after a break go on where it broke off."""
    cursor, shown = -1, set[int]()
    while True:
        query = urlencode({"room": place.room, "after": cursor})
        try:
            for event in control.stream(f"/v1/chat/stream?{query}"):
                if event["type"] == "cursor":
                    cursor = event["cursor"]
                elif (line := read_event(event, place.thread)) and event["id"] not in shown:
                    shown.add(event["id"])
                    _print_above(line)
        except GatepostError:
            time.sleep(1)


def _print_above(line: str) -> None:
    """Above the line that is being typed, if somebody types."""
    if sys.stdout.isatty():
        click.echo(f"\r\x1b[K{line}\n{PROMPT}", nl=False)
    else:
        click.echo(line)


def read_event(event: dict[str, Any], thread: str) -> str:
    """One line of the conversation, or nothing: what the person wrote is on the screen already."""
    if event["type"] != "message" or event["direction"] != "out" or event["thread"] != thread:
        return ""
    if event["verb"] == "react":
        return f"[{event['reaction']}]"
    mark = "[edited] " if event["verb"] == "edit" else ""
    return mark + str(event["text"]) if event["verb"] not in ("delete", "pin", "unpin") else ""
