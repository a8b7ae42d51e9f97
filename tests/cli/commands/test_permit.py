"""`gatepost permit`: who asks, and what."""

from typing import Any

import pytest

from gatepost.cli.commands.permit import render_request, render_who


@pytest.mark.parametrize(
    ("kind", "given", "who"),
    [
        ("sender", {"from": "toy:user/eve", "name": "Eve\nMallory"}, "Eve⏎Mallory (toy:user/eve)"),
        ("room", {"from": "toy:user/eve"}, "toy:user/eve"),
        ("tool", {"from": "toy:user/eve"}, "home"),
    ],
)
def test_of_what_a_stranger_brings_about_the_stranger_is_named(kind: str, given: dict[str, Any], who: str) -> None:
    agent = {"title": "home", "type": ""}
    assert render_who({"agent": agent, "request": {"kind": kind, "input": given}}) == who


def test_all_that_is_asked_is_shown_and_nothing_of_it_hides() -> None:
    given = {"text": "harmless " * 500 + "\x1b[2Jevil", "many": ["a", "b"]}
    asked = {"id": "p-1", "title": "Home wants to send", "why": "a rule", "preview": "", "input": given}
    assert render_request({**asked, "cut": False, "decision": ""}) == [
        "Home wants to send",
        "  a rule",
        f"  text: {'harmless ' * 500}⟨U+001B⟩[2Jevil",
        '  many: ["a", "b"]',
        "gatepost permit allow p-1, or gatepost permit deny p-1",
    ]
