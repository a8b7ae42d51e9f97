"""What a record says of its fields: how they are given and how they are shown."""

from typing import Annotated

from msgspec import Meta, Struct

from gatepost.core.record_fields import ShownAs, get_argument_spec, join_lines, list_views, option, shown, split_notes


class Boat(Struct, frozen=True, kw_only=True):
    name: Annotated[str, shown("Name", empty="nameless"), option("How it is called.", metavar="NAME")]
    log: Annotated[str, shown("Log", ShownAs.LONG)]
    length: int
    crew: Annotated[list[str], shown("Crew", details=True)]
    id: Annotated[int, shown("Id", ShownAs.ID)]
    sails: Annotated[int, shown("Sails", render=lambda count: f"{count} of them" if count else "")] = 0


def test_fields_are_shown_in_the_order_of_the_record_ids_first_and_long_texts_last() -> None:
    views = list_views(Boat)
    assert list(views) == ["id", "name", "crew", "sails", "log"]
    assert [name for name, view in views.items() if view.details] == ["crew"]


def test_a_value_is_shown_by_its_own_words_and_an_empty_one_by_a_word() -> None:
    views = list_views(Boat)
    assert [views["name"].get_text(each) for each in ("Vega", "")] == ["Vega", "nameless"]
    assert [views["sails"].get_text(each) for each in (2, 0)] == ["2 of them", None]
    assert views["id"].get_text(0) == 0


def test_a_long_text_may_be_a_list_of_its_lines() -> None:
    assert join_lines("calm\nwind") == join_lines(["calm", "wind"]) == "calm\nwind"


def test_a_note_on_how_a_field_is_given_stands_beside_one_on_how_it_is_shown() -> None:
    kind, notes = split_notes(Boat.__annotations__["name"])
    spec = get_argument_spec(notes)
    assert kind is str and spec is not None and spec.metavar == "NAME"
    assert split_notes(int) == (int, []) and get_argument_spec([Meta()]) is None
