"""The texts of errors."""

import pytest

from gatepost.core.errors import LONGEST_PART, GatepostError, Invalid, NotFound, Refused, SetupError, Unavailable

LONG = "x" * 1_000_000


@pytest.mark.parametrize(
    ("error", "begin", "end"),
    [
        (NotFound("group", LONG, "`gatepost group list` shows them"), "no group named 'xx", "shows them"),
        (Invalid("name", f"{LONG} is too long; write less"), "name: xx", "write less"),
        (Refused(LONG, "speak", "acme", "it is not a member"), "xx", "not a member"),
        (Unavailable("the platform", LONG), "the platform is unavailable: xx", "xx"),
        (SetupError(f"{LONG} cannot be read; look at it"), "xx", "look at it"),
    ],
)
def test_an_error_does_not_repeat_all_that_somebody_sent(error: GatepostError, begin: str, end: str) -> None:
    text = str(error)
    assert len(text) <= 2 * LONGEST_PART + 3
    assert text.startswith(begin) and text.endswith(end)


def test_what_is_no_text_is_escaped() -> None:
    """As in the name of an agent's file. Whoever reads the error must get it."""
    assert str(Invalid("a/\udcff.md", "is larger")).encode() == b"a/\\udcff.md: is larger"


def test_a_usual_text_is_whole() -> None:
    assert str(Invalid("name", "y" * 5000)) == "name: " + "y" * 5000
