"""`gatepost worktree`: copies of your repositories that agents work in."""

import sys
from pathlib import Path
from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.operation_runner import absolute, get_worktree_timeout, home_of, run_operation
from gatepost.core.errors import Invalid

_JSON = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
_WORKTREE = click.argument("worktree")


@click.group()
def command() -> None:
    """Copies of your repositories that agents work in.

    \b
    gatepost worktree create fix-login --from ~/code/shop --base main
    gatepost agent run "fix the login" --cwd "$(gatepost worktree path fix-login)"
    gatepost worktree save fix-login      # what it did, for `git fetch`
    gatepost worktree archive fix-login

    Each is a clone of its own: nothing that is done in it reaches your repository. git and the setup run in the
    sandbox. The repository must lie in a folder of sandbox.mounts_allowed. WORKTREE is a name or a path. Needs a
    running gateway.
    """


@command.command()
@click.argument("name", required=False, default="")
@click.option(
    "--from",
    "source",
    required=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The repository.",
)
@click.option("--base", default="", help="The branch that the new one begins from (default: its current one).")
@click.option("--branch", default="", help="A branch that there is, instead of a new one.")
@click.option("--pr", type=click.IntRange(min=1), help="A pull request, instead of either.")
@click.option("--folder", default="", help="The group in whose sandboxes git and the setup run (default: agents).")
@_JSON
@click.pass_obj
def create(
    home: str | None, name: str, source: Path, base: str, branch: str, pr: int | None, folder: str, as_json: bool
) -> int:
    """Make a worktree on a new branch NAME, on a branch that there is, or on a pull request."""
    if not name and not branch and not pr:
        raise Invalid("NAME", "say the name of a new branch, or --branch or --pr")
    if name and (branch or pr):
        raise Invalid("NAME", "is for a new branch; with --branch or --pr the worktree is named after that")
    given = {"source": absolute(source), "name": name, "base": base, "branch": branch}
    return _print_worktree(
        _run_in_worktree(home, "worktree.create", {**given, "pr": pr or 0, "folder": folder}), as_json
    )


@command.command("ls")
@click.option("--all", "archived", is_flag=True, help="The archived ones, too.")
@_JSON
@click.pass_obj
def list_worktrees(home: str | None, archived: bool, as_json: bool) -> None:
    """List them, the newest first."""
    found = run_operation(home_of(home), "worktree.list", {"archived": archived})
    if as_json:
        output.print_json(found)
        return
    rows = [(each["name"], each["branchName"], each["state"], each["setupState"], each["source"]) for each in found]
    output.print_table(("worktree", "branch", "state", "setup", "from"), rows, empty="there are no worktrees")


@command.command("show")
@_WORKTREE
@_JSON
@click.pass_obj
def show_one(home: str | None, worktree: str, as_json: bool) -> None:
    """Where it lies, which branch it is on, what its setup said, and what was saved of it. Of an archived one, too."""
    _print_worktree(run_operation(home_of(home), "worktree.show", {"name": worktree, "archived": True}), as_json)


@command.command()
@_WORKTREE
@click.pass_obj
def path(home: str | None, worktree: str) -> None:
    """Print its folder, and nothing else."""
    output.print_line(run_operation(home_of(home), "worktree.show", {"name": worktree})["worktreePath"])


@command.command()
@_WORKTREE
@click.option("--yes", is_flag=True, help="Do not ask.")
@_JSON
@click.pass_obj
def trust(home: str | None, worktree: str, yes: bool, as_json: bool) -> int:
    """Let the repository's setup run: shows its commands, asks, runs them, and from then on runs exactly these in every
    worktree of that repository."""
    found = run_operation(home_of(home), "worktree.show", {"name": worktree})
    if not yes and not _confirm_setup(found):
        output.print_line("not trusted; nothing was run", error=True)
        return 1
    return _print_worktree(_run_in_worktree(home, "worktree.trust", {"name": found["name"]}), as_json)


@command.command()
@_WORKTREE
@_JSON
@click.pass_obj
def setup(home: str | None, worktree: str, as_json: bool) -> int:
    """Run its trusted setup again."""
    return _print_worktree(_run_in_worktree(home, "worktree.setup", {"name": worktree}), as_json)


