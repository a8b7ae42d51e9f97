"""Answers of operations: records in the gateway, in commands and on pages, JSON between them.

In JSON times are texts in RFC 3339, which whoever calls the API reads without knowing our unit.
"""

from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Struct, structs

from gatepost.core.clock import SECOND, iso
from gatepost.core.errors import Unavailable
from gatepost.core.record_fields import split_notes

R = TypeVar("R")
LONGEST_SHOWN = 40  # characters of what is no time
_MOMENTS = ("_at", "_until")  # how the names of times end


class ApiErrorKind(StrEnum):
    """The kind of an error, for the API and its clients."""

    ERROR = "error"
    INTERNAL = "internal"
    INVALID = "invalid"
    NOT_FOUND = "not_found"
    REFUSED = "refused"
    SETUP = "setup"
    TOO_LARGE = "too_large"
    UNAUTHORIZED = "unauthorized"
    UNAVAILABLE = "unavailable"
    UNSUPPORTED = "unsupported"


def is_time(name: str) -> bool:
    return name == "at" or name.endswith(_MOMENTS)


def to_json(answer: Any) -> Any:
    """Return an answer as JSON has it: rows as objects, their times as RFC 3339."""
    if isinstance(answer, list | tuple):
        return type(answer)(map(to_json, answer))
    if not isinstance(answer, Struct):
        return answer
    return {
        shown: iso(value or None) if is_time(name) and isinstance(value, int) else to_json(value)
        for name, shown in zip(answer.__struct_fields__, answer.__struct_encode_fields__, strict=True)
        if (value := getattr(answer, name)) is not msgspec.UNSET
    }


def from_json(kind: Any, answer: Any) -> Any:
    """Return the record of a type that JSON stands for; the reverse of `to_json`, to the millisecond."""
    return answer if kind is Any else msgspec.convert(_find_reader(kind)(answer), kind)


def read_sent(kind: Any, found: Any, what: str) -> Any:
    """Return the record that a gateway sent as JSON. Raises Unavailable for one that is not of this version: whoever
    sent it had the whole request, and may have acted. `what`: the answer's name, for the error."""
    try:
        return from_json(kind, found)
    except msgspec.ValidationError as error:
        why = f"it answers {what} as another version does ({error})"
        remedy = "`gatepost down` and `gatepost up` start this one"
        raise Unavailable("the gateway", f"{why}; {remedy}", uncertain=True, lasting=True) from None


@lru_cache(maxsize=512)
def _find_reader(kind: Any) -> Callable[[Any], Any]:
    """Return a function that brings the times in a value of the type back into our unit."""
    kind, _ = split_notes(kind)
    origin, given = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        rows = [each for each in given if each is not NoneType and _holds_rows(each)]
        return _find_reader(rows[0]) if rows else _keep
    if origin in (list, tuple) and _holds_rows(kind):
        item = _find_reader(given[0])
        return lambda value: [item(each) for each in value] if isinstance(value, list | tuple) else value
    return _make_row_reader(kind) if _is_row(kind) else _keep


def _make_row_reader(kind: type[Struct]) -> Callable[[Any], Any]:
    readers = {
        field.encode_name: _find_time_reader(field.type) if is_time(field.name) else _find_reader(field.type)
        for field in structs.fields(kind)
    }

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: readers.get(name, _keep)(each) for name, each in value.items()}

    return read


def _find_time_reader(kind: Any) -> Callable[[Any], Any]:
    kind, _ = split_notes(kind)
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    if int not in kinds:
        return _keep  # a text already
    return lambda value: _read_time(value, None if NoneType in kinds else 0)


def _read_time(value: Any, never: int | None) -> Any:
    """Raises ValidationError for what `to_json` does not write."""
    if value is None:
        return never
    try:
        return round(datetime.fromisoformat(value).timestamp() * SECOND)
    except (TypeError, ValueError, OverflowError):
        raise msgspec.ValidationError(f"{str(value)[:LONGEST_SHOWN]!r} is no time") from None


def _is_row(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def _holds_rows(kind: Any) -> bool:
    return _is_row(kind) or any(map(_holds_rows, get_args(kind)))


def _keep(value: Any) -> Any:
    return value
