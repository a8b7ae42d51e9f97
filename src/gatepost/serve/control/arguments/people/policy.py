"""Policy: why a group's agent may call a tool, or not."""

from typing import Annotated, Any

from msgspec import Struct, field

from gatepost.access.policy import PolicyStep
from gatepost.access.subjects import Subject
from gatepost.core.record_fields import ShownAs, argument, option, shown
from gatepost.serve.control.arguments.people.grants import READ
from gatepost.serve.control.declaration import OperationArgs, declares


class CallExplanation(Struct, frozen=True):
    """`notes`: what the rules about this tool leave free."""

    folder: str
    tool: str
    allowed: bool
    steps: list[PolicyStep]
    notes: list[str] = []


class VisibleTool(Struct, frozen=True):
    """`group`: of tools. `effects`: the subjects that rules may name. `held`: the rules by which a person is asked
    first."""

    name: Annotated[str, shown("Tool", ShownAs.CODE)]
    group: Annotated[str, shown("Group of tools")]
    effects: Annotated[list[Subject], shown("What it does outside")]
    summary: Annotated[str, shown("What for")]
    held: Annotated[list[str], shown("Waits for a person")]


@declares("policy.explain", right=READ, needs_home=True)
class ExplainCallArgs(OperationArgs[CallExplanation], frozen=True):
    """Print everything that has a say about FOLDER calling TOOL, in its order, and the verdict."""

    # No scope: rules and rows of the groups above have a say.
    folder: Annotated[str, argument("The group.")]
    tool: Annotated[str, argument("The tool.")]
    arguments: Annotated[
        dict[str, Any],
        option(
            "The call's arguments, for rules about them.",
            "args",
            metavar="JSON",
            examples=({"chatJid": "telegram:group/1"},),
        ),
    ] = field(default_factory=dict)


@declares("policy.tools", right=READ, needs_home=True)
class ListToolsArgs(OperationArgs[list[VisibleTool]], frozen=True):
    """The tools that the agent of FOLDER sees: by its tier, as rules and rows change it."""

    folder: Annotated[str, argument("The group.")]
