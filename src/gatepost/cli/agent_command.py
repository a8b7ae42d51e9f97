"""The command of an agent that is any program: as the operator gives it, or by the agent's id in the ACP registry.

Somebody must agree to a command of the registry before it is run or kept.
"""

import json
import shlex

import click

from gatepost.cli.installer import Tell
from gatepost.core.errors import Invalid
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.inside.provider_spec import ProviderSpec
from gatepost.serve.control.agent_registry import find_command
from gatepost.serve.control.connectable_agents import has_command, has_program, list_agents
from gatepost.store.sessions.groups import Group


def choose_command(
    home: Home, chosen: ProviderSpec, group: Group, given: str, listed: str, tell: Tell, *, ask: bool
) -> dict[str, str]:
    """The provider's options that start it. `given`: the operator's command; `listed`: an id in the registry."""
    if (given or listed) and not chosen.command_options:
        those = ", ".join(each.name for each in list_agents(home).values() if each.command_options)
        raise Invalid("--command" if given else "agent", f"belongs to {those}; the others know their own")
    if given and listed:
        raise Invalid("--command", f"{listed} has one in the ACP registry; give one of the two")
    if listed:
        return _agree(home, chosen, listed, tell, ask=ask)
    if not given and not has_command(chosen, group):
        raise Invalid("--command", "which program is it to be? Like --command 'PROGRAM acp'")
    return {"command": given} if given else {}


def _agree(home: Home, chosen: ProviderSpec, listed: str, tell: Tell, *, ask: bool) -> dict[str, str]:
    found = find_command(home, listed, tell)
    program, command = found.words[0], shlex.join(found.words)
    tell(f"{found.title} of the ACP registry is started by: {command}")
    if found.variables:
        tell(f"with these variables: {shlex.join(map('='.join, found.variables.items()))}")
    if not has_program(home, replace(chosen, programs=(program,))):
        tell(f"{program} is not on this machine; install it first" + (f": {found.archive}" if found.archive else ""))
    if not ask:
        agreed = f"gatepost connect {chosen.name} --command {shlex.quote(command)}"
        raise Invalid("agent", f"nobody is here to agree to a command of the registry; if you do: {agreed}")
    if not click.confirm("Run this in the group's sandbox, now and in every session?", err=True):
        raise Invalid("agent", "nothing was changed")
    return {"command": command, **({"env": json.dumps(found.variables)} if found.variables else {})}
