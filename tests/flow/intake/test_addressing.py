"""What a text says at its start about whom it is for."""

import pytest

from gatepost.flow.intake.addressing import TextAddress, may_be_addressed, parse_address

OURS = frozenset({"gatebot"})


@pytest.mark.parametrize(
    ("text", "group", "topic", "rest"),
    [
        ("@eng look at this", "eng", None, "look at this"),
        ("  @eng\nlook", "eng", None, "look"),
        ("#daily what is new?", None, "daily", "what is new?"),
        ("@eng #daily go", "eng", "daily", "go"),
        ("@acme/eng", "acme/eng", None, ""),
        ("@eng ", "eng", None, ""),
        ("@", "", None, ""),
        ("#", None, "", ""),
        ("#daily", None, "daily", ""),
        ("@gatebot @eng go", "eng", None, "go"),
        ("@GateBot: #daily go", None, "daily", "go"),
    ],
)
def test_what_a_text_names(text: str, group: str | None, topic: str | None, rest: str) -> None:
    assert parse_address(text, OURS) == TextAddress(group, topic, rest)
    assert may_be_addressed(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "hello @eng",  # arizuko 22: in the middle of a text it does nothing
        "@eng, hello",
        "@ eng",
        "# a heading",
        "#1 is broken",
        "@acme/eng hello",  # a whole path is for choosing
        "@eng/ hello",
        "@../eng",
        "@gatebot hello",
        "@gatebot",
        "## title",
        "@ #daily",
    ],
)
def test_what_names_nobody(text: str) -> None:
    assert parse_address(text, OURS) is None


def test_most_texts_are_not_worth_a_look() -> None:
    assert not any(map(may_be_addressed, ("", "hello", "hello @eng", " 1. first", "*bold*")))


def test_a_long_text_of_signs_takes_no_time() -> None:
    assert parse_address("@" + "a-" * 30_000 + "!", OURS) is None
