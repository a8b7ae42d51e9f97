"""A change of a record: some of its fields, as values or as the texts that people write for them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeVar, get_args, get_origin

from msgspec import UNSET, Meta, Struct, UnsetType, defstruct, structs

from gatepost.core.errors import Invalid, did_you_mean
from gatepost.core.record_fields import get_bare_type, split_notes

S = TypeVar("S", bound=Struct)
YES, NO = "yes", "no"
LONGEST_NUMBER, LONGEST_SHOWN = 18, 40  # characters


def make_change(record: type[S]) -> type[S]:
    """Return the record with every field optional. An entry of a table is set by itself; null takes it out."""
    fields = []
    for field in structs.fields(record):
        kind, notes = split_notes(field.type)
        if get_origin(kind) is dict:
            name, value = get_args(kind)
            kind = dict[name, value | None] if value is not Any else kind  # type: ignore[valid-type]
        fields.append((field.name, _make_open(kind, UnsetType, notes), UNSET))
    return defstruct(  # type: ignore[return-value]  # its fields are those of the record, or not there
        f"{record.__name__}Change",
        fields,
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
        module=record.__module__,
        namespace={"__doc__": record.__doc__},
    )


def make_optional(record: type[S], **described: Meta) -> type[S]:
    """Return the record with every field None unless it is given: for arguments that change a record. `described`: what
    is said of some fields there, in the place of their own notes."""
    fields = []
    for field in structs.fields(record):
        kind, notes = split_notes(field.type)
        own = [described[field.name]] if field.name in described else notes
        fields.append((field.name, _make_open(kind, None, own), None))
    return defstruct(  # type: ignore[return-value]  # its fields are those of the record, or None
        f"Optional{record.__name__}", fields, frozen=True, kw_only=True, module=record.__module__
    )


def _make_open(kind: Any, nothing: Any, notes: Sequence[Meta]) -> Any:
    """Return a type that may also be nothing. Bounds hold for the value alone: msgspec takes none for a union."""
    bounded = Annotated[(kind, *notes)] if notes else kind
    words = [Meta(description=note.description, extra=note.extra) for note in notes] or [Meta()]
    return Annotated[(bounded | nothing, *words)]


def get_given(change: Struct) -> dict[str, Any]:
    """Return the fields of a change that are there."""
    values = ((name, getattr(change, name)) for name in change.__struct_fields__)
    return {name: value for name, value in values if value is not UNSET}


def parse_pairs(values: Iterable[str], option: str = "") -> Iterable[tuple[str, str]]:
    """NAME=VALUE each."""
    for each in values:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise Invalid(option or each, f"{each!r} is not NAME=VALUE" if option else "is not KEY=VALUE")
        yield name, value


def parse_texts(change: type[Struct], texts: Mapping[str, str], noun: str) -> dict[str, Any]:
    """Return the values of a change that texts stand for. `limits.files` is an entry of a table; '' is the default.

    `noun`: what the record is, for errors."""
    fields = {field.name: get_bare_type(field.type) for field in structs.fields(change)}
    found: dict[str, Any] = {}
    for name, text in texts.items():
        field, dot, entry = name.partition(".")
        if field not in fields or (dot and get_origin(fields[field]) is not dict):
            near = did_you_mean(name, fields)
            raise Invalid(name, f"is nothing that a {noun} has; it has {_list_names(fields)}{near}")
        kind = fields[field]
        if get_origin(kind) is not dict:
            found[field] = _parse(kind, name, text)
        elif entry:
            found.setdefault(field, {})[entry] = _parse(get_bare_type(get_args(kind)[1]), name, text) if text else None
        else:
            raise Invalid(name, f"write {name}.NAME=…")
    return found


def _list_names(fields: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}.NAME" if get_origin(kind) is dict else name for name, kind in fields.items())


def _parse(kind: Any, name: str, text: str) -> Any:
    if kind is bool:
        if text not in ("", YES, NO):
            raise Invalid(name, f"{text[:LONGEST_SHOWN]!r} is neither {YES} nor {NO}")
        return text == YES
    if kind is int:
        if text and not (text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER):
            raise Invalid(name, f"{text[:LONGEST_SHOWN]!r} is no whole number of 0 or more")
        return int(text) if text else None
    if get_origin(kind) in (tuple, list):
        return [each for each in map(str.strip, text.split(",")) if each]
    return _parse_json(name, text) if kind is Any else text


def _parse_json(name: str, text: str) -> Any:
    """JSON where it reads as such, else text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    except RecursionError:
        raise Invalid(name, "is too deep") from None
    check_json(name, value)
    return value


def check_json(name: str, value: Any) -> None:
    """Raises Invalid for what cannot be kept as JSON."""
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        why = "has something in it that JSON cannot say (NaN, half a sign), or is too deep"
        raise Invalid(name, why) from None
