"""Managed worktrees: copies of repositories that agents work in."""

from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import argument, option
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.sessions.worktrees import SetupState, WorktreeState

READ, WRITE = "worktrees.read", "worktrees.write"
WorktreeName = Annotated[str, argument("Its name or path.", "worktree")]
Archived = Annotated[bool, option("The archived ones, too.", "all")]


class WorktreeView(Struct, frozen=True, rename="camel", kw_only=True):
    """A worktree as it stands."""

    name: str
    worktree_path: str
    source: str
    folder: str
    branch_name: str
    base: str
    base_commit: str
    state: WorktreeState
    setup: list[str]
    teardown: list[str]
    setup_state: SetupState
    setup_output: str
    bundle: str | None  # what was saved of it, for `git fetch`
    created_at: str
    archived_at: str | None


class WorktreeDetails(WorktreeView, frozen=True, rename="camel", kw_only=True):
    """A worktree as it stands, with the commands that fetch and show what was saved of it."""

    fetch: str
    look: str


class BundleResult(Struct, frozen=True, kw_only=True):
    name: str
    bundle: str | None
    contents: str
    fetch: str
    look: str


class SaveWorktreeResult(BundleResult, frozen=True, kw_only=True):
    branch: str
    state: WorktreeState
    left: str


class WorktreeRemoval(BundleResult, frozen=True, kw_only=True):
    trouble: str


@declares("worktree.create", right=WRITE, offline=False, of_machine=True)
class CreateWorktreeArgs(OperationArgs[WorktreeDetails], frozen=True):
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
class ListWorktreesArgs(OperationArgs[list[WorktreeDetails]], frozen=True):
    """List them, the newest first."""

    archived: Archived = False


@declares("worktree.show", right=READ, offline=False)
class ShowWorktreeArgs(OperationArgs[WorktreeDetails], frozen=True):
    """Show a worktree's place, its branch, the output of its setup, and its saved bundle. Archived ones are shown,
    too."""

    name: WorktreeName
    archived: Archived = False


@declares("worktree.trust", right="worktrees.trust", offline=False)
class TrustWorktreeArgs(OperationArgs[WorktreeDetails], frozen=True):
    """Let the repository's setup run: shows its commands, asks, runs them, and from then on runs exactly these in every
    worktree of that repository."""

    name: WorktreeName


@declares("worktree.setup", right=WRITE, offline=False, of_machine=True)
class SetUpWorktreeArgs(OperationArgs[WorktreeDetails], frozen=True):
    """Run its trusted setup again."""

    name: WorktreeName


@declares("worktree.save", right=WRITE, offline=False, of_machine=True)
class SaveWorktreeArgs(OperationArgs[SaveWorktreeResult], frozen=True):
    """Bundle a worktree's new commits and uncommitted changes. For an archived one, show where its bundle is."""

    name: WorktreeName


@declares("worktree.archive", right=WRITE, offline=False, of_machine=True)
class ArchiveWorktreeArgs(OperationArgs[WorktreeRemoval], frozen=True):
    """Put a worktree away, with the agents that work in it. Its changes are saved as a bundle first, without files that
    git ignores."""

    name: WorktreeName
    discard: Annotated[bool, option("Throw away what was done in it, instead of saving it.")] = False
