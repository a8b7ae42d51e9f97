"""A function as a tool: its name, the words a model reads, its JSON schema, and how JSON becomes its arguments.

All of it is read when the host is made, so that a function that cannot be offered is refused then, not at a call.
"""

import functools
import inspect
import re
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

import msgspec

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_SECTION = re.compile(r"(args|arguments|parameters|params|returns?|yields?|raises|examples?|notes?)\s*:?\s*", re.I)
_PARAMETERS = ("arg", "param")
_GOOGLE = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_NUMPY = re.compile(r"(\w+)\s*(?::.*)?")
_SPHINX = re.compile(r":param\s+(?:[^:]*\s)?(\w+)\s*:\s*(.*)")


class Progress(Protocol):
    """Ask for it with a parameter of this type; call it from any thread. Nobody may be listening."""

    def __call__(self, done: float, total: float | None = None, message: str = "") -> None: ...


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """`read` makes keyword arguments of JSON, and raises ValueError for what does not fit. `progress` names the
    parameter that gets the Progress. A blocking function runs in a thread."""

    name: str
    description: str
    schema: dict[str, Any]
    function: Callable[..., Any]
    read: Callable[[bytes], dict[str, Any]]
    progress: str = ""
    blocking: bool = False

    def __post_init__(self) -> None:
        check_name(self.name)

    def listed(self) -> dict[str, Any]:
        """As `tools/list` shows it."""
        return {"name": self.name, "description": self.description, "inputSchema": self.schema}


def check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot be a tool's name: letters, digits, _ and -, at most 64 of them")


def read_function(function: Callable[..., Any]) -> FunctionTool:
    name = getattr(function, "__name__", "") or getattr(getattr(function, "func", None), "__name__", "")
    name = name or type(function).__name__
    check_name(name)
    words = parse_docstring(inspect.getdoc(_plain(function)) or "")
    hints = typing.get_type_hints(_plain(function), include_extras=True)
    progress, defaults = "", dict[str, Any]()
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for parameter in inspect.signature(function).parameters.values():
        hint = hints.get(parameter.name, Any)
        if hint is Progress:
            progress = parameter.name
            continue
        if parameter.kind not in _NAMED:
            raise ValueError(f"{name}: {parameter} cannot be offered; every parameter must have a name to call it by")
        described = _describe(hint, words.parameters.get(parameter.name, ""))
        if parameter.default is inspect.Parameter.empty:
            fields.append((parameter.name, described))
        else:
            fields.append((parameter.name, described, _default(parameter.default)))
            defaults[parameter.name] = parameter.default
    arguments = msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
    schema = _schema(name, arguments, defaults)
    decode = msgspec.json.Decoder(arguments, dec_hook=_read_foreign).decode

    def read(raw: bytes) -> dict[str, Any]:
        return msgspec.structs.asdict(decode(raw))

    blocking = not inspect.iscoroutinefunction(_called(function))
    return FunctionTool(name, words.text, schema, function, read, progress, blocking)


