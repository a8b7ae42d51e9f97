"""The client of a call, as somebody who can be asked.

Up to 2025-11-25 it is asked by a form on the call's own stream. In 2026-07-28 the answer asks for input, and the client
calls again.

A tool finds the client in `ELICITING`. A client that is not there cannot be asked: requests of agents then wait for
another answer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Protocol

import msgspec

from gatepost.core.errors import Invalid
from gatepost.gate.tool_answers import ToolAnswer
from gatepost.serve.agents.elicitation_form import ElicitationForm, FormAction, FormResponse

ARRAYS_SINCE = "2025-11-25"  # the first revision with fields that take several choices
FORMS_SINCE = "2025-06-18"
MOST_ROUNDS = 8  # of one call; official clients give up after ten
LONGEST_STATE = 1000  # characters

NO_ANSWER = FormResponse(FormAction.CANCEL)


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
