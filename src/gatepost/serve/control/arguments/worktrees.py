"""Managed worktrees: copies of repositories that agents work in."""

from typing import Annotated, Any

from gatepost.serve.control.declaration import OperationArgs, argument, declares, option

READ, WRITE = "worktrees.read", "worktrees.write"
Archived = Annotated[bool, option("The archived ones, too.", "all")]


class WorktreeArgs(OperationArgs[Any], frozen=True):
    name: Annotated[str, argument("Its name or path.", "worktree")]


@declares("worktree.create", right=WRITE, offline=False, of_machine=True)
class CreateWorktreeArgs(OperationArgs[Any], frozen=True):
    """Make a worktree on a new branch NAME, on a branch that there is, or on a pull request."""

    source: Annotated[
        str, option("The repository, a folder of the gateway's machine.", "from", metavar="DIRECTORY", tool="cwd")
    ]
    name: Annotated[str, argument("The name of the new branch, if there is to be one.", tool="name")] = ""
    base: Annotated[
        str, option("The branch that the new one begins at; the current one if left out.", tool="baseBranch")
    ] = ""
    branch: Annotated[str, option("A branch that there is, instead of a new one.", tool="branch")] = ""
    pr: Annotated[int, option("A pull request, instead of either.", least=1, unset=0, tool="prNumber")] = 0
    # No scope: the source may be a repository that the group does not see otherwise.
    folder: Annotated[str, option("The group in whose sandboxes git and the setup run.", tool="folder")] = ""


@declares("worktree.list", right=READ, offline=False)
class ListWorktreesArgs(OperationArgs[Any], frozen=True):
    """List them, the newest first."""

    archived: Archived = False


@declares("worktree.show", right=READ, offline=False)
class ShowWorktreeArgs(WorktreeArgs, frozen=True):
    """Show a worktree's place, its branch, the output of its setup, and its saved bundle. Archived ones are shown,
    too."""

    archived: Archived = False


@declares("worktree.trust", right="worktrees.trust", offline=False)
class TrustWorktreeArgs(WorktreeArgs, frozen=True):
    """Let the repository's setup run: shows its commands, asks, runs them, and from then on runs exactly these in every
    worktree of that repository."""


@declares("worktree.setup", right=WRITE, offline=False, of_machine=True)
class SetUpWorktreeArgs(WorktreeArgs, frozen=True):
    """Run its trusted setup again."""


@declares("worktree.save", right=WRITE, offline=False, of_machine=True)
class SaveWorktreeArgs(WorktreeArgs, frozen=True):
    """Bundle a worktree's new commits and uncommitted changes. For an archived one, show where its bundle is."""


@declares("worktree.archive", right=WRITE, offline=False, of_machine=True)
class ArchiveWorktreeArgs(WorktreeArgs, frozen=True):
    """Put a worktree away, with the agents that work in it. Its changes are saved as a bundle first, without files that
    git ignores."""

    discard: Annotated[bool, option("Throw away what was done in it, instead of saving it.")] = False
