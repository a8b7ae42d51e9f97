"""The page of routes, as data, and how they are moved."""

from collections.abc import Iterator
from itertools import permutations
from typing import Any

import pytest

from gatepost.core.errors import NotFound
from gatepost.core.records import extend
from gatepost.serve.control.arguments.routes import RouteListItem, RouteTestArgs
from gatepost.serve.control.contract import OPERATIONS
from gatepost.serve.control.operations.routes import plan_move
from gatepost.serve.web.dashboard.handlers import cut_tables
from gatepost.serve.web.dashboard.view import Badge, Code, Facts, FormBlock, TableBlock, Tone
from gatepost.serve.web.pages.routes import make_routes_view, show_test
from gatepost.store.rooms.routes import Route
from gatepost.store.sessions import groups


def route(number: int, seq: int) -> Route:
    return Route(match="", target="home", created_by="", created_at=0, id=number, seq=seq)


@pytest.mark.parametrize("seqs", [(10, 20, 30, 40), (1, 1, 1, 1), (5, 6, 6, 7), (0, 1, 2, 1000), (-3, -2, 0, 0)])
def test_every_route_can_be_put_before_every_other_and_last(seqs: tuple[int, ...]) -> None:
    for numbers in permutations((1, 2, 3, 4)):
        given = sorted((route(number, seq) for number, seq in zip(numbers, seqs, strict=True)),
                       key=lambda each: (each.seq, each.id))  # fmt: skip
        for moved in (1, 2, 3, 4):
            for before in (0, 1, 2, 3, 4):
                changed = plan_move(given, moved, before)
                after = sorted(given, key=lambda each: (changed.get(each.id, each.seq), each.id))
                wanted = [each.id for each in given if each.id != moved]
                place = wanted.index(before) if before in wanted else len(wanted)
                expected = [*wanted[:place], moved, *wanted[place:]] if before != moved else [each.id for each in given]
                assert [each.id for each in after] == expected, (seqs, moved, before, changed)


def test_a_free_number_is_taken_and_nothing_else_changes() -> None:
    assert plan_move([route(1, 10), route(2, 20), route(3, 30)], 3, 2) == {3: 15}
    assert plan_move([route(1, 10), route(2, 20)], 1, 2) == {}


async def test_a_move_is_recorded_and_what_is_not_there_is_named(operation_deps: Any) -> None:
    made = [await OPERATIONS["route.add"](operation_deps, {"match": f"text=x{n}", "target": "drop"}) for n in range(3)]
    first, second, third = (each["id"] for each in made)
    moved = await OPERATIONS["route.move"](operation_deps, {"id": third, "before": first})
    assert [each["id"] for each in moved if each["id"] in (first, second, third)] == [third, first, second]
    for wrong in ({"id": 999}, {"id": first, "before": 999}):
        with pytest.raises(NotFound, match="999"):
            await OPERATIONS["route.move"](operation_deps, wrong)


def test_rows_are_dragged_or_moved_by_buttons_and_the_ends_have_one() -> None:
    found = [extend(RouteListItem, route(n, n), fault="") for n in (4, 5, 6)]
    view = make_routes_view(found, {"address": "web:home", "text": "<b>"}, None)
    [table] = [each for each in view.blocks if isinstance(each, TableBlock)]
    assert (table.moves, [row.key for row in table.rows]) == ("route.move", ["4", "5", "6"])
    moves = [[(each.label, each.args.get("before")) for each in row.actions[:-1]] for row in table.rows]
    assert moves == [[("Down", 6)], [("Up", 4), ("Down", 0)], [("Up", 5)]]
    [form] = [each for each in view.blocks if isinstance(each, FormBlock)]
    assert not form.operation and {each.name: each.value for each in form.inputs}["text"] == "<b>"


async def test_a_test_says_who_the_sender_is_and_what_becomes_of_the_message_in_each_group(operation_deps: Any) -> None:
    await operation_deps.store.write(groups.add, "home", "Home", "", 1)
    await OPERATIONS["route.add"](operation_deps, {"match": "text=hi", "target": "home", "seq": 1})
    asked = RouteTestArgs(address="telegram:group/1", sender="telegram:user/9", text="hi")
    blocks = show_test(await OPERATIONS["route.test"].answer(operation_deps, asked))
    facts = {each.title: {item.label: item.value for item in each.items} for each in blocks if isinstance(each, Facts)}
    assert facts["Its sender"]["Sender"] == Code("telegram:user/9") and facts["Its sender"]["Known here"] == "no"
    assert facts["This message"]["Policy of the room"] == "strict"
    tables = {each.title: each for each in blocks if isinstance(each, TableBlock)}
    columns = [each.name for each in tables["Groups"].columns]
    row = dict(zip(columns, tables["Groups"].rows[0].cells, strict=True))
    assert row["folder"] == "home" and row["rights"] == "guest" and row["sentence"]
    assert "In conversation" not in tables
    [judged, *_] = tables["Judged one by one"].rows
    assert Badge("yes", Tone.GOOD) in judged.cells


class CountedRoutes(list[RouteListItem]):
    walks = 0

    def __iter__(self) -> Iterator[RouteListItem]:
        self.walks += 1
        return super().__iter__()


def test_a_page_of_many_routes_does_not_walk_through_all_of_them_for_each_row() -> None:
    """With 20,000 routes one page held the event loop for 0.2 s; a search or a file would take 20 s of a thread."""
    found = CountedRoutes(extend(RouteListItem, route(n, n), fault="") for n in range(1, 1001))
    view = make_routes_view(found, {}, None)
    found.walks = 0
    cut_tables(view, {})
    assert found.walks <= 1
