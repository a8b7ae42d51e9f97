"""`gatepost agent`: agents that work for you, without a chat."""

import os
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import click

from gatepost.cli import output
from gatepost.cli.exit_codes import CODES, FAILED, get_exit_code
from gatepost.cli.operation_runner import absolute, control_of, get_worktree_timeout, home_of, run_operation
from gatepost.cli.program import INTERRUPTED
from gatepost.core import listen_address
from gatepost.core.errors import Invalid
from gatepost.core.home import Home
from gatepost.serve.control.client import TIMEOUT_S

BUSY = ("initializing", "running", "interrupted")
WAIT_S = 50.0  # one request of a longer wait
_JSON = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
_AGENT = click.argument("agent")
_TIMEOUT = click.option("--timeout", type=click.FloatRange(min=0), help="Wait no longer than so many seconds (exit 5).")
PLACE = ("cwd", "worktree", "setupState", "notes")  # told of a new one besides what became of it


@click.group()
def command() -> None:
    """Agents that work for you, without a chat. Each runs in a sandbox of its own, as all agents do.

    \b
    gatepost agent run "sum up the report in inbox/" --title Report
    gatepost agent ls
    gatepost agent send Report "now in one sentence"
    gatepost agent attach Report

    AGENT is an id, the beginning of one, or a title. Needs a running gateway. An agent is in the group of --folder, or
    in `agents`, which runs on what `gatepost connect` connected; its files are in groups/agents/ of the data folder.
    """


@command.command(epilog=CODES)
@click.argument("prompt", required=False)
@click.option("--title", default="", help="What it is called.")
@click.option("--folder", default="", help="The group whose rights, files and budget it has (default: agents).")
@click.option(
    "--provider",
    default="",
    help="As `gatepost connect` lists them (default: the group's; for the group agents, that of home).",
)
@click.option("--model", default="", help="The provider's own if left out; `gatepost agent models` lists them.")
@click.option("--mode", default="", help="When it asks before it acts; `gatepost agent inspect` shows the modes.")
@click.option("--cwd", default="", help="Where it starts: a worktree, or a folder of sandbox.mounts_allowed (:rw).")
@click.option("--worktree", default="", metavar="NAME", help="Make a worktree of the repository --cwd, on this branch.")
@click.option("--base", default="", help="The branch that the worktree begins from.")
@click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", help="To find it by; may be given again.")
@click.option("--background", "-d", is_flag=True, help="Return at once.")
@_TIMEOUT
@_JSON
@click.pass_obj
def run(
    home: str | None,
    /,
    prompt: str | None,
    labels: tuple[str, ...],
    background: bool,
    timeout: float | None,
    as_json: bool,
    **more: str,
) -> int:
    """Make an agent, give it PROMPT (or what stands on stdin), and wait for its answer. Without either it waits for
    work."""
    place = home_of(home)
    if prompt is not None and not prompt.strip():
        raise Invalid("PROMPT", "is empty; leave it out for an agent that waits for work")
    if more["worktree"] and not (more["cwd"] and more["base"]):
        missing = "--base" if more["cwd"] else "--cwd"
        raise Invalid(
            missing, "is missing: a worktree is made of a repository (--cwd), from one of its branches (--base)"
        )
    if more["base"] and not more["worktree"]:
        raise Invalid("--base", "is where a new worktree begins; name that with --worktree")
    if more["cwd"]:
        more["cwd"] = absolute(Path(more["cwd"]))
    nothing = prompt is None and (sys.stdin is None or sys.stdin.isatty())
    text = "" if nothing else _text("-" if prompt is None else prompt)
    given = {"prompt": text, "labels": dict(map(_label, labels)), **more}
    made = run_operation(
        place, "agent.create", given, timeout=get_worktree_timeout(place) if more["worktree"] else TIMEOUT_S
    )
    if more["worktree"] and not as_json:
        output.print_line(f"it works in {made['cwd']}", error=True)
    for note in () if as_json else made["notes"]:
        output.print_line(note, error=True)
    if background or not text:
        return _print_outcome(made, as_json)
    return _wait(place, made["agentId"], as_json, timeout, made)


