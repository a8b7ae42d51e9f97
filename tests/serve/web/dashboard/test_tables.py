"""Columns and blocks that are made from what a record says of its fields."""

from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import ShownAs, shown
from gatepost.serve.web.dashboard.tables import code, make_columns, make_table, make_texts
from gatepost.serve.web.dashboard.view import Badge, Code, EmptyState, LongText, Money


class Boat(Struct, frozen=True, kw_only=True, rename="camel"):
    boat_id: Annotated[str, shown("Id", ShownAs.ID)]
    sail_state: Annotated[str, shown("Sails", ShownAs.BADGE)]
    price: Annotated[int, shown("Price", ShownAs.MONEY, details=True)] = 0
    log: Annotated[str, shown("Log", ShownAs.LONG, details=True)] = ""
    orders: Annotated[list[str], shown("Orders", ShownAs.LONG, details=True)] = []


BOAT = Boat(boat_id="b-1", sail_state="ready", price=5, log="calm\nwind", orders=["sail", "turn"])


def test_columns_are_named_in_files_as_the_api_names_the_fields() -> None:
    table = make_table([BOAT], make_columns(Boat, details=True), EmptyState(text="none"))
    assert [(each.name, each.label) for each in table.columns] == [
        ("boatId", "boat_id"),
        ("sailState", "Sails"),
        ("price", "Price"),
    ]
    sails = table.rows[0].cells[1]
    assert isinstance(sails, Badge) and (sails.text, table.rows[0].cells[2]) == ("ready", Money(5))


def test_a_page_has_columns_of_its_own_in_the_place_of_some() -> None:
    first, second = make_columns(Boat, {"boat_id": code("boat_id", "Boat")})
    assert (first.show(BOAT), second.name) == (Code("b-1"), "sailState")


def test_long_texts_are_blocks_and_empty_ones_are_left_out() -> None:
    assert make_texts(Boat, BOAT) == [
        LongText(title="Log", text="calm\nwind"),
        LongText(title="Orders", text="sail\nturn"),
    ]
    assert make_texts(Boat, Boat(boat_id="b-2", sail_state="ready")) == []
