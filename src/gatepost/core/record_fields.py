"""Notes on the fields of records: how a value is given on a command line or in a form, and how it is shown.

A record says both once. Commands, pages, tools and the API document are made from it.
"""

from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import lru_cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from msgspec import Meta, Struct, UnsetType, structs

_GIVEN, _SHOWN = "gatepost:argument", "gatepost:shown"


class ArgumentSpec(Struct, frozen=True, kw_only=True):
    """How a field appears on the command line, and what it holds."""

    name: str = ""  # '': named like the field
    positional: bool = False
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    least: int | None = None  # of a number; for texts see `option`
    most: int | None = None
    unset: int | None = None  # a number below `least` that means: it was not given
    secret: bool = False  # it is not audited
    scope: bool = False  # the group that the operation is about
    at_root: bool = False  # whoever gives it needs the right for the whole gateway
    hidden: bool = False  # no option: the command itself gives the value
    cli: str = ""  # its help on the command line, if that is not the description
    tool: str = ""  # its name in the MCP tool that has the operation's fields
    examples: tuple[Any, ...] = ()  # values that show its format


def option(description: str, name: str = "", **spec: Any) -> Meta:
    """Describe a field that is an option of the command: `--field`, or `--name`. `spec`: see ArgumentSpec.

    A bound that holds everywhere and is in the OpenAPI document stands behind it: `Annotated[str, option("…"),
    Meta(max_length=200)]`."""
    made = ArgumentSpec(name=name, **spec)
    schema = {"enum": list(made.choices)} if made.choices else None
    least = made.least if made.unset is None else made.unset
    examples = list(made.examples) or None
    return Meta(
        description=description,
        examples=examples,
        extra={_GIVEN: made},
        extra_json_schema=schema,
        ge=least,
        le=made.most,
    )


argument = partial(option, positional=True)  # a field that is an argument of the command, by its place


class ShownAs(StrEnum):
    """The form of a value in tables and lists."""

    TEXT = "text"
    CODE = "code"
    NUMBER = "number"
    MOMENT = "moment"
    MONEY = "money"
    BADGE = "badge"
    FLAG = "flag"  # a word where it holds
    ID = "id"  # for commands and files: a page has a link or a button in its place
    LONG = "long"  # many lines: a block of its own, and last


class FieldView(Struct, frozen=True, kw_only=True):
    """How a field is shown. `title`: of its column on a page; a command calls it `head`, or like the field. `word`: of
    a flag. `empty`: what stands for no value. `details`: only where one record is shown. `render`: makes a text of a
    value first."""

    title: str
    kind: ShownAs
    head: str
    word: str
    empty: str
    details: bool
    render: Callable[[Any], str] | None

    def get_text(self, value: Any) -> Any:
        """Return what stands for a value, which is the value itself unless it is empty or has its own words."""
        if self.render is not None:
            value = self.render(value)
        return (self.empty or None) if value in (None, "", (), [], {}) else value


def shown(
    title: str,
    kind: ShownAs = ShownAs.TEXT,
    *,
    head: str = "",
    word: str = "",
    empty: str = "",
    details: bool = False,
    render: Callable[[Any], str] | None = None,
) -> Meta:
    """Say how a field is shown. See FieldView."""
    view = FieldView(title=title, kind=kind, head=head, word=word, empty=empty, details=details, render=render)
    return Meta(extra={_SHOWN: view})


def join_lines(text: object) -> str:
    """Return a long text, which may be a list of its lines."""
    return "\n".join(map(str, text)) if isinstance(text, list | tuple) else str(text)


def split_notes(kind: Any) -> tuple[Any, list[Meta]]:
    """Return a field's type without its notes, and these."""
    if get_origin(kind) is not Annotated:
        return kind, []
    bare, *marks = get_args(kind)
    return bare, [mark for mark in marks if isinstance(mark, Meta)]


def get_bare_type(kind: Any) -> Any:
    """Return a type without notes, None and what stands for nothing."""
    kind, _ = split_notes(kind)
    if get_origin(kind) not in (Union, UnionType):
        return kind
    return get_bare_type(next(each for each in get_args(kind) if each not in (NoneType, UnsetType)))


def get_argument_spec(notes: list[Meta]) -> ArgumentSpec | None:
    return next((note.extra[_GIVEN] for note in notes if note.extra and _GIVEN in note.extra), None)


@lru_cache(maxsize=256)
def list_views(record: type[Struct]) -> dict[str, FieldView]:
    """Return the fields of a record that are shown, in its order, but ids first and long texts last."""
    found = dict(_find_views(record))
    return dict(sorted(found.items(), key=lambda item: (item[1].kind is not ShownAs.ID, item[1].kind is ShownAs.LONG)))


def _find_views(record: type[Struct]) -> Iterator[tuple[str, FieldView]]:
    for field in structs.fields(record):
        for note in split_notes(field.type)[1]:
            if note.extra and _SHOWN in note.extra:
                yield field.name, note.extra[_SHOWN]