def _text(given: str) -> str:
    """As it stands, or all of stdin for `-`."""
    if given != "-":
        return given
    try:
        return sys.stdin.buffer.read().decode().removesuffix("\n") if sys.stdin is not None else ""
    except UnicodeDecodeError:
        raise Invalid("stdin", "is no text in UTF-8") from None


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise Invalid("--label", f"{text!r} is not NAME=VALUE")
    return name, value


@command.command("ls")
@click.option("--all", "archived", is_flag=True, help="The archived ones, too.")
@_JSON
@click.pass_obj
def list_agents(home: str | None, archived: bool, as_json: bool) -> None:
    """List them: those that wait for an answer first, then those at work, then the rest, the latest first."""
    found = run_operation(home_of(home), "agent.list", {"archived": archived})
    if as_json:
        output.print_json(found)
        return
    rows = [
        (each["agentId"], each["title"] or "-", _status(each), each["type"], each["folder"], each["currentModeId"])
        for each in found
    ]
    output.print_table(("agent", "title", "status", "provider", "group", "mode"), rows, empty="there are no agents")


def _status(agent: dict[str, Any]) -> str:
    asks = ", asks" if agent["pendingPermissions"] else ""
    return f"{agent['status']}{asks}{', archived' if agent['archivedAt'] else ''}"


@command.command(epilog=CODES)
@_AGENT
@click.argument("prompt")
@click.option(
    "--policy",
    type=click.Choice(("queue", "steer", "interrupt")),
    default="queue",
    show_default=True,
    help="After what runs, into it, or in the place of it and of what waits.",
)
@click.option("--background", "-d", is_flag=True, help="Return at once.")
@_TIMEOUT
@_JSON
@click.pass_obj
def send(
    home: str | None, agent: str, prompt: str, policy: str, background: bool, timeout: float | None, as_json: bool
) -> int:
    """Give AGENT more to do (PROMPT, or with - what stands on stdin), and wait for its answer."""
    place = home_of(home)
    told = run_operation(place, "agent.prompt", {"id": agent, "text": _text(prompt), "policy": policy})
    return _print_outcome(told, as_json) if background else _wait(place, told["agentId"], as_json, timeout)


@command.command(epilog=CODES)
@_AGENT
@_TIMEOUT
@_JSON
@click.pass_obj
def wait(home: str | None, agent: str, timeout: float | None, as_json: bool) -> int:
    """Wait until AGENT has finished, or asks something."""
    place = home_of(home)
    found = run_operation(place, "agent.show", {"id": agent})  # nobody is waited for who is not there
    return _wait(place, found["agentId"], as_json, timeout)


def _wait(place: Home, agent: str, as_json: bool, timeout: float | None, new: dict[str, Any] | None = None) -> int:
    """Across restarts of the gateway. Whoever has enough of waiting leaves the agent at work, and knows its name: a
    `new` one without a title is named before."""
    more = {name: new[name] for name in PLACE} if new is not None else {}
    try:
        if new is not None and not new["title"] and not as_json:
            output.print_line(f"{agent} is at work", error=True, flush=True)
        from gatepost.cli.gateway_retry import RetryingCaller

        look, until = RetryingCaller(control_of(place)), None if timeout is None else time.monotonic() + timeout
        while True:
            each = WAIT_S if until is None else max(min(until - time.monotonic(), WAIT_S), 0)
            told = look("agent.wait", {"id": agent, "timeout_s": each})
            if not told["waitedOut"] or (until is not None and time.monotonic() >= until):
                return _print_outcome({**told, **more}, as_json)
    except KeyboardInterrupt:
        output.print_line(
            f"{agent} works on: `gatepost agent attach {agent}` goes along, `gatepost agent stop {agent}` stops it",
            error=True,
        )
        return INTERRUPTED


