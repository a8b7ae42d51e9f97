"""Which rows of a table a page shows."""

import pytest

from gatepost.serve.web.dashboard.selection import SHOWN_ROWS, cut_tables, find_words
from gatepost.serve.web.dashboard.view import Column, EmptyState, PageView, Row, TableBlock

COUNT = SHOWN_ROWS * 2 + 1


def make_view(count: int) -> PageView:
    rows = [Row(cells=(f"row {number}",)) for number in range(count)]
    return PageView(blocks=[TableBlock(columns=(Column("name", "Name"),), rows=rows, empty=EmptyState(text="none"))])


def show(view: PageView, **query: str) -> TableBlock:
    (table,) = cut_tables(view, query).blocks
    assert isinstance(table, TableBlock)
    return table


def test_a_long_table_is_shown_in_parts_that_together_are_all_of_it() -> None:
    view, seen, query = make_view(COUNT), list[object](), {"state": "all"}
    for _ in range(3):
        table = show(view, **query)
        seen += [row.cells[0] for row in table.rows]
        query = dict(each.split("=") for each in table.more.removeprefix("?").split("&")) if table.more else {}
        assert not query or query["state"] == "all"
    assert seen == [f"row {number}" for number in range(COUNT)] and not query


def test_a_table_that_fits_has_no_further_part() -> None:
    assert show(make_view(SHOWN_ROWS)).more == ""
    assert len(show(make_view(SHOWN_ROWS), **{"from": "50"}).rows) == SHOWN_ROWS


@pytest.mark.parametrize("given", ["-1", "x", "9" * 40, "٣", str(COUNT)])
def test_a_number_that_is_none_or_too_large_shows_the_beginning(given: str) -> None:
    table = show(make_view(COUNT), **{"from": given})
    assert table.rows[0].cells == ("row 0",) and table.more.endswith(f"from={SHOWN_ROWS}")


def test_words_are_looked_for_in_all_rows_before_they_are_cut() -> None:
    found = find_words(make_view(COUNT), f"row {COUNT - 1}")
    assert [row.cells[0] for row in show(found).rows] == [f"row {COUNT - 1}"]
