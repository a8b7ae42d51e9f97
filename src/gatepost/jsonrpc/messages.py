"""One JSON-RPC message, parsed as far as every side needs it. The rest stays raw."""

from typing import Annotated

import msgspec
from msgspec import Meta

from gatepost.jsonrpc.errors import INVALID_REQUEST, PARSE_ERROR, JsonRpcFailure

LARGEST_DATA = 64 * 1024  # bytes of an error's `data`; the other side may fill it with anything
LONGEST_ID = 255  # characters: ids are kept as long as their requests are open
RequestId = Annotated[int, Meta(ge=-(2**53), le=2**53)] | Annotated[str, Meta(max_length=LONGEST_ID)]


class JsonRpcMessage(msgspec.Struct):
    """A request has a method and an id, a notification a method alone, an answer a result or an error."""

    jsonrpc: str = ""
    method: str | None = None
    id: RequestId | msgspec.UnsetType | None = msgspec.UNSET
    params: msgspec.Raw = msgspec.Raw(b"{}")
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _ErrorObject(msgspec.Struct):
    code: int = 0
    message: str = ""
    data: msgspec.Raw = msgspec.Raw(b"null")


parse_message = msgspec.json.Decoder(JsonRpcMessage).decode
encode = msgspec.json.Encoder().encode
_parse_error = msgspec.json.Decoder(_ErrorObject).decode


def parse_or_fail(data: bytes) -> JsonRpcMessage:
    """A message of a client. JsonRpcFailure tells it what is wrong."""
    try:
        return parse_message(data)
    except msgspec.ValidationError as error:
        text = "batches are not accepted" if data.lstrip()[:1] == b"[" else f"Invalid request: {error}"
        raise JsonRpcFailure(INVALID_REQUEST, text) from None
    except (ValueError, RecursionError) as error:
        raise JsonRpcFailure(PARSE_ERROR, f"Parse error: {error}") from None


def render_request(request: RequestId, method: str, params: object) -> bytes:
    return encode({"jsonrpc": "2.0", "id": request, "method": method, "params": params})


def render_notification(method: str, params: object = msgspec.UNSET) -> bytes:
    more = {} if params is msgspec.UNSET else {"params": params}
    return encode({"jsonrpc": "2.0", "method": method, **more})


def render_result(request: RequestId, result: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (encode(request), result)


def render_error(request: RequestId | None, code: int, text: str, data: object = None) -> bytes:
    return encode({"jsonrpc": "2.0", "id": request, "error": JsonRpcFailure(code, text, data).to_json()})


def parse_failure(error: msgspec.Raw) -> JsonRpcFailure:
    """The error of an answer. One that makes no sense is an error all the same."""
    data = None
    try:
        found = _parse_error(error)
        if len(memoryview(found.data)) <= LARGEST_DATA:
            data = msgspec.json.decode(found.data)
    except (ValueError, RecursionError):
        found = _ErrorObject()
    return JsonRpcFailure(found.code, found.message or "an error without words", data)
