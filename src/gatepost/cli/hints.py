"""Guesses at what was meant where a command names something that is not there: one place for every command. `program`
imports it when a command has failed: it reads the store."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from gatepost.access.subjects import Subject
from gatepost.core.errors import GatepostError, did_you_mean
from gatepost.core.home import Home
from gatepost.core.registry import load_package
from gatepost.store.engine.place import find_place
from gatepost.store.engine.readonly import read_snapshot
from gatepost.store.port import Db
from gatepost.store.sessions import groups, worktrees

# By the words of a command that there is not, if another name is not near enough to find it.
_INSTEAD = {
    ("restore",): "`gatepost backup restore` puts a backup back",
    ("start",): "`gatepost up` starts the gateway",
    ("run",): "`gatepost up` starts the gateway",
    ("init",): "`gatepost up` makes a home and starts the gateway",
    ("config",): "`gatepost settings` shows and changes them",
    ("help",): "`gatepost --help` lists the commands",
    ("version",): "`gatepost --version` says it",
    ("approve",): "`gatepost permit allow` does it",
    ("deny",): "`gatepost permit deny` does it",
    ("budget", "rm"): "`gatepost budget set FOLDER --daily none` takes a limit away",
}
# Words for one thing: of those that a group of commands has, the first is meant.
_ALIKE = (
    ("rm", "unset", "cancel", "forget", "close", "archive", "remove", "delete", "del"),
    ("add", "set", "create", "new"),
    ("show", "inspect", "get", "info", "view"),
    ("set", "edit", "update", "change"),
)


def find_command(path: Sequence[str], word: str, known: Sequence[str]) -> str:
    """Return the words that lead to the command that was meant, of those that are known there; '' if nobody can tell.
    `path`: the commands before it."""
    alike = [each for words in _ALIKE if word in words for each in words]
    if said := next((_INSTEAD[key] for each in (word, *alike) if (key := (*path, each)) in _INSTEAD), ""):
        return f"; {said}"
    there = next((f"; did you mean {each!r}?" for each in alike if each in known), "")
    return did_you_mean(word, known) or there


def find_near_name(kind: str, name: str, home: Home) -> str:
    """Return the words that ask for the nearest name of a kind; '' if none is near, or none can be read."""
    with suppress(GatepostError, OSError):
        return did_you_mean(name, _names(kind, home))
    return ""


def _names(kind: str, home: Home) -> list[str]:
    if kind == "tool":
        from gatepost.tools.contract import TOOLS

        load_package("gatepost.tools")
        return [*TOOLS, *Subject]
    place = find_place(home)
    return read_snapshot(place, _STORED[kind]) if place.exists() else []


def _list_secrets(db: Db) -> list[str]:
    from gatepost.store.rights import secrets

    return [each.name for each in secrets.list_all(db)]


_STORED: dict[str, Callable[[Db], list[str]]] = {
    "group": lambda db: [each.folder for each in groups.list_all(db)],
    "worktree": lambda db: [each.name for each in worktrees.list_all(db)],
    "secret": _list_secrets,
}
