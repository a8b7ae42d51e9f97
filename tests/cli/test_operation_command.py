"""A command that is one operation: what comes back is read as the record that the operation declares."""

from pathlib import Path
from typing import Annotated, Any

import click
import pytest
from click.testing import CliRunner
from msgspec import Struct

from gatepost.cli import operation_command
from gatepost.cli.operation_command import call_operation, with_arguments
from gatepost.core.errors import Invalid, Unavailable
from gatepost.core.home import Home
from gatepost.core.record_fields import argument
from gatepost.serve.control.declaration import OperationArgs, declares


class Weather(Struct, frozen=True):
    seen_at: int
    words: str


@declares("weather.show", right="weather.read")
class ShowWeatherArgs(OperationArgs[Weather], frozen=True):
    """Show the weather."""


@declares("weather.forget", right="weather.write")
class ForgetWeatherArgs(OperationArgs[Weather], frozen=True):
    """Forget the weather of a day."""

    id: Annotated[int, argument("The number of the day.", least=1)]


def forget(text: str, home: Path) -> dict[str, Any]:
    """The arguments of the operation, as the command line has them from its words."""
    given = dict[str, Any]()

    @click.command()
    @with_arguments(ForgetWeatherArgs)
    def command(home: Home, args: dict[str, Any], as_json: bool) -> None:
        given.update(args)

    CliRunner().invoke(command, [text], obj=str(home), catch_exceptions=False)
    return given


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


def test_the_number_of_a_thing_is_read_where_its_declaration_bounds_it(tmp_path: Path) -> None:
    assert forget("7", tmp_path) == {"id": 7}


def test_what_is_no_number_of_a_thing_is_refused_with_the_command_that_lists_them(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="'monday' is not one of the ids; `gatepost weather list` shows them"):
        forget("monday", tmp_path)
