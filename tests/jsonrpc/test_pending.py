"""Requests that wait for their answers, without any transport."""

import pytest

from gatepost.jsonrpc.errors import JsonRpcFailure
from gatepost.jsonrpc.messages import parse_message
from gatepost.jsonrpc.pending import PendingRequests


async def test_the_first_answer_settles_a_request_and_every_other_is_dropped() -> None:
    pending = PendingRequests()
    request, future = pending.add()
    for line in (b'{"id":99,"result":1}', b'{"id":1,"result":{"a":1}}', b'{"id":1,"result":2}', b'{"id":null}'):
        pending.answer(parse_message(line))
    assert (request, await future) == (1, b'{"a":1}')


async def test_an_error_is_raised_where_the_answer_is_awaited_whatever_is_in_it() -> None:
    pending = PendingRequests()
    futures = [pending.add()[1] for _ in range(2)]
    pending.answer(parse_message(b'{"id":1,"error":{"code":-5,"message":"no","data":[1]}}'))
    pending.answer(parse_message(b'{"id":2,"error":"nonsense"}'))
    found = []
    for future in futures:
        with pytest.raises(JsonRpcFailure) as failure:
            await future
        found.append((failure.value.code, failure.value.message, failure.value.data))
    assert found == [(-5, "no", [1]), (0, "an error without words", None)]


async def test_a_request_that_was_removed_is_never_answered_and_the_others_fail_together() -> None:
    pending = PendingRequests()
    (first, left), (_, kept) = pending.add("mine"), pending.add()
    pending.remove(first)
    pending.answer(parse_message(b'{"id":"mine","result":1}'))
    pending.fail(ConnectionResetError("gone"))
    assert left.cancelled()
    with pytest.raises(ConnectionResetError):
        await kept
