"""`gatepost worktree`: copies of your repositories that agents work in."""

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from gatepost.cli import show
from gatepost.cli.operate import absolute, errand_s, home_of, operate
from gatepost.core.errors import Invalid

_JSON = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
_WORKTREE = click.argument("worktree")


@click.group()
def command() -> None:
    """Copies of your repositories that agents work in.

    \b
    gatepost worktree create fix-login --from ~/code/shop --base main
    gatepost agent run "fix the login" --cwd "$(gatepost worktree path fix-login)"
    gatepost worktree save fix-login      # its commits, for `git fetch`
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
    return _tell(_at_work(home, "worktree.create", {**given, "pr": pr or 0, "folder": folder}), as_json)


@command.command("ls")
@click.option("--all", "archived", is_flag=True, help="The archived ones, too.")
@_JSON
@click.pass_obj
def list_worktrees(home: str | None, archived: bool, as_json: bool) -> None:
    """List them, the newest first."""
    found = operate(home_of(home), "worktree.list", {"archived": archived})
    if as_json:
        show.as_json(found)
        return
    rows = [(each["name"], each["branchName"], each["state"], each["setupState"], each["source"]) for each in found]
    show.table(("worktree", "branch", "state", "setup", "from"), rows, empty="there are no worktrees")


@command.command("show")
@_WORKTREE
@_JSON
@click.pass_obj
def show_one(home: str | None, worktree: str, as_json: bool) -> int:
    """Where it lies, which branch it is on, and what its setup said."""
    return _tell(operate(home_of(home), "worktree.show", {"name": worktree}), as_json)


@command.command()
@_WORKTREE
@click.pass_obj
def path(home: str | None, worktree: str) -> None:
    """Print its folder, and nothing else."""
    show.say(operate(home_of(home), "worktree.show", {"name": worktree})["worktreePath"])


@command.command()
@_WORKTREE
@click.option("--yes", is_flag=True, help="Do not ask.")
@_JSON
@click.pass_obj
def trust(home: str | None, worktree: str, yes: bool, as_json: bool) -> int:
    """Let the repository's setup run: shows its commands, asks, runs them, and from then on runs exactly these in every
    worktree of that repository."""
    found = operate(home_of(home), "worktree.show", {"name": worktree})
    if not yes and not _agrees(found):
        show.say("nothing was trusted, and nothing run", error=True)
        return 1
    return _tell(_at_work(home, "worktree.trust", {"name": found["name"]}), as_json)


@command.command()
@_WORKTREE
@_JSON
@click.pass_obj
def setup(home: str | None, worktree: str, as_json: bool) -> int:
    """Run its trusted setup again."""
    return _tell(_at_work(home, "worktree.setup", {"name": worktree}), as_json)


@command.command()
@_WORKTREE
@_JSON
@click.pass_obj
def save(home: str | None, worktree: str, as_json: bool) -> None:
    """Bundle what was done in it: its new commits, and what is not committed yet."""
    told = _at_work(home, "worktree.save", {"name": worktree})
    if as_json:
        show.as_json(told)
    elif told["bundle"] is None:
        show.say(f"nothing was done in {told['name']} yet")
    else:
        show.say(_how_to_fetch(told["bundle"]))
    if told["left"] and not as_json:
        show.say(f"not saved: {told['left']}", error=True)


@command.command()
@_WORKTREE
@click.option("--discard", is_flag=True, help="Throw away what was done in it, instead of saving it.")
@_JSON
@click.pass_obj
def archive(home: str | None, worktree: str, discard: bool, as_json: bool) -> None:
    """Put it away, with the agents that work in it. What was done in it is saved as a bundle first; what git ignores is
    not."""
    told = _at_work(home, "worktree.archive", {"name": worktree, "discard": discard})
    if as_json:
        show.as_json(told)
        return
    show.say(f"{told['name']} is put away")
    if told["trouble"]:
        show.say(told["trouble"], error=True)
    if told["bundle"] is not None:
        show.say(_how_to_fetch(told["bundle"]))


def _at_work(home: str | None, name: str, given: dict[str, Any]) -> Any:
    place = home_of(home)
    return operate(place, name, given, timeout=errand_s(place))


def _agrees(found: dict[str, Any]) -> bool:
    """Everything that is trusted is seen before, whoever reads the answer: what is asked is no part of it."""
    if not found["setup"] and not found["teardown"]:
        raise Invalid("worktree", f"{found['name']} has no setup: there is none in its .gatepost.toml")
    for title, commands in (("Setup", found["setup"]), ("When it is archived", found["teardown"])):
        if commands:
            show.say(f"{title}:", error=True)
        for each in commands:
            show.say("  $ " + each.replace("\n", "\n    "), error=True)
    try:
        return click.confirm("Run this in its sandbox, now and in every worktree of this repository?", err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        show.say("", error=True)
        raise Invalid("--yes", "is needed where nobody can be asked") from None


def _how_to_fetch(bundle: str) -> str:
    """Without tags: those of the bundle would be taken for the operator's own."""
    return f"saved; take it into your repository:\n  git fetch --no-tags {shlex.quote(bundle)} '+refs/*:refs/agents/*'"


def _tell(told: dict[str, Any], as_json: bool) -> int:
    """As it stands; 1 if its setup failed."""
    if as_json:
        show.as_json(told)
    else:
        show.say(f"{told['name']}  {told['worktreePath']}")
        show.say(f"branch {told['branchName']}, from {told['base']} of {told['source']}")
        if told["setupState"] == "untrusted":
            show.say("its setup was not run: nobody has trusted it yet; look at it and run it:")
            show.say(f"  gatepost worktree trust {told['name']}")
        elif told["setupState"] == "trusted":
            show.say("its setup was not run yet; run it:")
            show.say(f"  gatepost worktree setup {told['name']}")
        elif told["setupState"] != "none":
            show.say(f"setup: {told['setupState']}\n{told['setupOutput']}".rstrip())
    return 1 if told["setupState"] == "failed" else 0