def _print_outcome(told: dict[str, Any], as_json: bool) -> int:
    """What it said is the answer; why it failed stands beside it."""
    from gatepost.cli.timeline_renderer import render_waiting_agent

    code, agent = get_exit_code(told), told["agentId"]
    if as_json:
        output.print_json(told)
        return code
    if told.get("permission"):
        output.print_line(render_waiting_agent(told))
    elif told.get("lastMessage"):
        output.print_line(told["lastMessage"])
    elif code != FAILED:
        output.print_line(f"{agent} is {told['status']}")
    if code == FAILED:
        why = told.get("lastError") or "it did not say why"
        output.print_line(f"{agent} failed: {why}\n→ gatepost agent logs {agent} shows what it did", error=True)
    return code


@command.command()
@_AGENT
@click.option("-f", "--follow", is_flag=True, help="Go on as it works, until it has finished.")
@click.option("-n", "last", type=click.IntRange(1, 1000), help="Only the newest so many entries to begin with.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line for each entry.")
@click.pass_obj
def logs(home: str | None, agent: str, follow: bool, last: int | None, as_json: bool) -> None:
    """What AGENT did and said."""
    from gatepost.cli.gateway_retry import RetryingCaller
    from gatepost.cli.timeline_renderer import TimelineRenderer, with_input

    place, rows = home_of(home), TimelineRenderer()
    agent, look = run_operation(place, "agent.show", {"id": agent})["agentId"], RetryingCaller(control_of(place))
    seen: dict[str, Any] = {"after": 0, "status": "", "asked": []}
    if last is not None:
        seen |= {"after": None, "limit": last}
    while True:
        patience = WAIT_S if follow and seen["status"] in BUSY else 0
        told = look("agent.follow", {"id": agent, "timeout_s": patience, **seen})
        waiting = {each["id"]: each for each in told["permissions"]}
        for entry in told["entries"]:
            if as_json:
                output.print_json_line(with_input(entry, waiting))
            elif (line := rows.render_entry(entry, waiting)) is not None:
                output.print_line(line, flush=follow)
        sys.stdout.flush()
        seen = {"after": told["next"], "status": told["status"], "asked": list(waiting)}
        if not told["entries"] and not (follow and told["status"] in BUSY):
            break


@command.command(epilog=CODES)
@_AGENT
@click.option("-n", "last", type=click.IntRange(1, 1000), default=20, show_default=True, help="Entries to begin with.")
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


@command.command()
@_AGENT
@_JSON
@click.pass_obj
def inspect(home: str | None, agent: str, as_json: bool) -> None:
    """Everything about AGENT."""
    from gatepost.cli.timeline_renderer import summarize_request

    told = run_operation(home_of(home), "agent.show", {"id": agent})
    if as_json:
        output.print_json(told)
        return
    modes = ", ".join(each["id"] for each in told["availableModes"])
    shown = {**told, "availableModes": modes, "labels": ", ".join(f"{k}={v}" for k, v in told["labels"].items())}
    shown["pendingPermissions"] = "; ".join(
        f"{each['id']}: {summarize_request(each)}" for each in told["pendingPermissions"]
    )
    del shown["notes"]  # those were for whoever made it
    output.print_table(("", ""), [(name, "-" if value in (None, "", []) else value) for name, value in shown.items()])


def _add_command(name: str, operation: str, about: str, said: str) -> None:
    @command.command(name, help=about)
    @_AGENT
    @_JSON
    @click.pass_obj
    def do(home: str | None, agent: str, as_json: bool) -> None:
        told = run_operation(home_of(home), operation, {"id": agent})
        output.print_json(told) if as_json else output.print_line(said.format(**told, agent=agent))


