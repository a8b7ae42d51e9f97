"""Reasons in words."""

import re
from pathlib import Path

import pytest

from gatepost.access import senders
from gatepost.flow import intake
from gatepost.flow.intake.message_outcome import SENTENCES, render_reason


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("", ""),
        ("text_too_long", "It is longer than a message may be."),
        ("stopped by web:user/owner", "It was stopped."),
        ("the provider gave up", "The provider gave up."),
        ("The agent failed.", "The agent failed."),
    ],
)
def test_a_reason_becomes_a_sentence(code: str, words: str) -> None:
    assert render_reason(code) == words


def test_what_names_a_route_is_known_by_its_beginning() -> None:
    assert render_reason("dropped_by_route 7") == SENTENCES["dropped_by_route"]


def test_every_code_that_intake_gives_has_its_sentence() -> None:
    sources = [*Path(intake.__path__[0]).glob("*.py"), Path(senders.__file__)]
    code = re.compile(r'(?:end\("\w+", f?|Verdict\(False, |^ +return |^ +)"([a-z]+(?:_[a-z]+)+)', re.MULTILINE)
    given = {found for source in sources for found in code.findall(source.read_text())}
    assert {"text_too_long", "unknown_sender_strict", "command_denied", "dropped_by_route"} <= given
    assert given <= set(SENTENCES)
