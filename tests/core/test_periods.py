"""Days and months, UTC."""

from datetime import UTC, datetime

import pytest

from gatepost.core.periods import Period, end_of, start_of


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1_000_000)


@pytest.mark.parametrize(
    ("moment", "period", "start", "end"),
    [
        ("2026-11-15T12:30:01", Period.DAY, "2026-11-15", "2026-11-16"),
        ("2026-11-15T00:00:00", Period.DAY, "2026-11-15", "2026-11-16"),
        ("2026-11-15T23:59:59.999999", Period.DAY, "2026-11-15", "2026-11-16"),
        ("2026-12-31T23:59:59.999999", Period.DAY, "2026-12-31", "2027-01-01"),
        ("2026-11-15T12:30:01", Period.MONTH, "2026-11-01", "2026-12-01"),
        ("2026-12-31T23:59:59.999999", Period.MONTH, "2026-12-01", "2027-01-01"),
        ("2027-01-01T00:00:00", Period.MONTH, "2027-01-01", "2027-02-01"),
        ("2028-02-29T08:00:00", Period.MONTH, "2028-02-01", "2028-03-01"),
        ("2027-01-31T08:00:00", Period.MONTH, "2027-01-01", "2027-02-01"),
    ],
)
def test_a_period_begins_and_ends_at_midnight_utc(moment: str, period: Period, start: str, end: str) -> None:
    assert (start_of(period, at(moment)), end_of(period, at(moment))) == (at(start), at(end))
