"""`gatepost permit`: who asks."""

from typing import Any

import pytest

from gatepost.cli.commands.permit import render_who


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
