"""A change of a record, as values and as the texts that people write."""

from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta, Struct

from gatepost.core.errors import Invalid
from gatepost.core.record_changes import get_given, make_change, make_optional, parse_pairs, parse_texts
from gatepost.core.record_fields import get_argument_spec, option, split_notes


class Boat(Struct, frozen=True, kw_only=True):
    name: Annotated[str, option("How it is called."), Meta(max_length=20)] = ""
    sails: Annotated[Annotated[int, Meta(ge=0)] | None, option("How many.")] = None
    afloat: bool = False
    crew: tuple[str, ...] = ()
    stores: dict[str, int] = {}
    notes: dict[str, Any] = {}


CHANGE = make_change(Boat)


def test_a_change_has_the_fields_that_were_given_and_no_others() -> None:
    change = msgspec.convert({"sails": None, "stores": {"rum": 3, "salt": None}}, CHANGE)
    assert get_given(change) == {"sails": None, "stores": {"rum": 3, "salt": None}}
    assert msgspec.to_builtins(change) == {"sails": None, "stores": {"rum": 3, "salt": None}}
    assert get_given(CHANGE()) == {}


def test_a_change_keeps_the_notes_of_the_record() -> None:
    (name, *_) = msgspec.structs.fields(CHANGE)
    _, notes = split_notes(name.type)
    assert get_argument_spec(notes) is not None and notes[0].description == "How it is called."


def test_optional_fields_are_none_unless_given_and_may_be_described_anew() -> None:
    optional = make_optional(Boat, name=Meta(description="Another name."))
    assert msgspec.to_builtins(msgspec.convert({"crew": ["ann"]}, optional)) == {
        **dict.fromkeys(Boat.__struct_fields__),
        "crew": ("ann",),
    }
    described = msgspec.json.schema(optional)["$defs"]["OptionalBoat"]["properties"]
    assert described["name"]["description"] == "Another name."
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"sails": -1}, optional)


@pytest.mark.parametrize(
    "given",
    [
        {"sails": -1},
        {"name": "x" * 21},
        {"sails": "2"},
        {"mast": 1},
        {"afloat": 1},
        {"stores": {"rum": "x"}},
        {"name": None},
    ],
)
def test_what_the_record_cannot_hold_is_no_change(given: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(given, CHANGE)


def test_texts_stand_for_values_of_the_types_of_the_fields() -> None:
    texts = {
        "name": "Vega",
        "sails": "2",
        "afloat": "yes",
        "crew": "ann, bo",
        "stores.rum": "3",
        "stores.salt": "",
        "notes.a": '{"x": [1]}',
        "notes.b": "plain",
    }
    assert parse_texts(CHANGE, texts, "boat") == {
        "name": "Vega",
        "sails": 2,
        "afloat": True,
        "crew": ["ann", "bo"],
        "stores": {"rum": 3, "salt": None},
        "notes": {"a": {"x": [1]}, "b": "plain"},
    }
    empty = {"name": "", "sails": "", "afloat": "", "crew": ""}
    assert parse_texts(CHANGE, empty, "boat") == {"name": "", "sails": None, "afloat": False, "crew": []}


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("mast", "1", "nothing that a boat has; it has name, sails, afloat, crew, stores.NAME"),
        ("nmae", "x", "did you mean 'name'"),
        ("name.first", "x", "nothing that a boat has"),
        ("stores", "3", "write stores.NAME="),
        ("sails", "-1", "no whole number"),
        ("sails", "9" * 30, "no whole number"),
        ("stores.rum", "much", "no whole number"),
        ("afloat", "perhaps", "neither yes nor no"),
        ("notes.a", "[" * 50_000, "too deep"),
    ],
)
def test_a_text_that_stands_for_nothing_is_refused_by_its_name(name: str, text: str, why: str) -> None:
    with pytest.raises(Invalid, match=why) as refused:
        parse_texts(CHANGE, {name: text}, "boat")
    assert name in str(refused.value) and len(str(refused.value)) < 300


def test_pairs_are_names_with_values() -> None:
    assert list(parse_pairs(["a=1", "b=", "c=x=y"])) == [("a", "1"), ("b", ""), ("c", "x=y")]
    for wrong in ("a", "=1"):
        with pytest.raises(Invalid, match="VALUE"):
            list(parse_pairs([wrong]))
