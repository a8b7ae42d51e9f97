"""`gatepost agent` and `connector`: agents that work for you, without a chat; and third-party MCP servers that the host
runs for them."""

import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.exit_codes import CODES, FAILED, get_exit_code
from gatepost.cli.gateway_retry import RetryingCaller
from gatepost.cli.operation_command import CommandRun, NumberRange, call_operation, from_operation, with_arguments
from gatepost.cli.operation_runner import absolute, control_of, get_worktree_timeout, home_of
from gatepost.cli.program import INTERRUPTED
from gatepost.cli.timeline_renderer import TimelineRenderer, make_entry_json, render_waiting_agent, summarize_request
from gatepost.core.errors import Invalid
from gatepost.core.files.private_files import make_private_file
from gatepost.core.home import Home
from gatepost.core.process import listen_address
from gatepost.serve.control.answers import to_json
from gatepost.serve.control.arguments.agents import (
    AcceptConnectorToolsArgs,
    AcceptedTools,
    AgentSnapshot,
    AgentSpec,
    AgentTokenArgs,
    ArchiveAgentArgs,
    CheckConnectorArgs,
    ConnectorChanges,
    ConnectorItem,
    FollowAgentArgs,
    KillAgentArgs,
    ListAgentsArgs,
    ListConnectorChangesArgs,
    ListConnectorsArgs,
    ListModelsArgs,
    ListProvidersArgs,
    ModelInfo,
    PromptAgentArgs,
    ProviderInfo,
    SetAgentModeArgs,
    ShowAgentArgs,
    StopAgentArgs,
    StopAgentResult,
    WaitForAgentArgs,
    WaitOutcome,
)
from gatepost.serve.control.client import TIMEOUT_S
from gatepost.store.rights.connector_tools import ConnectorCheck
from gatepost.store.sessions.sessions import UNFINISHED

WAIT_S = 50.0  # one request of a longer wait
_JSON = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
_AGENT = click.argument("agent")
_TIMEOUT = click.option("--timeout", type=click.FloatRange(min=0), help="Wait no longer than so many seconds (exit 5).")
_BACKGROUND = click.option("--background", "-d", is_flag=True, help="Return at once.")
PLACE = ("cwd", "worktree", "setupState", "notes")  # told of a new one besides what became of it


@click.group()
def agent_command() -> None:
    """Agents that work for you, without a chat. Each runs in a sandbox of its own, as all agents do.

    \b
        gatepost agent run "sum up the report in inbox/" --title Report
        gatepost agent ls
        gatepost agent send Report "now in one sentence"
        gatepost agent attach Report

    AGENT is an id, the beginning of one, or a title. Needs a running gateway. An agent is in the group of --folder, or
    in `agents`, which runs on what `gatepost connect` connected; its files are in groups/agents/ of the data folder.
    """


@agent_command.command(epilog=CODES)
@with_arguments(AgentSpec)
@click.argument("prompt", required=False)
@_BACKGROUND
@_TIMEOUT
def run(
    home: Home, args: dict[str, Any], as_json: bool, prompt: str | None, background: bool, timeout: float | None
) -> int:
    _check_new(prompt, args)
    if args["cwd"]:
        args["cwd"] = absolute(Path(args["cwd"]))
    nothing = prompt is None and (sys.stdin is None or sys.stdin.isatty())
    text = "" if nothing else _text("-" if prompt is None else prompt)
    patience = get_worktree_timeout(home) if args["worktree"] else TIMEOUT_S
    made = call_operation(home, AgentSpec, {**args, "prompt": text}, patience)
    if args["worktree"] and not as_json:
        output.print_line(f"it works in {made.cwd}", error=True)
    for note in () if as_json else made.notes:
        output.print_line(note, error=True)
    if background or not text:
        return _print_outcome(made, as_json)
    return _wait(home, made.agent_id, as_json, timeout, made)


