"""A new worktree: what is asked for, the names that it, its branch and its project may have, and the commands of its
repository for it. Pure.
"""

import hashlib
import json
import re
import tomllib
from pathlib import Path

from msgspec import Struct

from gatepost.core.errors import Invalid
from gatepost.messages.text import one_line

LONGEST = 100
_BRANCH = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*(?:/[a-z0-9]+(?:-[a-z0-9]+)*)*")
_FOUND = re.compile(r"(?!-)[^\x00-\x20\x7f~^:?*\[\\]+")  # a branch that is there was named by others
RULE = "1 to 100 of a-z, 0-9, - and /; no hyphen at an end, none doubled"
SETUP_KEYS = ("setup", "teardown")
SETUP_FILE, LARGEST_SETUP = ".gatepost.toml", 64 * 1024
MOST_COMMANDS, LONGEST_COMMAND, LONGEST_TROUBLE = 20, 4000, 500


class NewWorktree(Struct, frozen=True, kw_only=True):
    """A worktree to be made: on a new branch `name` off `base`, on a branch that there is, or on a pull request."""

    source: str
    folder: str
    name: str = ""
    base: str = ""
    branch: str = ""
    pr: int = 0


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


class SetupCommands(Struct, frozen=True):
    """Commands of a repository for a new worktree, and before one goes: `[worktree]` in its `.gatepost.toml`.

    The file came with the repository, or with somebody's pull request, so it is only read here. Its commands run in the
    sandbox, and not before a person has trusted exactly these for this project.
    """

    setup: tuple[str, ...] = ()
    teardown: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps([self.setup, self.teardown]).encode()).hexdigest()


def parse_setup_commands(data: bytes) -> tuple[SetupCommands, str]:
    """The recipe, and a word on what it says that means nothing. Raises Invalid if it cannot be read."""
    try:
        table = tomllib.loads(data.decode()).get("worktree", {})
        recipe = SetupCommands(_commands(table, "setup"), _commands(table, "teardown"))
    except UnicodeDecodeError:
        raise Invalid(SETUP_FILE, "it is no text (UTF-8)") from None
    except RecursionError:
        raise Invalid(SETUP_FILE, "it is nested too deeply") from None
    except ValueError as error:
        raise Invalid(SETUP_FILE, one_line(str(error))[:LONGEST_TROUBLE]) from None
    unknown = ", ".join(one_line(str(each)) for each in table if each not in SETUP_KEYS)[:LONGEST_TROUBLE]
    return (
        recipe,
        f"{SETUP_FILE}: [worktree] has nothing called {unknown}; there are: {', '.join(SETUP_KEYS)}" if unknown else "",
    )


def _commands(table: object, name: str) -> tuple[str, ...]:
    given = table.get(name, []) if isinstance(table, dict) else None
    listed = [given] if isinstance(given, str) else given
    if not isinstance(listed, list) or len(listed) > MOST_COMMANDS:
        raise ValueError(f"worktree.{name} must be a command, or a list of at most {MOST_COMMANDS}")
    if not all(isinstance(each, str) and 0 < len(each) <= LONGEST_COMMAND and "\0" not in each for each in listed):
        raise ValueError(f"worktree.{name}: each command is a text of at most {LONGEST_COMMAND} characters")
    return tuple(listed)
