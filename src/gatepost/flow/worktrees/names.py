"""Names that branches, worktrees and their projects may have. Pure."""

import hashlib
import re
from pathlib import Path

from gatepost.core.errors import Invalid

LONGEST = 100
_BRANCH = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*(?:/[a-z0-9]+(?:-[a-z0-9]+)*)*")
_FOUND = re.compile(r"(?!-)[^\x00-\x20\x7f~^:?*\[\\]+")  # a branch that is there was named by others
RULE = "1 to 100 of a-z, 0-9, - and /; no hyphen at an end, none doubled"


def check_branch(name: str) -> str:
    """A branch of an agent's own naming."""
    if len(name) > LONGEST or not _BRANCH.fullmatch(name):
        raise Invalid("INVALID_BRANCH", f"{name[:LONGEST]!r} is no name for a branch: {RULE}")
    return name


def check_ref(name: str, what: str) -> str:
    """A branch that somebody else made. Git has the last word; nothing that it could take for an option gets there."""
    if len(name) > 250 or not _FOUND.fullmatch(name) or ".." in name or name.endswith((".lock", "/", ".")):
        raise Invalid(what, f"{name[:LONGEST]!r} is no name of a branch")
    return name


def make_worktree_name(name: str, base: str, branch: str, pr: int) -> str:
    """Return what a worktree is called, with everything else that was said about it checked."""
    if sum((bool(base), bool(branch), bool(pr))) > 1:
        raise Invalid("target", "say one of them: a base to begin from, a branch that there is, or a pull request")
    if base:
        check_ref(base, "baseBranch")
    if base == "HEAD":
        raise Invalid("baseBranch", "name a branch, not HEAD")
    if pr < 0 or pr > 10**9:
        raise Invalid("prNumber", f"{pr} is no number of a pull request")
    if branch:
        return slug_of(check_ref(branch, "branch"))
    return f"pr-{pr}" if pr else check_branch(name)


def slug_of(branch: str) -> str:
    """The folder for a branch."""
    return re.sub(r"[^a-z0-9]+", "-", branch.lower()).strip("-")[:60] or "worktree"


def project_of(source: Path) -> str:
    """The folder for the worktrees of a repository: named like it, and no other's."""
    return f"{slug_of(source.name)[:40]}-{hashlib.sha256(str(source).encode()).hexdigest()[:8]}"
