"""Guesses at what was meant where a command names something that is not there: one place for every command. `program`
imports it when a command has failed: it reads the store."""

from collections.abc import Callable
from contextlib import suppress

from gatepost.access.subjects import Subject
from gatepost.core.errors import GatepostError, did_you_mean
from gatepost.core.home import Home
from gatepost.core.registry import load_package
from gatepost.store.engine.place import find_place
from gatepost.store.engine.readonly import read_snapshot
from gatepost.store.port import Db
from gatepost.store.sessions import groups, worktrees


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
