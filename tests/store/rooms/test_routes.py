"""The written form of a route's columns, and a row made of what somebody gave."""

import pytest

from gatepost.core.errors import Invalid
from gatepost.store.rooms.routes import NEVER_ENDS, RouteFields, make_route, parse_ttl, render_ttl


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("", None), ("never", NEVER_ENDS), ("0", 0), ("90", 90), ("10m", 600), ("1h30m", 5400), ("1d", 86_400), ("5S", 5)],
)
def test_a_ttl_is_read_and_written(text: str, seconds: int | None) -> None:
    assert parse_ttl(text) == seconds
    assert parse_ttl(render_ttl(seconds)) == seconds


@pytest.mark.parametrize("text", ["soon", "-5", "10 m", "m", "99999d", "1.5h", "9" * 40])
def test_a_ttl_that_is_no_time_is_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(Invalid, match="ttl"):
        parse_ttl(text)


def test_a_row_has_every_column_that_was_given() -> None:
    given = RouteFields(match="verb=mention", target="acme", seq=7, also=True)
    row = make_route(given, folder="acme", created_by="test", created_at=1)
    assert {name: getattr(row, name) for name in RouteFields.__struct_fields__} == {
        "match": "verb=mention",
        "target": "acme",
        "seq": 7,
        "also": True,
    }
    assert (row.folder, row.created_by, row.id) == ("acme", "test", 0)
