"""The front matter of a SKILL.md, as others write it: YAML between two lines of dashes.

Everything is read as text, so no date, number or tag becomes something else. Text that is no YAML, such as a
description with a colon in it, is read line by line. Never run inside a sandbox, nor on the event loop."""

import json
import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from gatepost.core.late_pattern import late_pattern

LARGEST = 8 * 1024  # characters
MOST_OPENED = 100  # brackets: a parser in Python takes seconds for some thousand of them
LONGEST_DESCRIPTION = 1024  # characters that a prompt shows
LONGEST_VALUE = 200
MOST_VALUES, MOST_NODES, DEEPEST = 50, 1000, 6
_FRONT = late_pattern(r"\A\ufeff?\s{0,100}---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_LINE = late_pattern(r"([A-Za-z][\w-]{0,63}):[ \t]+(?![\[{'\"|>&*!])(\S.*)\Z")
_NEEDS = frozenset({"requires", "requirements", "prerequisites"})
_ENV = frozenset({"env", "env_vars", "environment", "required_environment_variables", "primaryenv", "primary_env"})
_PROGRAMS = frozenset({"bins", "anybins", "any_bins", "commands", "programs", "binaries"})
_VARIABLE = late_pattern(r"[A-Za-z_][A-Za-z0-9_]{0,99}\Z")
_PROGRAM = late_pattern(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}\Z")


class FrontMatter(Struct, frozen=True, kw_only=True):
    """`trouble`: what is wrong with it, '' if nothing is."""

    name: str = ""
    description: str = ""
    license: str = ""
    compatibility: str = ""
    allowed_tools: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    hooks: bool = False
    trouble: str = ""


def read_front_matter(text: str) -> FrontMatter:
    found = _FRONT.match(text[: LARGEST + 1])
    if found is None:
        return FrontMatter(trouble=f"it has no front matter of at most {LARGEST:,} characters")
    given, trouble = _parse(found[1])
    if given is None:
        return FrontMatter(trouble=trouble)
    env, programs = _find_needs(given)
    return FrontMatter(
        name=_get_text(given, "name")[:LONGEST_VALUE],
        description=_get_text(given, "description")[:LONGEST_DESCRIPTION],
        license=_get_text(given, "license")[:LONGEST_VALUE],
        compatibility=_get_text(given, "compatibility")[:LONGEST_VALUE],
        allowed_tools=_get_list(given, "allowed-tools", "allowed_tools", "tools"),
        env=env,
        programs=programs,
        hooks=any(str(key).lower() == "hooks" for key in given),
        trouble=trouble or ("" if _get_text(given, "description") else "its front matter has no description"),
    )


def _parse(text: str) -> tuple[dict[str, Any] | None, str]:
    given = _load(text)
    if isinstance(given, dict):
        return given, ""
    repaired = _load("\n".join(map(_quote, text.splitlines())))
    if isinstance(repaired, dict):
        return repaired, "its front matter is no valid YAML and was read line by line"
    return None, "its front matter cannot be read"


def _load(text: str) -> Any:
    """None: it is no YAML, or none that anybody writes."""
    import yaml  # a start would wait for it, and most gateways never read a skill

    if text.count("[") + text.count("{") > MOST_OPENED:
        return None
    try:
        return yaml.load(text, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError, ValueError):
        return None


def _quote(line: str) -> str:
    """A plain value on the line of its key, in quotes: signs in it mean nothing then."""
    found = _LINE.match(line)
    return f"{found[1]}: {json.dumps(found[2].strip(), ensure_ascii=False)}" if found else line


def _get_text(given: dict[str, Any], name: str) -> str:
    """On one line."""
    value = next((each for key, each in given.items() if str(key).lower() == name), "")
    return " ".join(value.split()) if isinstance(value, str) else ""


def _get_list(given: dict[str, Any], *names: str) -> tuple[str, ...]:
    """A list, or words with commas or spaces between them. `Bash(git *)` is one word."""
    value = next((each for key, each in given.items() if str(key).lower() in names), "")
    if isinstance(value, str):
        value = [word.strip() for word in re.findall(r"(?:\([^)]*\)|[^,\s(])+", value)]
    found = [each.strip()[:LONGEST_VALUE] for each in _list_texts(value, DEEPEST)]
    return tuple(dict.fromkeys(filter(None, found)))[:MOST_VALUES]


def _find_needs(given: dict[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Variables and programs that it says it needs, by the names that several formats have for them."""
    env: list[str] = []
    programs: list[str] = []
    for above, key, value in _walk(_open_metadata(given)):
        if key in _ENV and (above & _NEEDS or key not in ("env", "environment")):
            env += [each for each in _list_names(value) if _VARIABLE.match(each)]
        elif key in _PROGRAMS and above & _NEEDS:
            programs += [each for each in _list_names(value) if _PROGRAM.match(each)]
    return tuple(dict.fromkeys(env))[:MOST_VALUES], tuple(dict.fromkeys(programs))[:MOST_VALUES]


def _open_metadata(given: dict[str, Any]) -> dict[str, Any]:
    """With `metadata` that is JSON in a text as what it means."""
    value = given.get("metadata")
    if not isinstance(value, str) or not value.lstrip().startswith("{"):
        return given
    opened = _load(value)
    return {**given, "metadata": opened} if isinstance(opened, dict) else given


def _walk(given: dict[str, Any]) -> Iterator[tuple[frozenset[str], str, Any]]:
    """The keys of all tables, each with those above it, within bounds: an alias may stand for what holds it."""
    waiting: list[tuple[frozenset[str], dict[str, Any]]] = [(frozenset(), given)]
    left = MOST_NODES
    while waiting:
        above, table = waiting.pop()
        for key, value in table.items():
            left -= 1
            if left < 0:
                return
            name = str(key).lower()
            yield above, name, value
            if isinstance(value, dict) and len(above) < DEEPEST:
                waiting.append((above | {name}, value))


def _list_names(value: Any) -> list[str]:
    """Texts, or the names of tables, or their keys."""
    if isinstance(value, str):
        return re.findall(r"[^,\s]+", value)[:MOST_VALUES]
    if isinstance(value, dict):
        return [str(key) for key in value][:MOST_VALUES]
    found: list[str] = []
    for each in value[:MOST_VALUES] if isinstance(value, list) else ():
        name = each.get("name") if isinstance(each, dict) else each
        found += [name] if isinstance(name, str) else []
    return found


def _list_texts(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and depth:
        for each in value[:MOST_VALUES]:
            yield from _list_texts(each, 0)
