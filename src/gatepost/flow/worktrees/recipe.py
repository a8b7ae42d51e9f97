"""What a repository wants done in a new worktree, and before one goes: `[worktree]` in its `.gatepost.toml`.

It came with the repository, or with somebody's pull request, so it is only read here; it runs in the sandbox, and not
before a person has trusted exactly these commands for this project. Pure.
"""

import hashlib
import json
import tomllib
from dataclasses import dataclass

FILE, LARGEST = ".gatepost.toml", 64 * 1024
MOST, LONGEST = 20, 4000


@dataclass(frozen=True, slots=True)
class Recipe:
    setup: tuple[str, ...] = ()
    teardown: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps([self.setup, self.teardown]).encode()).hexdigest()


def read_recipe(data: bytes) -> tuple[Recipe, str]:
    """The recipe, and what is wrong with the file, if anything: then there is none."""
    try:
        table = tomllib.loads(data.decode()).get("worktree", {})
        return Recipe(_commands(table, "setup"), _commands(table, "teardown")), ""
    except (ValueError, RecursionError) as error:
        return Recipe(), f"{FILE}: {error}"


def _commands(table: object, name: str) -> tuple[str, ...]:
    given = table.get(name, []) if isinstance(table, dict) else None
    listed = [given] if isinstance(given, str) else given
    if not isinstance(listed, list) or len(listed) > MOST:
        raise ValueError(f"worktree.{name} must be a command, or a list of at most {MOST}")
    if not all(isinstance(each, str) and 0 < len(each) <= LONGEST and "\0" not in each for each in listed):
        raise ValueError(f"worktree.{name}: each command is a text of at most {LONGEST} characters")
    return tuple(listed)
