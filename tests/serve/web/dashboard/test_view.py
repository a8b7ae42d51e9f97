"""Parts of pages as data."""

from gatepost.serve.web.dashboard.ages import render_age
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
