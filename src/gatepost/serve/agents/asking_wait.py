"""Waiting for an agent on behalf of a client that can be asked: the client's person answers the agent's requests.

An answer goes through the gate as the client's own call of `respond_to_permission`. The first answer counts, wherever
it comes from. A request without an answer stays open, as any other does.
"""

import asyncio
from typing import Any

import msgspec

from gatepost.serve.agents.elicitation_form import (
    ElicitationForm,
    FormAnswer,
    FormResponse,
    make_form,
    parse_response,
)
from gatepost.serve.agents.eliciting_client import ELICITING, NO_ANSWER, CallingClient
from gatepost.serve.agents.service import AgentService
from gatepost.serve.control.arguments.agents import PendingRequest, WaitOutcome

RESPOND = "respond_to_permission"


def get_resumed_agent() -> str | None:
    """The agent of a call that its client makes again with an answer: it is made, and has its prompt, already."""
    calling = ELICITING.get()
    return calling.client.resumed if calling is not None else None


async def wait_and_ask(service: AgentService, agent_id: str) -> WaitOutcome:
    """As `service.wait`, and no longer. Each request is asked once."""
    calling, until = ELICITING.get(), service.get_wait_end()
    outcome = await service.wait(get_resumed_agent() or agent_id)
    seen: set[str] = set()
    while calling is not None and outcome.permission is not None and outcome.permission.id not in seen:
        asked = outcome.permission
        seen.add(asked.id)
        form = make_form(asked, outcome.title or outcome.agent_id, arrays=calling.client.arrays)
        left = service.count_left(until)
        if form is None or left <= 0 or not await calling.sees(RESPOND):
            break
        response = await _ask(service, calling, outcome.agent_id, form, left)
        answer = parse_response(asked, response) if response is not None else None
        if answer is not None:
            await _respond(calling, outcome.agent_id, asked, answer)
        elif response is not None:
            break
        outcome = await service.wait(outcome.agent_id, service.count_left(until))
    return outcome


async def _ask(
    service: AgentService, calling: CallingClient, agent_id: str, form: ElicitationForm, left: float
) -> FormResponse | None:
    """None: it does not wait any more, somebody else was first."""
    client = asyncio.ensure_future(calling.client.ask(agent_id, form))
    others = asyncio.ensure_future(service.wait(agent_id, left, asking=form.request_id))
    both: set[asyncio.Future[Any]] = {client, others}
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if client.done():
            return client.result()
        return NO_ANSWER if others.result().waited_out else None
    finally:
        for each in both:
            each.cancel()
        await asyncio.gather(*both, return_exceptions=True)


async def _respond(calling: CallingClient, agent_id: str, asked: PendingRequest, answer: FormAnswer) -> None:
    """A refusal changes nothing: whoever waits sees whether the request still does."""
    response: dict[str, Any] = {"behavior": "allow" if answer.allow else "deny", "message": answer.message}
    if answer.updated is not None:
        response["updatedInput"] = answer.updated
    given = {"agentId": agent_id, "requestId": asked.id, "response": response}
    await calling.call(RESPOND, msgspec.json.encode(given))
