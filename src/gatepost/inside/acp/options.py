"""What an operator sets for a group whose provider is acp."""

import shlex
from typing import Any

import msgspec

from gatepost.inside import programs
from gatepost.inside.providers.contract import Misconfigured

NO_COMMAND = (
    "the provider acp has no agent: name the command that starts one,"
    ' `gatepost group set FOLDER options.command="PROGRAM acp"`'
)


class AcpOptions(msgspec.Struct, frozen=True):
    """`gatepost group set FOLDER options.KEY=VALUE`"""

    command: str = ""
    env: dict[str, str] | list[str] | str = []  # of the agent, as `A=b` or a table
    mode: str = ""  # one of the agent's own
    permissions: str = "allow"  # or ask: the walls are the sandbox's
    instructions: str = ""  # told, or own: it reads AGENTS.md itself; "": as is known of that program
    auth: str = ""  # one of the agent's ways to log in
    own_mcp: bool = False  # the servers of the group's .mcp.json, too, inside
    patience: float = 60.0  # seconds for an answer of the agent's own, not the model's


def read_options(given: dict[str, Any]) -> AcpOptions:
    try:
        options = msgspec.convert(given, AcpOptions, strict=False)
    except msgspec.ValidationError as error:
        raise Misconfigured(f"the group's options are not as they should be: {error}") from None
    if options.permissions not in ("allow", "ask"):
        raise Misconfigured(f"the option permissions is allow or ask, not {options.permissions!r}")
    if options.instructions not in ("", "told", "own"):
        raise Misconfigured(f"the option instructions is told or own, not {options.instructions!r}")
    return options


def list_self_read_files(options: AcpOptions, known: bool) -> tuple[str, ...]:
    """Those of the group's files that the agent reads by itself: told as well, it would have them twice. `known`: that
    program reads AGENTS.md where it is started."""
    own = options.instructions == "own" or (not options.instructions and known)
    return ("AGENTS.md",) if own else ()


def read_command(options: AcpOptions) -> list[str]:
    try:
        words = shlex.split(options.command)
    except ValueError as error:
        raise Misconfigured(f"the option command is no command: {error}: {options.command}") from None
    if not words:
        raise Misconfigured(NO_COMMAND)
    return [programs.find(words[0]), *words[1:]]


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