def _check_new(prompt: str | None, args: dict[str, Any]) -> None:
    if prompt is not None and not prompt.strip():
        raise Invalid("PROMPT", "is empty; leave it out for an agent that waits for work")
    if args["worktree"] and not (args["cwd"] and args["base"]):
        missing = "--base" if args["cwd"] else "--cwd"
        raise Invalid(
            missing, "is missing: a worktree is made of a repository (--cwd), from one of its branches (--base)"
        )
    if args["base"] and not args["worktree"]:
        raise Invalid("--base", "is where a new worktree begins; name that with --worktree")


def _text(given: str) -> str:
    """As it stands, or all of stdin for `-`."""
    if given != "-":
        return given
    try:
        return sys.stdin.buffer.read().decode().removesuffix("\n") if sys.stdin is not None else ""
    except UnicodeDecodeError:
        raise Invalid("stdin", "is no text in UTF-8") from None


@agent_command.command("ls")
@from_operation(ListAgentsArgs)
def list_agents(run: CommandRun, found: list[AgentSnapshot]) -> None:
    output.print_records(AgentSnapshot, found, {"status": _status}, empty="there are no agents")


def _status(agent: AgentSnapshot) -> str:
    asks = ", asks" if agent.pending_permissions else ""
    return f"{agent.status}{asks}{', archived' if agent.archived_at else ''}"


@agent_command.command(epilog=CODES)
@with_arguments(PromptAgentArgs)
@_BACKGROUND
@_TIMEOUT
def send(home: Home, args: dict[str, Any], as_json: bool, background: bool, timeout: float | None) -> int:
    answer = call_operation(home, PromptAgentArgs, {**args, "text": _text(args["text"])})
    return _print_outcome(answer, as_json) if background else _wait(home, answer.agent_id, as_json, timeout)


@agent_command.command(epilog=CODES)
@with_arguments(WaitForAgentArgs)
@_TIMEOUT
def wait(home: Home, args: dict[str, Any], as_json: bool, timeout: float | None) -> int:
    found = call_operation(home, ShowAgentArgs, args)  # nobody is waited for who is not there
    return _wait(home, found.agent_id, as_json, timeout)


def _wait(place: Home, agent: str, as_json: bool, timeout: float | None, new: AgentSnapshot | None = None) -> int:
    """Wait for an agent, across restarts of the gateway. An interrupted wait leaves the agent at work.

    The id of a `new` agent without a title is printed first, so that the user knows it.
    """
    more = {name: value for name, value in to_json(new).items() if name in PLACE} if new is not None else {}
    try:
        if new is not None and not new.title and not as_json:
            output.print_line(f"{agent} is at work", error=True, flush=True)
        look, until = RetryingCaller(control_of(place)), None if timeout is None else time.monotonic() + timeout
        while True:
            each = WAIT_S if until is None else max(min(until - time.monotonic(), WAIT_S), 0)
            answer = look(WaitForAgentArgs, {"id": agent, "timeout_s": each})
            if not answer.waited_out or (until is not None and time.monotonic() >= until):
                return _print_outcome(answer, as_json, more)
    except KeyboardInterrupt:
        output.print_line(
            f"{agent} works on: `gatepost agent attach {agent}` goes along, `gatepost agent stop {agent}` stops it",
            error=True,
        )
        return INTERRUPTED


def _print_outcome(answer: AgentSnapshot | WaitOutcome, as_json: bool, more: Mapping[str, Any] | None = None) -> int:
    """Print the agent's last message, and the reason if it failed. Return the exit code. `more`: goes into the JSON."""
    code, agent = get_exit_code(answer), answer.agent_id
    if as_json:
        output.print_json({**to_json(answer), **(more or {})})
        return code
    if isinstance(answer, WaitOutcome) and answer.permission is not None:
        output.print_line(render_waiting_agent(answer, answer.permission))
    elif answer.last_message:
        output.print_line(answer.last_message)
    elif code != FAILED:
        output.print_line(f"{agent} is {answer.status}")
    if code == FAILED:
        why = answer.last_error or "it did not say why"
        output.print_line(f"{agent} failed: {why}\n→ gatepost agent logs {agent} shows what it did", error=True)
    return code


