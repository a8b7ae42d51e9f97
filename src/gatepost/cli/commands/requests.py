"""`gatepost permit`: requests that wait for a person's decision."""

import json
from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.given_files import read_text
from gatepost.cli.operation_command import CommandRun, call_operation, from_operation
from gatepost.cli.operation_runner import zone_of
from gatepost.cli.timeline_renderer import LONGEST_TOLD, list_consequences, list_next_steps, summarize_request
from gatepost.core.errors import Invalid
from gatepost.core.home import Home
from gatepost.core.terminal_text import one_line
from gatepost.flow.requests.edited_input import parse_edited
from gatepost.messages.visible_text import show_hidden
from gatepost.serve.control.arguments.agents import (
    AgentRequest,
    AnswerRequestArgs,
    AnswerResult,
    ListRequestsArgs,
    PendingRequest,
)
from gatepost.serve.control.arguments.requests import PermitDetails, ShowRequestArgs
from gatepost.store.rights.requests import PREFIX, RequestKind

_WANTS = {
    RequestKind.PLAN: "a plan approved",
    RequestKind.QUESTION: "an answer",
    RequestKind.SENDER: "to be let in",
    RequestKind.ROOM: "a group that answers in its room (--answer FOLDER)",
    RequestKind.HOST: "to reach a host",
    RequestKind.BUDGET: "more money for its budget (or --answer and its cheaper model)",
    RequestKind.PRICE: "the price of a model (--answer IN/OUT, or --answer 0)",
    RequestKind.TEXT: "a scheduled text said",
    RequestKind.RESTORED: "what was under way sent (allow) or dropped (deny)",
}
LONGEST_NAME = 40


@click.group()
def permit_command() -> None:
    """Requests of agents and people, and your answers. Needs a running gateway.

    A request is a call that a rule holds, a question, a plan, an unknown sender, a chat that nobody answers, or a host
    that is not allowed.
    """


@permit_command.command("ls")
@from_operation(ListRequestsArgs)
def list_requests(run: CommandRun, found: list[AgentRequest]) -> None:
    zone, name = zone_of(run.home)
    rows = [
        (
            each.request.id,
            output.format_iso(each.request.asked_at, zone),
            each.agent.folder,
            render_who(each),
            _WANTS.get(each.request.kind) or f"to use {each.request.name}",
            summarize_request(each.request),
        )
        for each in found
    ]
    columns = ("request", f"asked ({name})", "group", "who", "wants", "what it says")
    output.print_table(columns, rows, empty="nobody asks for anything")
    for each in found:
        if more := list_consequences(each.request, LONGEST_TOLD):
            output.print_line("\n".join([f"\n{each.request.id}:", *(f"  {line}" for line in more)]))


@permit_command.command()
@from_operation(ShowRequestArgs)
def show(run: CommandRun, asked: PermitDetails) -> None:
    """Show all of one request: what is asked, with every argument whole, and why a person must decide."""
    for line in render_request(asked):
        output.print_line(line)


def render_request(asked: PermitDetails) -> list[str]:
    """Whole: somebody decides by it. Each argument is one line, with everything in it to be seen."""
    said = filter(None, [_render_asker(asked), asked.why, *asked.preview.splitlines()])
    return [
        one_line(asked.title),
        *(f"  {show_hidden(line)}" for line in said),
        *(f"  {each.label}: {each.value}" for each in asked.fields),  # as the card shows them: nothing hides
        *(["  That is an excerpt: nobody sees all of it, so it can only be denied."] if asked.cut else []),
        asked.decision or f"gatepost permit allow {asked.id}, or gatepost permit deny {asked.id}",
    ]


def _render_asker(asked: PermitDetails) -> str:
    if not asked.asked_by:
        return ""
    place = f" in “{one_line(asked.asked_in)[:LONGEST_NAME]}”" if asked.asked_in else ""
    said = one_line(asked.said)
    words = f": “{said[:LONGEST_TOLD]}{'…' if len(said) > LONGEST_TOLD else ''}”" if said else ""
    return f"Asked by {one_line(asked.asked_by)[:LONGEST_NAME]}{place}{words}"


