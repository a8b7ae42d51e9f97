"""Days and times as a calendar of the reader's language has them."""

from datetime import date

import pytest

from gatepost.core.languages.calendar import render_date, render_day, render_local
from gatepost.core.languages.catalogue import speaking

FRIDAY = date(2026, 11, 20)


@pytest.mark.parametrize(
    ("day", "english", "german"),
    [
        (date(2026, 5, 1), "Friday, 1 May", "Freitag, 1. Mai"),
        (date(2025, 3, 2), "Sunday, 2 March", "Sonntag, 2. März"),
        (date(2026, 11, 21), "Saturday, 21 November", "Samstag, 21. November"),
    ],
)
def test_a_day_is_said_as_people_do(day: date, english: str, german: str) -> None:
    assert render_day(day) == english
    with speaking("de"):
        assert render_day(day) == german


def test_a_moment_is_said_in_its_own_zone() -> None:
    assert render_local("2026-11-20T08:05:00+09:00") == "Friday, 20 November, 8:05"
    with speaking("de"):
        assert render_local("2026-05-01T18:00:00+02:00") == "Freitag, 1. Mai, 18:00"
        assert render_date(FRIDAY) == "Freitag, 20. November 2026"