def _called(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what runs when it is called: behind a partial, and behind an object's `__call__`."""
    found: Any = function
    while isinstance(found, functools.partial):
        found = found.func
    plain = inspect.isfunction(found) or inspect.ismethod(found) or inspect.isbuiltin(found)
    called: Callable[..., Any] = found if plain else type(found).__call__
    return called


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return where the annotations stand: below decorators, too."""
    plain: Callable[..., Any] = inspect.unwrap(_called(function))
    return plain


def _describe(hint: Any, words: str) -> Any:
    """`Annotated[str, "words"]`, or the words of the docstring, as msgspec has it."""
    if typing.get_origin(hint) is Annotated:
        for each in hint.__metadata__:
            found = each if isinstance(each, str) else getattr(each, "description", None)
            words = found or words
    return Annotated[hint, msgspec.Meta(description=words)] if words else hint


def _default(value: Any) -> Any:
    """The very object, as Python itself would pass it: a list is not copied, and nothing is refused."""
    return msgspec.field(default_factory=lambda: value)


def _schema(name: str, arguments: type, defaults: dict[str, Any]) -> dict[str, Any]:
    hoisted: dict[str, Any] = {}

    def foreign(kind: type) -> dict[str, Any]:
        """A pydantic model describes itself; it is known by what it can do, for pydantic is not ours to import."""
        if not hasattr(kind, "model_json_schema"):
            raise ValueError(
                f"{name}: no JSON schema can be made of {getattr(kind, '__name__', kind)}: make it a dataclass, a"
                " TypedDict, a msgspec struct or a pydantic model, or take a text and look the thing up"
            )
        found: dict[str, Any] = kind.model_json_schema()
        hoisted.update(found.pop("$defs", {}))
        return found

    try:
        _, parts = msgspec.json.schema_components([arguments], schema_hook=foreign, ref_template="#/$defs/{name}")
    except TypeError as error:
        raise ValueError(f"{name}: no JSON schema can be made of its parameters: {error}") from None
    found = parts.pop(name)
    found.pop("title", None)
    for parameter, default in defaults.items():
        try:
            found["properties"][parameter]["default"] = msgspec.to_builtins(default)
        except (TypeError, ValueError):
            continue  # a default that is no JSON is for the function alone
    return {**found, "$defs": {**hoisted, **parts}} if hoisted or parts else found


def _read_foreign(kind: type, value: Any) -> Any:
    validate = getattr(kind, "model_validate", None)
    if validate is None:
        raise NotImplementedError(f"{kind.__name__} cannot be read from JSON")
    return validate(value)


@dataclass(frozen=True, slots=True)
class ParsedDocstring:
    """A docstring, taken apart: the words on the function and on each parameter, in Google, NumPy or Sphinx style."""

    text: str
    parameters: dict[str, str] = field(default_factory=dict)


def parse_docstring(text: str) -> ParsedDocstring:
    """Parse `text` as inspect.getdoc gives it. Sections on results and errors stay in the text: a model may want
    them."""
    kept: list[str] = []
    found: dict[str, list[str]] = {}
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        line = lines[at]
        if sphinx := _SPHINX.match(line.strip()):
            at = _read_indented(lines, at + 1, found.setdefault(sphinx[1], [sphinx[2]]))
        elif _is_section_start(lines, at):
            at = _section(lines, at + 1, found)
        else:
            kept.append(line)
            at += 1
    joined = {name: " ".join(part for part in parts if part) for name, parts in found.items()}
    return ParsedDocstring("\n".join(kept).strip(), joined)


def _is_section_start(lines: list[str], at: int) -> bool:
    line = lines[at]
    if not _SECTION.fullmatch(line) or not line.lower().startswith(_PARAMETERS):
        return False
    return line.rstrip().endswith(":") or (at + 1 < len(lines) and _is_underline(lines[at + 1]))


def _is_underline(line: str) -> bool:
    return bool(re.fullmatch(r"-{3,}\s*", line))


def _section(lines: list[str], at: int, found: dict[str, list[str]]) -> int:
    """The parameters from here on; the first line behind them."""
    numpy = at < len(lines) and _is_underline(lines[at])
    at += numpy
    depth = -1
    while at < len(lines):
        line = lines[at]
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            at += 1
            continue
        if _SECTION.fullmatch(line) or (indent == 0 and not numpy):
            break
        depth = indent if depth < 0 else depth
        entry = (_NUMPY if numpy else _GOOGLE).fullmatch(line.strip()) if indent == depth else None
        if entry is None:
            break
        at = _read_indented(lines, at + 1, found.setdefault(entry[1], [] if numpy else [entry[2]]), depth)
    return at


def _read_indented(lines: list[str], at: int, parts: list[str], depth: int = 0) -> int:
    """Lines that stand deeper belong to what was begun."""
    while at < len(lines) and lines[at].strip() and len(lines[at]) - len(lines[at].lstrip()) > depth:
        parts.append(lines[at].strip())
        at += 1
    return at
