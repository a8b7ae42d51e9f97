"""`gatepost worktree`: copies of your repositories that agents work in."""

import sys
from pathlib import Path
from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, call_operation, from_operation
from gatepost.cli.operation_runner import absolute, get_worktree_timeout
from gatepost.core.errors import Invalid
from gatepost.core.home import Home
from gatepost.serve.control.arguments.worktrees import (
    ArchiveWorktreeArgs,
    BundleResult,
    CreateWorktreeArgs,
    ListWorktreesArgs,
    SaveWorktreeArgs,
    SaveWorktreeResult,
    SetUpWorktreeArgs,
    ShowWorktreeArgs,
    TrustWorktreeArgs,
    WorktreeDetails,
    WorktreeRemoval,
)
from gatepost.store.sessions.worktrees import SetupState, WorktreeState


@click.group()
def worktree_command() -> None:
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


def _check_new(home: Home, args: dict[str, Any]) -> dict[str, Any]:
    if not args["name"] and not args["branch"] and not args["pr"]:
        raise Invalid("NAME", "say the name of a new branch, or --branch or --pr")
    if args["name"] and (args["branch"] or args["pr"]):
        raise Invalid("NAME", "is for a new branch; with --branch or --pr the worktree is named after that")
    source = click.Path(exists=True, file_okay=False).convert(args["source"], None, click.get_current_context())
    return {**args, "source": absolute(Path(str(source)))}


def _get_setup_code(worktree: WorktreeDetails) -> int:
    return 1 if worktree.setup_state == SetupState.FAILED else 0


def print_worktree(run: CommandRun, worktree: WorktreeDetails) -> None:
    gone = worktree.state == WorktreeState.ARCHIVED
    place = f"put away at {worktree.archived_at}" if gone else worktree.worktree_path
    output.print_line(f"{worktree.name}  {place}")
    began = "" if worktree.base == worktree.branch_name else f", from {worktree.base}"
    output.print_line(f"branch {worktree.branch_name}{began} of {worktree.source}")
    if not gone:
        _print_setup(worktree)
    if worktree.bundle is not None:
        output.print_line(f"what was saved of it is in {worktree.bundle}")
        _print_bundle_commands(worktree)
    elif gone:
        output.print_line("nothing of it was saved")


worktree_command.command("create")(
    from_operation(CreateWorktreeArgs, prepare=_check_new, timeout=get_worktree_timeout, exit_code=_get_setup_code)(
        print_worktree
    )
)
worktree_command.command("show")(from_operation(ShowWorktreeArgs, archived=True)(print_worktree))
worktree_command.command("setup")(
    from_operation(SetUpWorktreeArgs, timeout=get_worktree_timeout, exit_code=_get_setup_code)(print_worktree)
)


@worktree_command.command("ls")
@from_operation(ListWorktreesArgs)
def list_worktrees(run: CommandRun, found: list[WorktreeDetails]) -> None:
    output.print_records(WorktreeDetails, found, empty="there are no worktrees")


@worktree_command.command()
@from_operation(ShowWorktreeArgs, archived=False)
def path(run: CommandRun, worktree: WorktreeDetails) -> None:
    """Print its folder, and nothing else."""
    output.print_line(worktree.worktree_path)


def _confirm_trust(home: Home, args: dict[str, Any], yes: bool) -> dict[str, Any]:
    found = call_operation(home, ShowWorktreeArgs, args)
    if not yes and not _confirm_setup(found):
        output.print_line("not trusted; nothing was run", error=True)
        raise click.exceptions.Exit(1)
    return {"name": found.name}


@worktree_command.command()
@from_operation(TrustWorktreeArgs, prepare=_confirm_trust, timeout=get_worktree_timeout, exit_code=_get_setup_code)
@click.option("--yes", is_flag=True, help="Do not ask.")
def trust(run: CommandRun, worktree: WorktreeDetails, yes: bool) -> None:
    print_worktree(run, worktree)


@worktree_command.command()
@from_operation(SaveWorktreeArgs, timeout=get_worktree_timeout)
def save(run: CommandRun, saved: SaveWorktreeResult) -> None:
    gone = saved.state == WorktreeState.ARCHIVED
    if saved.bundle is None:
        name = saved.name
        output.print_line(
            f"{name} was put away, and nothing of it saved" if gone else f"nothing was done in {name} yet"
        )
    else:
        output.print_line(f"{saved.name} was put away; its bundle:" if gone else f"saved: {saved.contents}")
        _print_bundle_commands(saved)
    if saved.left:
        output.print_line(f"not saved: {saved.left}", error=True)


@worktree_command.command()
@from_operation(ArchiveWorktreeArgs, timeout=get_worktree_timeout)
def archive(run: CommandRun, done: WorktreeRemoval) -> None:
    if run.args["discard"]:
        output.print_line(f"{done.name} is put away; what was done in it is thrown away")
    elif done.bundle is None:
        output.print_line(f"{done.name} is put away; there was nothing to save")
    else:
        output.print_line(f"{done.name} is put away; saved: {done.contents}")
        _print_bundle_commands(done)
    if done.trouble:
        output.print_line(done.trouble, error=True)


def _confirm_setup(found: WorktreeDetails) -> bool:
    """Everything that is trusted is seen before, whoever reads the answer: what is asked is no part of it."""
    if not found.setup and not found.teardown:
        return True  # to nothing: the gateway says why there is none
    for title, commands in (("Setup", found.setup), ("When it is archived", found.teardown)):
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


def _print_bundle_commands(worktree: WorktreeDetails | BundleResult) -> None:
    output.print_line(f"take it into your repository, and look at it there:\n  {worktree.fetch}\n  {worktree.look}")


def _print_setup(worktree: WorktreeDetails) -> None:
    state, said = worktree.setup_state, worktree.setup_output
    if state == SetupState.UNREADABLE:
        output.print_line(f"setup: cannot be read: {said}; mend that in the repository and make another worktree")
        return
    if state in (SetupState.NONE, SetupState.UNTRUSTED, SetupState.TRUSTED) and said:
        output.print_line(f"setup: {said}")
    if state == SetupState.UNTRUSTED:
        output.print_line("its setup was not run: nobody has trusted it yet; look at it and run it:")
        output.print_line(f"  gatepost worktree trust {worktree.name}")
    elif state == SetupState.TRUSTED:
        output.print_line("its setup was not run yet; run it:")
        output.print_line(f"  gatepost worktree setup {worktree.name}")
    elif state != SetupState.NONE:
        output.print_line(f"setup: {state}\n{said}".rstrip())
