"""One JSON-RPC message, parsed as far as every side needs it; the rest stays raw. Requests of this side wait for their
answers, and each is answered at most once."""

import asyncio
from typing import Annotated

import msgspec
from msgspec import Meta

from gatepost.jsonrpc.protocol import INVALID_REQUEST, PARSE_ERROR, JsonRpcFailure

LARGEST_DATA = 64 * 1024  # bytes of an error's `data`; the other side may fill it with anything
LONGEST_ID = 255  # characters: ids are kept as long as their requests are open
RequestId = Annotated[int, Meta(ge=-(2**53), le=2**53)] | Annotated[str, Meta(max_length=LONGEST_ID)]
encode = msgspec.json.Encoder().encode


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


class PendingRequests:
    def __init__(self) -> None:
        self._last = 0
        self._waiting: dict[RequestId, asyncio.Future[bytes]] = {}

    def add(self, request: RequestId | None = None) -> "tuple[RequestId, asyncio.Future[bytes]]":
        """The id of a new request, and the future of its result as JSON. Without an id it gets the next number."""
        self._last += 1
        key = self._last if request is None else request
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[key] = future
        return key, future

    def remove(self, request: RequestId) -> None:
        """Nobody waits for it any more."""
        if (future := self._waiting.pop(request, None)) is not None:
            future.cancel()

    def answer(self, message: JsonRpcMessage) -> None:
        """Settle the request of an answer: with its result, or with a JsonRpcFailure. Other messages are dropped."""
        future = self._waiting.get(message.id) if isinstance(message.id, int | str) else None
        if future is None or future.done() or message.method is not None:
            return
        if message.error is not msgspec.UNSET and bytes(message.error) != b"null":
            future.set_exception(parse_failure(message.error))
        else:
            future.set_result(b"null" if message.result is msgspec.UNSET else bytes(message.result))

    def fail(self, error: Exception) -> None:
        """Nobody will answer: all of them fail."""
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)
