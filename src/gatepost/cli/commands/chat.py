"""`gatepost chat`: talk to the agents from a terminal, by hand or from a script."""

import sys

import click
from msgspec import UNSET, Struct, UnsetType

from gatepost.cli import output, reasons
from gatepost.cli.conversation import ANSWERED, ChatTarget, TerminalConversation, poll_outcome, send
from gatepost.cli.program import INTERRUPTED
from gatepost.core.errors import Unavailable
from gatepost.core.home import find
from gatepost.core.process.listen_address import find_control_path
from gatepost.core.records import replace
from gatepost.serve.control.answers import to_json
from gatepost.serve.control.chat_outcome import ChatReply
from gatepost.serve.control.client import ControlClient
from gatepost.store.messages.inbox import InboxState


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
def chat_command(
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
    """Talk to an agent. Without -m: a conversation; /quit or Ctrl-D ends it. From a pipe: once all is answered, with
    status 1 if something was not."""
    home = find(ctx.obj)
    control = ControlClient(find_control_path(home), home.path)
    place = ChatTarget(room=room, thread=thread, sender=sender)
    if text is None:
        if wait or as_json or key:
            raise click.UsageError("--wait, --json and --id belong to -m TEXT")
        ctx.exit(0 if TerminalConversation(control, place, timeout).run() else 1)
    if text == "-":
        text = sys.stdin.read().removesuffix("\n")
    outcome = send_message(control, place, text, key, timeout if wait else None)
    if as_json:
        output.print_json_line(to_json(outcome))
    elif told := render(outcome, wait):
        output.print_line(told)
    elif wait and outcome.state in ANSWERED:
        output.print_line("(the agent chose to say nothing)", error=True)
    if wait and outcome.state not in ANSWERED:
        if not as_json:
            output.print_line(render_failure(outcome, timeout), error=True)
        ctx.exit(1)


class SentChat(Struct, frozen=True, kw_only=True):
    """A message that was sent, and its outcome so far. `asks`: the request that a person has to decide. `halted`: it
    waits until somebody gives the command `until`."""

    message: int
    new: bool
    state: str
    reason: str
    replies: tuple[ChatReply, ...] = ()
    asks: str | UnsetType = UNSET
    halted: bool | UnsetType = UNSET
    until: str | UnsetType = UNSET


def send_message(control: ControlClient, place: ChatTarget, text: str, key: str, timeout: float | None) -> SentChat:
    """Send, and wait for the answer unless `timeout` is None."""
    receipt = send(control, place, text, key)
    number = receipt.message_id
    outcome = SentChat(message=number, new=receipt.new, state=receipt.state, reason=receipt.reason)
    if timeout is None:
        return outcome
    told = False  # that it waits for a person
    try:
        for answer in poll_outcome(control, number, timeout):
            outcome = replace(
                outcome,
                state=answer.state,
                reason=answer.reason,
                replies=answer.replies,
                asks=answer.asks or outcome.asks,
                halted=answer.halted or outcome.halted,
                until=answer.until or outcome.until,
            )
            if not told and not answer.done and (waits := render_held(outcome)):
                told = True
                output.print_line(waits, error=True, flush=True)
    except Unavailable as error:
        raise Unavailable("the answer", f"message {number} is accepted, but {error}") from None
    except KeyboardInterrupt:
        output.print_line(f"message {number} goes on; `gatepost trace {number}`", error=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    return outcome


def render(outcome: SentChat, waited: bool) -> str:
    if waited:
        return "\n".join(reply.text for reply in outcome.replies)
    known = "" if outcome.new else ", seen before"
    reason = f": {reasons.render_reason(outcome.reason)}" if outcome.reason else ""
    return f"message {outcome.message} {outcome.state}{reason}{known}"


def render_held(outcome: SentChat) -> str:
    """Render which decision a message waits for, and how somebody makes it; '' if it waits for none."""
    if not outcome.asks:
        return ""
    allow, deny = (f"`gatepost permit {word} {outcome.asks}`" for word in ("allow", "deny"))
    shown = f"`gatepost permit show {outcome.asks}`"
    return f"message {outcome.message} waits until somebody decides: {shown} says what, {allow} or {deny} decides it"


def render_failure(outcome: SentChat, timeout: float) -> str:
    number, state, reason = outcome.message, outcome.state, outcome.reason
    if state in (InboxState.FAILED, InboxState.REFUSED, InboxState.CANCELLED):
        return f"message {number} {state}" + (f": {reasons.render_reason(reason)}" if reason else "")
    how = reasons.render_waiting(state, reason, outcome.asks or "")
    if outcome.halted:
        return f"message {number} {how} until `{outcome.until or 'gatepost panic --off'}`: `gatepost trace {number}`"
    return f"no answer within {timeout:g} s; message {number} {how}: `gatepost trace {number}`"
