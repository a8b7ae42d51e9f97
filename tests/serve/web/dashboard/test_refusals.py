"""Refusals in the page's words: at which input they stand, and what is offered in the place of a command."""

import pytest

from gatepost.core.errors import GatepostError, Invalid, NotFound, Refused, Unavailable
from gatepost.serve.control.contract import OPERATIONS
from gatepost.serve.web.dashboard.contract import PAGES
from gatepost.serve.web.dashboard.refusals import KnownPlaces, find_field, make_refusal, render_refusal
from gatepost.serve.web.dashboard.view import Link

EVERYWHERE = KnownPlaces(pages=[each for _, each in PAGES.items()], operations=OPERATIONS, may=lambda info: True)
NOWHERE = KnownPlaces(pages=[], operations=OPERATIONS, may=lambda info: False)
TASK = {"folder": "hme", "prompt": "x", "when": "soon"}


@pytest.mark.parametrize(
    ("operation", "error", "field"),
    [
        ("task.add", Invalid("when", "is no time"), "when"),
        ("task.add", Invalid("maxRuns", "0 is not between"), "max_runs"),
        ("task.add", Invalid("--max-cost", "is no sum"), "max_cost"),
        ("task.add", Invalid("task.add", "Expected `int` - at `$.max_runs`"), "max_runs"),
        ("group.set", Invalid("model", "is unknown"), "values.model"),
        ("task.add", NotFound("group", "hme"), "folder"),
        ("task.add", NotFound("group", "another"), ""),
        ("task.add", Invalid("moon", "is away"), ""),
        ("task.add", Invalid("", "is away"), ""),
        ("task.add", Refused("a", "task.add", "hme"), ""),
    ],
)
def test_an_error_is_said_at_the_input_that_it_names(operation: str, error: GatepostError, field: str) -> None:
    assert find_field(OPERATIONS[operation], error, TASK) == field


@pytest.mark.parametrize(
    ("error", "field", "said"),
    [
        (Invalid("when", "is no time; write it like 14:30"), "when", "Is no time; write it like 14:30"),
        (
            Invalid("room", "it has none. Say --room; `gatepost room list` shows them"),
            "room",
            "It has none. Say “Room”",
        ),
        (Invalid("max_runs", "two runs lie apart (schedule.least_interval_s)"), "max_runs", "Two runs lie apart"),
        (Invalid("task.add", "Expected `int` - at `$.max_runs`"), "max_runs", "This does not fit here."),
        (NotFound("group", "hme", "did you mean 'home'? `gatepost group list` shows them"), "folder", "home"),
        (Unavailable("the store", "it is away"), "", "The store is unavailable: it is away"),
        (Refused("web:a", "x", "y", "it needs a right"), "", "You may not see or do this: it needs a right"),
    ],
)
def test_a_refusal_speaks_as_the_page_does(error: GatepostError, field: str, said: str) -> None:
    shown = render_refusal(error, field)
    assert said in shown and "`gatepost" not in shown and "--" not in shown


def test_a_command_that_shows_something_is_its_page() -> None:
    error = NotFound("group", "hme", "`gatepost group list` shows them")
    found = make_refusal(OPERATIONS["task.add"], error, TASK, EVERYWHERE)
    assert (found.field, found.text) == ("folder", "There is no agent named “hme”")
    assert found.ways_out == (Link("All agents", "/dashboard/groups"),)


def test_a_command_that_does_something_is_its_form() -> None:
    error = Invalid("folder", "it has no room; `gatepost route add` makes one")
    found = make_refusal(OPERATIONS["task.add"], error, TASK, EVERYWHERE)
    assert found.ways_out == (Link("Route: add", "/dashboard/do/route.add"),)


def test_nobody_is_led_where_they_may_not_go_nor_to_what_they_just_did() -> None:
    error = Invalid("x", "`gatepost group list` shows them; `gatepost route add` makes one; `gatepost task add` again")
    assert make_refusal(OPERATIONS["task.add"], error, TASK, NOWHERE).ways_out == ()
    again = make_refusal(OPERATIONS["task.add"], Invalid("x", "`gatepost task add` makes one"), TASK, EVERYWHERE)
    assert again.ways_out == ()
