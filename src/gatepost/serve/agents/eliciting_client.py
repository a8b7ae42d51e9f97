"""The client of a call, as somebody who can be asked, and waiting for an agent on behalf of one.

Up to 2025-11-25 it is asked by a form on the call's own stream. In 2026-07-28 the answer asks for input, and the client
calls again.

A tool finds the client in `ELICITING`. A client that is not there cannot be asked: requests of agents then wait for
another answer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Protocol

import msgspec

from gatepost.core.errors import Invalid
from gatepost.gate.tool_answers import ToolAnswer
from gatepost.serve.agents.elicitation_form import (
    ElicitationForm,
    FormAction,
    FormAnswer,
    FormResponse,
    make_form,
    parse_response,
)
from gatepost.serve.agents.service import AgentService
from gatepost.serve.control.arguments.agents import PendingRequest, WaitOutcome

ARRAYS_SINCE = "2025-11-25"  # the first revision with fields that take several choices
FORMS_SINCE = "2025-06-18"
MOST_ROUNDS = 8  # of one call; official clients give up after ten
LONGEST_STATE = 1000  # characters

NO_ANSWER = FormResponse(FormAction.CANCEL)
RESPOND = "respond_to_permission"


class CallState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The state that a client brings back when it calls again. It gives no right that the caller does not have
    anyway."""

    agent_id: str
    request_id: str
    round: int


class ElicitingClient(Protocol):
    arrays: bool

    @property
    def resumed(self) -> str | None:
        """The agent of a call that is made again: the first steps of the call are done already. None for a first
        call."""

    async def ask(self, agent_id: str, form: ElicitationForm) -> FormResponse: ...


class OpenForm:
    def __init__(self, form: ElicitationForm) -> None:
        self.form = form
        self.response: asyncio.Future[FormResponse] = asyncio.get_running_loop().create_future()

    def answer(self, response: FormResponse) -> None:
        if not self.response.done():
            self.response.set_result(response)


class StreamClient:
    """Has a stream. One form is open at a time; whoever serves the stream looks at `open` when `changed` is called."""

    resumed: str | None = None

    def __init__(self, version: str) -> None:
        self.arrays = version >= ARRAYS_SINCE
        self.open: OpenForm | None = None
        self.changed: Callable[[], None] = lambda: None

    async def ask(self, agent_id: str, form: ElicitationForm) -> FormResponse:
        if self.open is not None:
            return NO_ANSWER
        self.open = mine = OpenForm(form)
        self.changed()
        try:
            return await mine.response
        finally:
            self.open = None
            self.changed()


class RetryClient:
    """Calls again with its answer. `wanted`: what the call is to be answered with, instead of its result."""

    arrays = True

    def __init__(self, state: CallState | None = None, response: FormResponse = NO_ANSWER, able: bool = True) -> None:
        self._state, self._response, self._able = state, response, able
        self.wanted: tuple[CallState, ElicitationForm] | None = None

    @property
    def resumed(self) -> str | None:
        return self._state.agent_id if self._state is not None else None

    async def ask(self, agent_id: str, form: ElicitationForm) -> FormResponse:
        state = self._state
        if state is not None and state.request_id == form.request_id:
            return self._response
        turn = state.round + 1 if state is not None else 1
        if self._able and turn <= MOST_ROUNDS:
            self.wanted = CallState(agent_id, form.request_id, turn), form
        return NO_ANSWER


class CallingClient(msgspec.Struct, frozen=True):
    """A client that can be asked, and the gate by which its answer goes, like every call of its."""

    client: ElicitingClient
    sees: Callable[[str], Awaitable[bool]]  # whether it may call a tool at all
    call: Callable[[str, bytes], Awaitable[ToolAnswer]]


ELICITING: ContextVar[CallingClient | None] = ContextVar("eliciting", default=None)


def supports_forms(capabilities: object) -> bool:
    """Return True if a client that declares this can show a form. Naming no mode means forms."""
    declared = capabilities.get("elicitation") if isinstance(capabilities, Mapping) else None
    return isinstance(declared, Mapping) and ("form" in declared or "url" not in declared)


def render_state(state: CallState) -> str:
    return msgspec.json.encode(state).decode()


def parse_state(text: str) -> CallState:
    try:
        if len(text) > LONGEST_STATE:
            raise ValueError(f"it has more than {LONGEST_STATE} characters")
        return msgspec.json.decode(text, type=CallState)
    except ValueError as error:
        raise Invalid("requestState", f"it is not one of this server ({error}); call wait_for_agent instead") from None


def get_resumed_agent() -> str | None:
    """The agent of a call that its client makes again with an answer: it is made, and has its prompt, already."""
    calling = ELICITING.get()
    return calling.client.resumed if calling is not None else None


async def wait_and_ask(service: AgentService, agent_id: str) -> WaitOutcome:
    """As `service.wait`, and no longer: the client's person answers the agent's requests. Each request is asked once.

    An answer goes through the gate as the client's own call of `respond_to_permission`. The first answer counts,
    wherever it comes from. A request without an answer stays open, as any other does.
    """
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
