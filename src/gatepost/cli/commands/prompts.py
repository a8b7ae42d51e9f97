"""`gatepost prompt`: what an agent is told before a word is said, and what that costs."""

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.flow.prompt_cost import PromptCost, PromptCostPart
from gatepost.serve.control.arguments.prompts import ShowPromptArgs


@click.group()
def prompt_command() -> None:
    """The prompt of an agent before a word is said."""


@prompt_command.command("show")
@from_operation(ShowPromptArgs)
def show_prompt(run: CommandRun, cost: PromptCost) -> None:
    output.print_records(PromptCostPart, cost.parts, empty="nothing")
    output.print_line(f"{cost.folder}: {render_cost(cost)}")
    for hint in cost.hints:
        output.print_line(f"→ {hint}")


def render_cost(cost: PromptCost) -> str:
    more = f"; {cost.provider} adds a prompt and tools of its own" if cost.own else ""
    return f"{cost.size:,} bytes, about {cost.tokens:,} tokens before the first word{more}"