def render_who(each: AgentRequest) -> str:
    """Return the person behind a request: who gave the agent its work, or the stranger who brought it about. Without
    one, the agent itself."""
    agent, asked = each.agent, each.request
    sender, name = asked.input.get("from"), asked.input.get("name")
    if asked.kind in (RequestKind.SENDER, RequestKind.ROOM) and isinstance(sender, str):
        return f"{one_line(str(name))[:LONGEST_NAME]} ({sender})" if name else sender
    return one_line(each.asked_by or agent.title or agent.type or agent.folder)[:LONGEST_NAME]


def _add_input(home: Home, args: dict[str, Any], edit: bool, given: str | None) -> dict[str, Any]:
    """Arguments that take the place of those that were asked for."""
    if edit and given is not None:
        raise Invalid("--edit", "--input brings the arguments already; use one of the two")
    if edit:
        return {**args, **_edit_input(home, args["id"])}
    return {**args, "input": _parse_input("--input", _read_input(given))} if given is not None else args


def _read_input(given: str) -> str:
    return read_text("--input", given[1:]) if given.startswith("@") else given


def _parse_input(option: str, text: str) -> dict[str, Any]:
    try:
        return parse_edited(text)
    except Invalid as wrong:
        raise Invalid(option, wrong.why) from None


def _edit_input(home: Home, named: str) -> dict[str, Any]:
    """The request that is meant, and what somebody makes of its arguments in their editor."""
    request = _find_request(home, named)
    if not request.editable:
        raise Invalid("--edit", f"what {request.id} asks cannot be edited; allow it as it is, or deny it")
    text = click.edit(json.dumps(request.input, indent=2, ensure_ascii=False) + "\n", extension=".json")
    if text is None:
        raise Invalid("--edit", "the editor saved nothing, so nothing was answered")
    return {"id": request.id, "input": _parse_input("--edit", text)}


def _find_request(home: Home, named: str) -> PendingRequest:
    waiting = call_operation(home, ListRequestsArgs, {})
    found = [each.request for each in waiting if _is_meant(each, named)]
    if len(found) != 1:
        raise Invalid("--edit", f"{named!r} means {len(found)} requests that wait; `gatepost permit ls` shows them")
    return found[0]


def _is_meant(each: AgentRequest, named: str) -> bool:
    """Return True if a request is meant. What begins like an id is no agent: agents give themselves titles."""
    by_agent = named in (each.agent.agent_id, each.agent.title) and not named.startswith(PREFIX)
    return bool(named) and (each.request.id.startswith(named) or by_agent)


@permit_command.command()
@from_operation(AnswerRequestArgs, prepare=_add_input, allow=True, message="", interrupt=False, input={})
@click.option("--edit", is_flag=True, help="Change the arguments in $EDITOR, then allow that.")
@click.option(
    "--input", "given", metavar="JSON|@FILE", help="Allow it with these arguments in place of those it asks for."
)
def allow(run: CommandRun, answer: AnswerResult, edit: bool, given: str | None) -> None:
    """Allow it, or answer it if it is a question. REQUEST is an id, the beginning of one, or the agent, if it asks one
    thing only. An edited call is judged anew by all rules, and runs as edited."""
    if answer.awaited:
        output.print_line(f"{answer.id} waits for others: {answer.awaited}")
        return
    changed = " with changes" if run.args["input"] else ""
    output.print_line(f"{answer.id} is {'answered' if run.args['answers'] else 'allowed'}{changed}")
    if not run.args["answers"]:
        output.print_line(f"gatepost permit show {answer.id} says what became of it")
    for line in list_next_steps(answer.next_mode_id or None, answer.follow_up or None):
        output.print_line(line.replace("Allowed, it", "It", 1) if not line.startswith(" ") else line)


def _add_reason(home: Home, args: dict[str, Any], reason: str | None) -> dict[str, Any]:
    if reason and args["message"]:
        raise Invalid("--message", "the reason is there already; say it once")
    return {**args, "message": reason or args["message"]}


@permit_command.command()
@from_operation(AnswerRequestArgs, prepare=_add_reason, allow=False, answers=[], input={})
@click.argument("reason", required=False)
def deny(run: CommandRun, answer: AnswerResult, reason: str | None) -> None:
    """Deny it, and say why if you like; the agent goes on without. REQUEST is an id, the beginning of one, or the agent
    that asks."""
    output.print_line(f"{answer.id} is denied")
