"""`gatepost errand`: as people read it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gatepost.core.home import Home

from .conftest import Ran


@pytest.fixture(autouse=True)
def store_of_its_own(home: Home, empty_store: Path) -> None:
    home.prepare()
    shutil.copy(empty_store, home.store)


def test_without_errands_it_says_so(run: Callable[..., Ran]) -> None:
    done = run("errand", "list")
    assert (done.code, done.out) == (0, "there are no errands: no agent gave work to another\n")
    assert run("errand", "list", "--open", "--json").json == []


def test_a_choice_without_errands_does_not_say_that_there_are_none(run: Callable[..., Ran]) -> None:
    for choice in (("--open",), ("--before", "e-1")):
        assert run("errand", "list", *choice).out == "no errand is like that; `gatepost errand list` shows all\n"


def test_an_unknown_one_is_named_with_the_way_out(run: Callable[..., Ran]) -> None:
    done = run("errand", "show", "e-none")
    assert done.code != 0 and "e-none" in done.err and "`gatepost errand list` shows them" in done.err
