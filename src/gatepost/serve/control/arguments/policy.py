"""Policy: why a group's agent may call a tool, or not."""

from typing import Annotated, Any

from msgspec import field

from gatepost.serve.control.arguments.grants import READ
from gatepost.serve.control.declaration import OperationArgs, argument, declares, option


@declares("policy.explain", right=READ, needs_home=True)
class ExplainCallArgs(OperationArgs[Any], frozen=True):
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
class ListToolsArgs(OperationArgs[Any], frozen=True):
    """The tools that the agent of FOLDER sees: by its tier, as rules and rows change it."""

    folder: Annotated[str, argument("The group.")]