_add_command("kill", "agent.kill", "End AGENT for good; what it did and said stays.", "{agent} is ended for good")
_add_command("archive", "agent.archive", "Put AGENT away until it is given work again.", "{agent} is put away")


@command.command()
@_AGENT
@_JSON
@click.pass_obj
def stop(home: str | None, agent: str, as_json: bool) -> None:
    """End what AGENT does now, and cancel what waits behind it; it takes further work."""
    told = run_operation(home_of(home), "agent.stop", {"id": agent})
    if as_json:
        output.print_json(told)
        return
    said = "is stopped, and what waited is cancelled" if told["stopped"] else "has nothing to stop"
    output.print_line(f"{told['agentId']} {said}")


@command.command()
@_AGENT
@click.argument("mode")
@_JSON
@click.pass_obj
def mode(home: str | None, agent: str, mode: str, as_json: bool) -> None:
    """Change when AGENT asks before it acts, from its next turn on."""
    told = run_operation(home_of(home), "agent.mode", {"id": agent, "mode": mode})
    output.print_json(told) if as_json else output.print_line(f"{told['agentId']} is in mode {told['currentModeId']}")


@command.command()
@_AGENT
@click.option("--file", type=click.Path(path_type=Path, dir_okay=False), help="Write it there (mode 600).")
@_JSON
@click.pass_obj
def token(home: str | None, agent: str, file: Path | None, as_json: bool) -> None:
    """Make a token by which AGENT is known at /mcp/self, where it sets its title and branch. The one before counts no
    more. An agent in a sandbox of ours needs none: it is known by its socket."""
    if file is None:
        told = run_operation(home_of(home), "agent.token", {"id": agent})
        output.print_json(told) if as_json else output.print_line(told["token"])
        return
    with _new_file(file) as out:  # first of all: a new token ends the one before
        told = run_operation(home_of(home), "agent.token", {"id": agent})
        out.write(told["token"] + "\n")
    url = f"unix:{listen_address.find_control_path(home_of(home))}:/mcp/self"
    shown = {"agentId": told["agentId"], "file": str(file.absolute()), "url": url}
    if as_json:
        output.print_json(shown)
        return
    output.print_line(f"{shown['file']} is the token of {shown['agentId']}; as an MCP server of its own it runs:")
    output.print_line(f"  gatepost bridge --url {shlex.quote(url)} --token-file {shlex.quote(shown['file'])}")


@contextmanager
def _new_file(path: Path) -> Iterator[TextIO]:
    """For nobody else to read; gone again if nothing came of it."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        raise Invalid("--file", f"{path} is there already; name another, or remove it") from None
    except OSError as error:
        raise Invalid("--file", f"{path} cannot be made: {error.strerror}") from None
    try:
        with os.fdopen(handle, "w") as out:
            yield out
    except BaseException:
        path.unlink()
        raise


@command.command()
@click.argument("provider", required=False)
@_JSON
@click.pass_obj
def models(home: str | None, provider: str | None, as_json: bool) -> None:
    """The models of PROVIDER, its default first, in USD for a million tokens. Without one: the providers, and what each
    lacks."""
    place = home_of(home)
    name, args = ("agent.models", {"provider": provider}) if provider is not None else ("agent.providers", {})
    found = run_operation(place, name, args)
    if as_json:
        output.print_json(found)
    elif provider is not None:
        rows = [(each["id"], "default" if each["isDefault"] else "-", *_prices(each)) for each in found]
        output.print_table(("model", "", "input", "output", "cache read", "cache write"), rows)
    else:
        rows = [(each["id"], each["ready"], each["defaultModel"] or "its own", each["reason"] or "-") for each in found]
        output.print_table(("provider", "ready", "default model", "what it lacks"), rows)


def _prices(model: dict[str, Any]) -> tuple[str, ...]:
    return tuple(f"{model[name]:g}" for name in ("input", "output", "cacheRead", "cacheWrite"))