@agent_command.command()
@_AGENT
@click.option("-f", "--follow", is_flag=True, help="Go on as it works, until it has finished.")
@click.option("-n", "last", type=NumberRange(1, 1000), help="Only the newest so many entries to begin with.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line for each entry.")
@click.pass_obj
def logs(home: str | None, agent: str, follow: bool, last: int | None, as_json: bool) -> None:
    """Print the timeline of AGENT: its actions and messages."""
    place, rows = home_of(home), TimelineRenderer()
    agent, look = call_operation(place, ShowAgentArgs, {"id": agent}).agent_id, RetryingCaller(control_of(place))
    seen: dict[str, Any] = {"after": 0, "status": "", "asked": []}
    if last is not None:
        seen |= {"after": None, "limit": last}
    while True:
        patience = WAIT_S if follow and seen["status"] in UNFINISHED else 0
        answer = look(FollowAgentArgs, {"id": agent, "timeout_s": patience, **seen})
        waiting = {each.id: each for each in answer.permissions}
        for entry in answer.entries:
            if as_json:
                output.print_json_line(make_entry_json(entry, waiting))
            elif (line := rows.render_entry(entry, waiting)) is not None:
                output.print_line(line, flush=follow)
        sys.stdout.flush()
        seen = {"after": answer.next, "status": answer.status, "asked": list(waiting)}
        if not answer.entries and not (follow and answer.status in UNFINISHED):
            break


@agent_command.command(epilog=CODES)
@_AGENT
@click.option("-n", "last", type=NumberRange(1, 1000), default=20, show_default=True, help="Entries to begin with.")
@click.option(
    "--timeout", type=click.FloatRange(min=0), help="From a pipe: wait no longer than so many seconds (exit 5)."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line for each entry.")
@click.pass_obj
def attach(home: str | None, agent: str, last: int, timeout: float | None, as_json: bool) -> int:
    """See what AGENT does as it does it, give it work and answer what it asks. /help lists what can be typed besides
    work; /detach or Ctrl-D leaves, and the agent works on.

    From a pipe every line is work (or a command), and at the end of the input it is waited for.
    """
    from gatepost.cli.agent_console import AgentConsole

    if sys.stdin is not None and not sys.stdin.isatty():
        sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]
    return AgentConsole(control_of(home_of(home)), agent, last=last, as_json=as_json, timeout=timeout).run()


@agent_command.command()
@from_operation(ShowAgentArgs)
def inspect(run: CommandRun, answer: AgentSnapshot) -> None:
    shown = to_json(answer)
    shown["availableModes"] = ", ".join(each.id for each in answer.available_modes)
    shown["labels"] = ", ".join(f"{name}={value}" for name, value in answer.labels.items())
    shown["pendingPermissions"] = "; ".join(
        f"{each.id}: {summarize_request(each)}" for each in answer.pending_permissions
    )
    del shown["notes"]  # those were for whoever made it
    output.print_table(("", ""), [(name, "-" if value in (None, "", []) else value) for name, value in shown.items()])


@agent_command.command()
@from_operation(KillAgentArgs)
def kill(run: CommandRun, answer: AgentSnapshot) -> None:
    output.print_line(f"{run.args['id']} is ended for good")


@agent_command.command()
@from_operation(ArchiveAgentArgs)
def archive(run: CommandRun, answer: AgentSnapshot) -> None:
    output.print_line(f"{run.args['id']} is put away")


@agent_command.command()
@from_operation(StopAgentArgs)
def stop(run: CommandRun, answer: StopAgentResult) -> None:
    said = "is stopped, and what waited is cancelled" if answer.stopped else "has nothing to stop"
    output.print_line(f"{answer.agent_id} {said}")


