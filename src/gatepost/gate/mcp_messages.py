"""The messages of MCP that this side reads and writes, as far as it parses them. The rest stays raw."""

from typing import Any, Literal

import msgspec

from gatepost.gate.tool_answers import ToolAnswer
from gatepost.jsonrpc.messages import RequestId, encode

LARGEST_META = 64 * 1024  # bytes
NULL = len(b"null")


class McpParams(msgspec.Struct):
    raw_meta: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"null"), name="_meta")

    def __post_init__(self) -> None:
        """It is anybody's, so it is made into objects only if it is small."""
        size = len(memoryview(self.raw_meta))
        if size > LARGEST_META:
            raise ValueError(f"_meta may have at most {LARGEST_META} bytes")
        if size > NULL:
            _read_meta(self.raw_meta)

    @property
    def meta(self) -> dict[str, Any] | None:
        """It is parsed anew at each use."""
        found: dict[str, Any] | None = _read_meta(self.raw_meta) if len(memoryview(self.raw_meta)) > NULL else None
        return found


class CallParams(McpParams, kw_only=True):
    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class CallRequest(msgspec.Struct, tag_field="method", tag="tools/call"):
    """A call parsed at one go, as nearly every one can be."""

    jsonrpc: Literal["2.0"]
    id: RequestId
    params: CallParams


class InitializeParams(McpParams, kw_only=True):
    protocolVersion: str


class ListenNotifications(msgspec.Struct):
    toolsListChanged: bool | None = None


class ListenParams(McpParams):
    notifications: ListenNotifications = msgspec.field(default_factory=ListenNotifications)


class McpListedTool(msgspec.Struct, omit_defaults=True):
    """A tool as another server lists it. Other fields are not read."""

    name: str
    description: str = ""
    inputSchema: dict[str, Any] = msgspec.field(default_factory=dict)
    outputSchema: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None


class ToolListResult(msgspec.Struct):
    tools: list[McpListedTool]
    nextCursor: str | None = None


class RemoteCallResult(msgspec.Struct):
    """The answer of another server to a call."""

    content: list[dict[str, Any]] = msgspec.field(default_factory=list)
    structuredContent: dict[str, Any] | None = None
    isError: bool = False


class CancelledParams(msgspec.Struct):
    requestId: RequestId


class TurnParams(msgspec.Struct):
    turn_id: str


class McpTextContent(msgspec.Struct):
    text: str
    type: str = "text"


class CallResult(msgspec.Struct, omit_defaults=True):
    content: list[McpTextContent] | msgspec.Raw
    structuredContent: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    isError: bool | msgspec.UnsetType = msgspec.UNSET
    resultType: str | msgspec.UnsetType = msgspec.UNSET
    meta: msgspec.Raw | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="_meta")


_read_meta = msgspec.json.Decoder(dict[str, Any] | None).decode
read_call_request = msgspec.json.Decoder(CallRequest).decode
read_params = msgspec.json.Decoder(McpParams | None).decode
read_call = msgspec.json.Decoder(CallParams).decode
read_initialize = msgspec.json.Decoder(InitializeParams).decode
read_listen = msgspec.json.Decoder(ListenParams).decode
read_cancelled = msgspec.json.Decoder(CancelledParams).decode
read_turn = msgspec.json.Decoder(TurnParams).decode
read_list_result = msgspec.json.Decoder(ToolListResult).decode
read_given_result = msgspec.json.Decoder(RemoteCallResult).decode
read_object = msgspec.json.Decoder(dict[str, object]).decode


def render_answer(answer: ToolAnswer, stamp: msgspec.Raw | msgspec.UnsetType) -> bytes:
    """The result of a call. `stamp`: the `_meta` of the 2026 revision."""
    content = [McpTextContent(answer.text)] if answer.content is None else msgspec.Raw(answer.content)
    result = CallResult(content, isError=answer.failed)
    if answer.structured is not None:
        result.structuredContent = msgspec.Raw(answer.structured)
    if stamp is not msgspec.UNSET:
        result.resultType, result.meta = "complete", stamp
    return encode(result)
