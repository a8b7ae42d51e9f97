"""A command that is one operation: what comes back is read as the record that the operation declares."""

from pathlib import Path

import pytest
from msgspec import Struct

from gatepost.cli import operation_command
from gatepost.cli.operation_command import call_operation
from gatepost.core.errors import Unavailable
from gatepost.core.home import Home
from gatepost.serve.control.declaration import OperationArgs, declares


class Weather(Struct, frozen=True):
    seen_at: int
    words: str


@declares("weather.show", right="weather.read")
class ShowWeatherArgs(OperationArgs[Weather], frozen=True):
    """Show the weather."""


def answer_with(monkeypatch: pytest.MonkeyPatch, answer: object) -> None:
    """Stand in for a gateway of any version."""
    monkeypatch.setattr(operation_command, "run_operation", lambda *args, **more: answer)


def test_a_command_gets_the_record_that_the_operation_declares(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answer_with(monkeypatch, {"seen_at": "2026-01-02T03:04:05.000Z", "words": "rain", "since_a_later_version": 1})
    found = call_operation(Home(tmp_path), ShowWeatherArgs, {})
    assert found == Weather(seen_at=1_767_323_045_000_000, words="rain")


def test_an_answer_of_another_version_is_an_error_that_names_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answer_with(monkeypatch, {"seen_at": "2026-01-02T03:04:05.000Z"})
    said = r"weather\.show as another version does .*`words`.*`gatepost up` start"
    with pytest.raises(Unavailable, match=said) as refused:
        call_operation(Home(tmp_path), ShowWeatherArgs, {})
    assert refused.value.uncertain and refused.value.lasting  # it was done; to ask again would do it twice