@command.command()
@_WORKTREE
@_JSON
@click.pass_obj
def save(home: str | None, worktree: str, as_json: bool) -> None:
    """Bundle what was done in it: its new commits, and what is not committed yet. Of an archived one: where its bundle
    is."""
    told = _run_in_worktree(home, "worktree.save", {"name": worktree})
    if as_json:
        output.print_json(told)
        return
    gone = told["state"] == "archived"
    if told["bundle"] is None:
        name = told["name"]
        output.print_line(
            f"{name} was put away, and nothing of it saved" if gone else f"nothing was done in {name} yet"
        )
    else:
        output.print_line(f"{told['name']} was put away; its bundle:" if gone else f"saved: {told['contents']}")
        _print_bundle_commands(told)
    if told["left"]:
        output.print_line(f"not saved: {told['left']}", error=True)


@command.command()
@_WORKTREE
@click.option("--discard", is_flag=True, help="Throw away what was done in it, instead of saving it.")
@_JSON
@click.pass_obj
def archive(home: str | None, worktree: str, discard: bool, as_json: bool) -> None:
    """Put it away, with the agents that work in it. What was done in it is saved as a bundle first; what git ignores is
    not."""
    told = _run_in_worktree(home, "worktree.archive", {"name": worktree, "discard": discard})
    if as_json:
        output.print_json(told)
        return
    if discard:
        output.print_line(f"{told['name']} is put away; what was done in it is thrown away")
    elif told["bundle"] is None:
        output.print_line(f"{told['name']} is put away; there was nothing to save")
    else:
        output.print_line(f"{told['name']} is put away; saved: {told['contents']}")
        _print_bundle_commands(told)
    if told["trouble"]:
        output.print_line(told["trouble"], error=True)


def _run_in_worktree(home: str | None, name: str, given: dict[str, Any]) -> Any:
    place = home_of(home)
    return run_operation(place, name, given, timeout=get_worktree_timeout(place))


def _confirm_setup(found: dict[str, Any]) -> bool:
    """Everything that is trusted is seen before, whoever reads the answer: what is asked is no part of it."""
    if not found["setup"] and not found["teardown"]:
        return True  # to nothing: the gateway says why there is none
    for title, commands in (("Setup", found["setup"]), ("When it is archived", found["teardown"])):
        if commands:
            output.print_line(f"{title}:", error=True)
        for each in commands:
            output.print_line("  $ " + each.replace("\n", "\n    "), error=True)
    try:
        return click.confirm("Run this in its sandbox, now and in every worktree of this repository?", err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        output.print_line("", error=True)
        raise Invalid("--yes", "is needed where nobody can be asked") from None


def _print_bundle_commands(told: dict[str, Any]) -> None:
    output.print_line(f"take it into your repository, and look at it there:\n  {told['fetch']}\n  {told['look']}")


def _print_worktree(told: dict[str, Any], as_json: bool) -> int:
    """As it stands; 1 if its setup failed."""
    if as_json:
        output.print_json(told)
    else:
        gone = told["state"] == "archived"
        output.print_line(f"{told['name']}  " + (f"put away at {told['archivedAt']}" if gone else told["worktreePath"]))
        began = "" if told["base"] == told["branchName"] else f", from {told['base']}"
        output.print_line(f"branch {told['branchName']}{began} of {told['source']}")
        if not gone:
            _print_setup(told)
        if told["bundle"] is not None:
            output.print_line(f"what was saved of it is in {told['bundle']}")
            _print_bundle_commands(told)
        elif gone:
            output.print_line("nothing of it was saved")
    return 1 if told["setupState"] == "failed" else 0


def _print_setup(told: dict[str, Any]) -> None:
    state, said = told["setupState"], told["setupOutput"]
    if state == "unreadable":
        output.print_line(f"setup: cannot be read: {said}; mend that in the repository and make another worktree")
        return
    if state in ("none", "untrusted", "trusted") and said:
        output.print_line(f"setup: {said}")
    if state == "untrusted":
        output.print_line("its setup was not run: nobody has trusted it yet; look at it and run it:")
        output.print_line(f"  gatepost worktree trust {told['name']}")
    elif state == "trusted":
        output.print_line("its setup was not run yet; run it:")
        output.print_line(f"  gatepost worktree setup {told['name']}")
    elif state != "none":
        output.print_line(f"setup: {state}\n{said}".rstrip())
