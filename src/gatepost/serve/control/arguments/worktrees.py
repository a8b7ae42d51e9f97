"""Managed worktrees: copies of repositories that agents work in."""

from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import ShownAs, argument, option, shown
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.sessions.worktrees import SetupState, WorktreeState

READ, WRITE = "worktrees.read", "worktrees.write"
WorktreeName = Annotated[str, argument("Its name or path.", "worktree")]
Archived = Annotated[bool, option("The archived ones, too.", "all")]


class WorktreeView(Struct, frozen=True, rename="camel", kw_only=True):
    """A worktree as it stands."""

    name: Annotated[str, shown("Worktree", ShownAs.CODE, head="worktree")]
    branch_name: Annotated[str, shown("Branch", ShownAs.CODE, head="branch")]
    state: Annotated[WorktreeState, shown("State", ShownAs.BADGE)]
    setup_state: Annotated[SetupState, shown("Setup", ShownAs.BADGE, head="setup")]
    source: Annotated[str, shown("Of", head="from")]
    folder: Annotated[str, shown("Group", head="group")]
    created_at: Annotated[str, shown("Since", ShownAs.MOMENT, head="since")]
    archived_at: Annotated[str | None, shown("Archived", ShownAs.MOMENT, details=True)]
    worktree_path: Annotated[str, shown("Folder", ShownAs.CODE, details=True)]
    base: Annotated[str, shown("From", details=True)]
    base_commit: Annotated[str, shown("From commit", ShownAs.CODE, details=True)]
    # What was saved of it, for `git fetch`.
    bundle: Annotated[str | None, shown("Saved in", ShownAs.CODE, details=True)]
    setup: Annotated[list[str], shown("Setup", ShownAs.LONG, details=True)]
    setup_output: Annotated[str, shown("Output of the setup", ShownAs.LONG, details=True)]
    teardown: Annotated[list[str], shown("When it is archived", ShownAs.LONG, details=True)]


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
