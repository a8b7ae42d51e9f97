"""Elicitation in the words of the official SDK, for both eras. Imported together with it, when it is needed."""

import asyncio
from typing import Any

from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp_types import (
    CallToolRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequests,
    InputRequiredResult,
)

from gatepost.core import log
from gatepost.core.errors import Invalid
from gatepost.jsonrpc.errors import INVALID_PARAMS
from gatepost.serve.agents.elicitation_form import ElicitationForm, FormAction, FormResponse
from gatepost.serve.agents.eliciting_client import (
    FORMS_SINCE,
    NO_ANSWER,
    CallState,
    OpenForm,
    RetryClient,
    parse_state,
    render_state,
    supports_forms,
)

_log = log.get("mcp")


class StreamForms:
    """The forms of one call, on its own stream, one at a time."""

    def __init__(self, ctx: ServerRequestContext[Any, Any]) -> None:
        self._session, self._request = ctx.session, ctx.request_id
        self._open: OpenForm | None = None
        self._task: asyncio.Task[None] | None = None

    async def set_open(self, wanted: OpenForm | None) -> None:
        """Ask this one. The client is told that another, which it has not answered, is over."""
        if wanted is self._open:
            return
        self._open, task, self._task = wanted, self._task, None
        if wanted is not None:
            self._task = asyncio.get_running_loop().create_task(self._ask(wanted))
        if task is not None and not task.done():
            task.cancel()  # the SDK writes the notification, and waits for that only so long
            await asyncio.wait({task})

    async def _ask(self, wanted: OpenForm) -> None:
        try:
            said = await self._session.elicit_form(wanted.form.message, wanted.form.schema, self._request)
            wanted.answer(_read_result(said))
        except Exception as error:  # noqa: BLE001  whatever a client makes of it, the request waits as before
            _log.info("a client did not take a form", request=wanted.form.request_id, error=type(error).__name__)
            wanted.answer(NO_ANSWER)


def read_forms_version(ctx: ServerRequestContext[Any, Any]) -> str:
    """The revision that a client speaks, if it can be asked by forms; else nothing."""
    declared, version = ctx.session.client_capabilities, ctx.session.protocol_version
    known = declared is not None and supports_forms(declared.model_dump(by_alias=True, exclude_none=True))
    return version if known and version >= FORMS_SINCE else ""


def read_retry(params: CallToolRequestParams, able: bool) -> RetryClient | None:
    """A call that is made again has its state, whatever its client declares now: its first part is not done twice."""
    if params.request_state is None:
        return RetryClient() if able else None
    try:
        state = parse_state(params.request_state)
    except Invalid as error:
        raise MCPError(INVALID_PARAMS, str(error)) from None
    given = (params.input_responses or {}).get(state.request_id)
    return RetryClient(state, _read_result(given) if isinstance(given, ElicitResult) else NO_ANSWER, able)


def render_wanted(state: CallState, form: ElicitationForm) -> InputRequiredResult:
    params = ElicitRequestFormParams(message=form.message, requested_schema=form.schema)
    requests: InputRequests = {form.request_id: ElicitRequest(params=params)}
    return InputRequiredResult(input_requests=requests, request_state=render_state(state))


def _read_result(said: ElicitResult) -> FormResponse:
    return FormResponse(FormAction(said.action), said.content)
