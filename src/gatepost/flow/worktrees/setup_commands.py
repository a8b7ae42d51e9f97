"""Commands of a repository for a new worktree, and before one goes: `[worktree]` in its `.gatepost.toml`.

The file came with the repository, or with somebody's pull request, so it is only read here. Its commands run in the
sandbox, and not before a person has trusted exactly these for this project. Pure.
"""

import hashlib
import json
import tomllib

from msgspec import Struct

from gatepost.core.errors import Invalid
from gatepost.messages.text import one_line

KEYS = ("setup", "teardown")
FILE, LARGEST = ".gatepost.toml", 64 * 1024
MOST, LONGEST, LONGEST_TROUBLE = 20, 4000, 500


class SetupCommands(Struct, frozen=True):
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
        raise Invalid(FILE, "it is no text (UTF-8)") from None
    except RecursionError:
        raise Invalid(FILE, "it is nested too deeply") from None
    except ValueError as error:
        raise Invalid(FILE, one_line(str(error))[:LONGEST_TROUBLE]) from None
    unknown = ", ".join(one_line(str(each)) for each in table if each not in KEYS)[:LONGEST_TROUBLE]
    return recipe, f"{FILE}: [worktree] has nothing called {unknown}; there are: {', '.join(KEYS)}" if unknown else ""


def _commands(table: object, name: str) -> tuple[str, ...]:
    given = table.get(name, []) if isinstance(table, dict) else None
    listed = [given] if isinstance(given, str) else given
    if not isinstance(listed, list) or len(listed) > MOST:
        raise ValueError(f"worktree.{name} must be a command, or a list of at most {MOST}")
    if not all(isinstance(each, str) and 0 < len(each) <= LONGEST and "\0" not in each for each in listed):
        raise ValueError(f"worktree.{name}: each command is a text of at most {LONGEST} characters")
    return tuple(listed)
