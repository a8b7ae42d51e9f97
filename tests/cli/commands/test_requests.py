"""`gatepost permit`: who asks, and what."""

from typing import Any

import pytest

from gatepost.cli.commands.requests import render_request, render_who
from gatepost.cli.timeline_renderer import summarize_request
from gatepost.serve.control.arguments.agents import AgentRequest, PendingRequest, RequestingAgent
from gatepost.serve.control.arguments.requests import PermitDetails, PermitField
from gatepost.store.rights.requests import RequestKind, RequestState

HOME = RequestingAgent(agent_id="s-1", title="home", type="", folder="home", status=None)


def make_request(kind: RequestKind, given: dict[str, Any]) -> PendingRequest:
    return PendingRequest(id="p-1", kind=kind, name="n", input=given, asked_at="")


@pytest.mark.parametrize(
    ("kind", "given", "who"),
    [
        (RequestKind.SENDER, {"from": "toy:user/eve", "name": "Eve\nMallory"}, "Eve⏎Mallory (toy:user/eve)"),
        (RequestKind.ROOM, {"from": "toy:user/eve"}, "toy:user/eve"),
        (RequestKind.TOOL, {"from": "toy:user/eve"}, "home"),
    ],
)
def test_of_what_a_stranger_brings_about_the_stranger_is_named(
    kind: RequestKind, given: dict[str, Any], who: str
) -> None:
    assert render_who(AgentRequest(HOME, make_request(kind, given))) == who


def test_a_restore_is_words_and_no_json() -> None:
    asked = make_request(RequestKind.RESTORED, {"perhaps said before": "3", "not answered": "1"})
    assert summarize_request(asked) == "3 perhaps said before, 1 not answered"


def test_of_a_held_call_the_person_is_named_for_whom_the_agent_works() -> None:
    assert render_who(AgentRequest(HOME, make_request(RequestKind.CALL, {}), "Bob\x1b")) == "Bob␛"


def test_all_that_is_asked_is_shown_and_nothing_of_it_hides() -> None:
    asked = PermitDetails(
        id="p-1",
        kind=RequestKind.CALL,
        title="Home wants to send",
        folder="home",
        session=None,
        asked_by="Bob",
        asked_in="family",
        said="tell them\x1b[2J",
        tool="send",
        why="a rule",
        preview="",
        fields=[PermitField(label="Text", value="harmless " * 500 + "⟨U+001B⟩[2Jevil")],
        input={},
        cut=False,
        editable=False,
        state=RequestState.PENDING,
        decision="",
        quorum=1,
        voters=[],
        choices=[],
        questions=[],
        asked_at=0,
        expires_at=None,
    )
    assert render_request(asked) == [
        "Home wants to send",
        "  Asked by Bob in “family”: “tell them␛[2J”",
        "  a rule",
        f"  Text: {'harmless ' * 500}⟨U+001B⟩[2Jevil",
        "gatepost permit allow p-1, or gatepost permit deny p-1",
    ]
