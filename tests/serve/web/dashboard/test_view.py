"""Parts of pages as data."""

from msgspec.structs import replace

from gatepost.serve.web.dashboard.renderer import render_age
from gatepost.serve.web.dashboard.view import (
    Badge,
    Column,
    EmptyState,
    Moment,
    Money,
    Row,
    TableBlock,
    find_rows,
    get_plain,
    has_content,
    list_shown,
)

NOON = 1_800_000_000_000_000
ROWS = [Row(cells=("Ada", Badge("active"))), Row(cells=("Bob", Badge("paused")))]
TABLE = TableBlock(
    columns=(Column("who", "Who"), Column("state", "State")), rows=ROWS, empty=EmptyState(text="Nobody.")
)


def test_a_search_keeps_the_rows_that_have_every_word() -> None:
    assert [row.cells[0] for row in find_rows(TABLE, "PAUSED bob").rows] == ["Bob"]
    assert find_rows(TABLE, " ") is TABLE
    nothing = find_rows(TABLE, "ada paused")
    assert not nothing.rows and "ada paused" in nothing.empty.text


def test_a_cell_in_a_file_has_no_form() -> None:
    assert [get_plain(each) for each in (Badge("x"), Moment(None), 3, None)] == ["x", None, 3, None]
    assert get_plain(Money(1_500_000)) == "$1.50"


def test_times_are_shown_by_their_age() -> None:
    def at(seconds: int) -> str:
        from gatepost.core.clock import iso

        return iso(NOON + seconds * 1_000_000) or ""

    ages = [render_age(at(seconds), NOON) for seconds in (0, -59, -3600, -86_400 * 3, 120, 90_000)]
    assert ages == ["now", "59 s ago", "1 h ago", "3 d ago", "in 2 min", "in 1 d"]


def test_a_page_leaves_out_what_no_row_has_and_a_file_does_not() -> None:
    columns = (Column("name", "Name"), Column("why", "Why"), Column("at", "When"), Column("id", "Id", in_files=True))
    rows = [Row(cells=("a", None, Moment(None), "1")), Row(cells=("b", "", Moment("2026-11-16T00:00:00Z"), "2"))]
    table = TableBlock(columns=columns, rows=rows, empty=EmptyState(text="none"))

    assert list_shown(table) == [0, 2]
    assert list_shown(replace(table, rows=[Row(cells=(None, None, Moment(None), "1"))])) == [0]


def test_zero_is_something_to_show() -> None:
    assert has_content(0) and not has_content("") and not has_content(Moment(None))
