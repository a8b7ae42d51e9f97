"""Guesses at what was meant where a command names something that is not there: one place for every command."""

import re
from collections.abc import Callable, Iterable
from contextlib import suppress

from gatepost.core.errors import GatepostError, did_you_mean
from gatepost.core.home import Home
from gatepost.store.port import Db

_MISSING = re.compile(r"\bno (group|tool|worktree|secret) (?:named )?'([^'\n]{1,200})'")
_NO_COMMAND = re.compile(r"No such command '([^'\n]{1,200})'\.?")


def with_hint(text: str, home: Home) -> str:
    """An error's text, with the nearest name that there is. Not for people: their names share long beginnings, so that
    somebody else would always be near."""
    found = _MISSING.search(text)
    if found is None or "did you mean" in text:
        return text
    hint = ""
    with suppress(GatepostError, OSError):
        hint = did_you_mean(found[2], _names(found[1], home))
    rest = text[found.end() :]
    return text[: found.end()] + hint + (rest.removeprefix(";") if hint else rest)


def with_command(text: str, commands: Iterable[str]) -> str:
    """The same for a command below another."""
    found = _NO_COMMAND.search(text)
    return f"there is no command {found[1]!r}{did_you_mean(found[1], commands)}" if found else text


def _names(kind: str, home: Home) -> list[str]:
    if kind == "tool":
        from gatepost.core.registry import load_package
        from gatepost.tools.contract import TOOLS

        load_package("gatepost.tools")
        return list(TOOLS)
    from gatepost.store.engine.place import find_place
    from gatepost.store.engine.readonly import read_snapshot

    place = find_place(home)
    return read_snapshot(place, _STORED[kind]) if place.exists() else []


def _groups(db: Db) -> list[str]:
    from gatepost.store.sessions import groups

    return [each.folder for each in groups.list_all(db)]


def _worktrees(db: Db) -> list[str]:
    from gatepost.store.sessions import worktrees

    return [each.name for each in worktrees.list_all(db)]


def _secrets(db: Db) -> list[str]:
    from gatepost.store.rights import secrets

    return [each.name for each in secrets.list_all(db)]


_STORED: dict[str, Callable[[Db], list[str]]] = {
    "group": _groups,
    "worktree": _worktrees,
    "secret": _secrets,
}
