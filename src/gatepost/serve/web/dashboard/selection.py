"""Which rows of a page's tables are shown: those with the words that were typed, and so many at a time. Pure."""

from collections.abc import Mapping
from urllib.parse import urlencode

from gatepost.core.records import replace
from gatepost.serve.web.dashboard.view import PageView, TableBlock, find_rows

LONGEST_QUERY = 200  # characters of a search
SHOWN_ROWS = 200  # of one table; more are read by nobody, and a browser is slow with them
FIRST = "from"  # in the address: the number of the first row
LONGEST_NUMBER = 9  # digits


def find_words(view: PageView, words: str) -> PageView:
    if not words.strip() or view.searches:
        return view
    short = words[:LONGEST_QUERY]
    blocks = [find_rows(each, short) if isinstance(each, TableBlock) else each for each in view.blocks]
    return replace(view, blocks=blocks)


def cut_tables(view: PageView, query: Mapping[str, str]) -> PageView:
    """Long tables from the row that the address names, with a way to the next ones."""
    first = _parse_first(query.get(FIRST, ""))
    blocks = [_cut(each, first, query) if isinstance(each, TableBlock) else each for each in view.blocks]
    return replace(view, blocks=blocks)


def _parse_first(given: str) -> int:
    return int(given) if given.isascii() and given.isdigit() and len(given) <= LONGEST_NUMBER else 0


def _cut(table: TableBlock, first: int, query: Mapping[str, str]) -> TableBlock:
    """A table that fits stays as it is, whatever the address says: it is another one that is long."""
    if len(table.rows) <= SHOWN_ROWS:
        return table
    rest = table.rows[first:] or table.rows
    if len(rest) <= SHOWN_ROWS:
        return replace(table, rows=rest)
    further = {**query, FIRST: str(first + SHOWN_ROWS if table.rows[first:] else SHOWN_ROWS)}
    return replace(table, rows=rest[:SHOWN_ROWS], more=f"?{urlencode(further)}")
