"""Clients that can be asked: what they declare, one form at a time, and so many rounds of a call."""

import asyncio
from typing import Any

import pytest

from gatepost.core.errors import Invalid
from gatepost.serve.agents.elicitation_form import ElicitationForm, FormAction, FormResponse
from gatepost.serve.agents.eliciting_client import (
    MOST_ROUNDS,
    NO_ANSWER,
    CallState,
    RetryClient,
    StreamClient,
    parse_state,
    render_state,
    supports_forms,
)

ACCEPTED = FormResponse(FormAction.ACCEPT, {"decision": "allow"})


def form(request: str) -> ElicitationForm:
    return ElicitationForm(request, "?", {})


@pytest.mark.parametrize(
    ("declared", "able"),
    [
        ({"elicitation": {}}, True),
        ({"elicitation": {"form": {}}}, True),
        ({"elicitation": {"form": {}, "url": {}}}, True),
        ({"elicitation": {"url": {}}}, False),
        ({"elicitation": None}, False),
        ({"elicitation": True}, False),
        ({}, False),
        (None, False),
    ],
)
def test_naming_no_mode_means_forms(declared: Any, able: bool) -> None:
    assert supports_forms(declared) is able


async def test_a_stream_has_one_open_form() -> None:
    client = StreamClient("2025-06-18")
    assert not client.arrays
    first = asyncio.create_task(client.ask("s-1", form("p-1")))
    await asyncio.sleep(0)
    assert await client.ask("s-1", form("p-2")) is NO_ANSWER
    assert client.open is not None and client.open.form.request_id == "p-1"
    client.open.answer(ACCEPTED)
    assert await first is ACCEPTED
    assert client.open is None


async def test_an_answer_is_for_the_request_that_was_asked() -> None:
    client = RetryClient(CallState("s-1", "p-1", 1), ACCEPTED)
    assert await client.ask("s-1", form("p-1")) is ACCEPTED
    assert client.wanted is None
    assert await client.ask("s-1", form("p-2")) is NO_ANSWER
    assert client.wanted == (CallState("s-1", "p-2", 2), form("p-2"))


async def test_a_call_has_so_many_rounds() -> None:
    client = RetryClient(CallState("s-1", "p-1", MOST_ROUNDS), ACCEPTED)
    assert await client.ask("s-1", form("p-2")) is NO_ANSWER
    assert client.wanted is None


def test_a_state_comes_back_as_it_was() -> None:
    state = CallState("s-1", "p-1", 3)
    assert parse_state(render_state(state)) == state
    with pytest.raises(Invalid, match="wait_for_agent"):
        parse_state('{"agent_id":"s-1","request_id":"p-1","round":1,"more":1}')
