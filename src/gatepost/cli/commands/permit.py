"""`gatepost permit`: what waits for a person's decision."""

from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.cli.timeline_renderer import LONGEST_TOLD, list_consequences, summarize_request
from gatepost.core.errors import Invalid
from gatepost.core.home import Home
from gatepost.serve.control.arguments.agents import AnswerRequestArgs, ListRequestsArgs
from gatepost.store.requests import RequestKind

_WANTS = {
    RequestKind.PLAN: "a plan approved",
    RequestKind.QUESTION: "an answer",
    RequestKind.SENDER: "to be let in",
    RequestKind.ROOM: "a group that answers in its room (--answer FOLDER)",
    RequestKind.HOST: "to reach a host",
}


@click.group()
def command() -> None:
    """What agents and people ask, and your answers: calls that a rule holds, questions, plans, somebody unknown who
    writes, a chat that nobody answers, a host that is not allowed. Needs a running gateway."""


@command.command("ls")
@from_operation(ListRequestsArgs)
def list_requests(run: CommandRun, found: list[dict[str, Any]]) -> None:
    rows = [
        (
            each["request"]["id"],
            each["agent"]["title"] or each["agent"]["agentId"],
            _WANTS.get(each["request"]["kind"]) or f"to use {each['request']['name']}",
            summarize_request(each["request"]),
        )
        for each in found
    ]
    output.print_table(("request", "agent", "wants", "what it says"), rows, empty="nobody asks for anything")
    for each in found:
        if more := list_consequences(each["request"], LONGEST_TOLD):
            output.print_line("\n".join([f"\n{each['request']['id']}:", *(f"  {line}" for line in more)]))


@command.command()
@from_operation(AnswerRequestArgs, allow=True, message="", interrupt=False)
def allow(run: CommandRun, told: dict[str, Any]) -> None:
    """Allow it, or answer it if it is a question. REQUEST is an id, the beginning of one, or the agent, if it asks one
    thing only."""
    output.print_line(f"{told['id']} is {'answered' if run.args['answers'] else 'allowed'}")
    for line in list_consequences({"input": {}, **told}):
        output.print_line(line.replace("Allowed, it", "It", 1) if not line.startswith(" ") else line)


def _add_reason(home: Home, args: dict[str, Any], reason: str | None) -> dict[str, Any]:
    if reason and args["message"]:
        raise Invalid("--message", "the reason is there already; say it once")
    return {**args, "message": reason or args["message"]}


@command.command()
@from_operation(AnswerRequestArgs, prepare=_add_reason, allow=False, answers=[])
@click.argument("reason", required=False)
def deny(run: CommandRun, told: dict[str, Any], reason: str | None) -> None:
    """Deny it, and say why if you like; the agent goes on without. REQUEST is an id, the beginning of one, or the agent
    that asks."""
    output.print_line(f"{told['id']} is denied")
