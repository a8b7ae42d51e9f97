"""Options of a group whose provider speaks the Agent Client Protocol."""

import shlex

from gatepost.inside import programs
from gatepost.inside.coding_agent import CodingAgentOptions
from gatepost.inside.providers.contract import Misconfigured


class AcpOptions(CodingAgentOptions, frozen=True):
    """Its `mode` is one of the agent's own."""

    command: str = ""
    agent: str = ""  # its name in the ACP registry, in the place of a command
    env: dict[str, str] | list[str] | str = ""  # of the agent, as `A=b` or a table
    permissions: str = "allow"  # or ask: the walls are the sandbox's
    instructions: str = ""  # told, or own: it reads AGENTS.md itself; "": as is known of that program
    auth: str = ""  # one of the agent's ways to log in
    patience: float = 60.0  # seconds for an answer of the agent's own, not the model's

    def __post_init__(self) -> None:
        if self.instructions not in ("", "told", "own"):
            raise ValueError(f"the option instructions is told or own, not {self.instructions!r}")


def read_command(command: str) -> list[str]:
    """The program's path, and its arguments."""
    try:
        program, *arguments = shlex.split(command)
    except ValueError as error:
        raise Misconfigured(f"the option command is no command: {error}: {command}") from None
    return [programs.find(program), *arguments]


def read_env(given: dict[str, str] | list[str] | str) -> dict[str, str]:
    """A table, a list of `A=b`, or those in one line."""
    if isinstance(given, dict):
        return given
    found = {}
    for each in shlex.split(given) if isinstance(given, str) else given:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise Misconfigured(f"the option env has {each[:80]!r}, which is not NAME=VALUE")
        found[name] = value
    return found
