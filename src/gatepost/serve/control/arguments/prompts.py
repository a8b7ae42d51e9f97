"""Prompts: what an agent is told before a word is said, and what that costs."""

from typing import Annotated

from gatepost.core.record_fields import argument
from gatepost.flow.prompt_cost import PromptCost
from gatepost.serve.control.arguments.groups import READ
from gatepost.serve.control.declaration import OperationArgs, declares


@declares("prompt.show", right=READ, needs_home=True)
class ShowPromptArgs(OperationArgs[PromptCost], frozen=True):
    """What a turn of an agent costs before a word is said, by part: its files, skills and rules, and each tool.

    Tokens are estimated from bytes. What the agent's own program adds is not counted.
    """

    folder: Annotated[
        str, argument("The agent: its group's place.", metavar="AGENT", scope=True, examples=("acme/eng",))
    ]
