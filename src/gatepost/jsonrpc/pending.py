"""Requests of this side that wait for their answers. Each is answered at most once."""

import asyncio

import msgspec

from gatepost.jsonrpc.messages import JsonRpcMessage, RequestId, parse_failure


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