@agent_command.command()
@from_operation(SetAgentModeArgs)
def mode(run: CommandRun, answer: AgentSnapshot) -> None:
    output.print_line(f"{answer.agent_id} is in mode {answer.current_mode_id}")


@agent_command.command()
@with_arguments(AgentTokenArgs)
@click.option("--file", type=click.Path(path_type=Path, dir_okay=False), help="Write it there (mode 600).")
def token(home: Home, args: dict[str, Any], as_json: bool, file: Path | None) -> None:
    if file is None:
        answer = call_operation(home, AgentTokenArgs, args)
        output.print_json(to_json(answer)) if as_json else output.print_line(answer.token)
        return
    with make_private_file("--file", file) as out:  # first of all: a new token ends the one before
        answer = call_operation(home, AgentTokenArgs, args)
        out.write(answer.token.encode() + b"\n")
    url = f"unix:{listen_address.find_control_path(home)}:/mcp/self"
    shown = {"agentId": answer.agent_id, "file": str(file.absolute()), "url": url}
    if as_json:
        output.print_json(shown)
        return
    output.print_line(f"{shown['file']} is the token of {shown['agentId']}; as an MCP server of its own it runs:")
    output.print_line(f"  gatepost bridge --url {shlex.quote(url)} --token-file {shlex.quote(shown['file'])}")


@agent_command.command()
@click.argument("provider", required=False)
@_JSON
@click.pass_obj
def models(home: str | None, provider: str | None, as_json: bool) -> None:
    """The models of PROVIDER, its default first, in USD for a million tokens. Without one: the providers, and what each
    lacks."""
    if provider is None:
        _print_providers(call_operation(home_of(home), ListProvidersArgs, {}), as_json)
    else:
        _print_models(call_operation(home_of(home), ListModelsArgs, {"provider": provider}), as_json)


def _print_providers(found: list[ProviderInfo], as_json: bool) -> None:
    if as_json:
        output.print_json(to_json(found))
        return
    output.print_records(ProviderInfo, found)


def _print_models(found: list[ModelInfo], as_json: bool) -> None:
    if as_json:
        output.print_json(to_json(found))
        return
    output.print_records(ModelInfo, found)


@click.group()
def connector_command() -> None:
    """Third-party MCP servers that the host runs: [connectors.NAME] in gatepost.toml declares them.

    Tools that a server adds or tells of in other words are not offered to agents until you accept them.
    """


@connector_command.command("list")
@from_operation(ListConnectorsArgs)
def list_connectors(run: CommandRun, found: list[ConnectorItem]) -> None:
    own = {"tools": lambda each: len(each.tools) or "none known; restart the gateway"}
    output.print_records(ConnectorItem, found, own, empty="no connector is declared")


@connector_command.command("check")
@from_operation(CheckConnectorArgs)
def check_connector(run: CommandRun, found: ConnectorCheck) -> None:
    output.print_line(found.trouble or f"{found.name} has {len(found.tools)} tools")


@connector_command.command("changes")
@from_operation(ListConnectorChangesArgs)
def list_connector_changes(run: CommandRun, found: list[ConnectorChanges]) -> None:
    if not found:
        output.print_line("nothing waits to be accepted")
    for each in found:
        for tool in each.tools:
            output.print_line(f"{each.name}: {tool.tool} is {'new' if tool.new else 'answer of in other words'}")
            for line in tool.lines:
                output.print_line(f"  {line}")
        output.print_line(f"To accept all of it: gatepost connector accept {each.name} --digest {each.digest}")


@connector_command.command("accept")
@from_operation(AcceptConnectorToolsArgs)
def accept_connector_tools(run: CommandRun, done: AcceptedTools) -> None:
    output.print_line(f"{done.name}: accepted {', '.join(done.tools)}")
