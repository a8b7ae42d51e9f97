"""Records: values with named fields, as Struct (quick to declare and to make) or as dataclass. Functions for both."""

import dataclasses
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from msgspec import Struct, structs

T = TypeVar("T")


def replace(value: T, /, **changes: Any) -> T:
    """Return a copy with other values in some fields."""
    if isinstance(value, Struct):
        return structs.replace(value, **changes)
    changed: T = dataclasses.replace(value, **changes)  # type: ignore[type-var]  # anything else raises there
    return changed


def extend(kind: type[T], row: Struct, common: type[Struct] | None = None, /, **more: Any) -> T:
    """Return a row with further fields, as `kind`, which derives from the row's class, declares them. `common`: a class
    that both derive from; only its fields are taken from the row."""
    names = (common or row).__struct_fields__
    return kind(**{name: getattr(row, name) for name in names}, **more)


def asdict(value: Any) -> dict[str, Any]:
    """Return a record as a dict. Records within it become dicts, too; tuples and enums stay what they are."""
    found = _plain(value)
    assert isinstance(found, dict)
    return found


def is_record(value: object) -> bool:
    return isinstance(value, Struct) or (is_dataclass(value) and not isinstance(value, type))


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_plain(each) for each in value)
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return value
