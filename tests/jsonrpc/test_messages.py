"""Requests that wait for their answers, without any transport."""

import msgspec
import pytest

from gatepost.jsonrpc.messages import LARGEST_DATA, PendingRequests, parse_failure, parse_message
from gatepost.jsonrpc.protocol import JsonRpcFailure


async def test_the_first_answer_settles_a_request_and_every_other_is_dropped() -> None:
    pending = PendingRequests()
    request, future = pending.add()
    request_of_the_other_side = b'{"id":1,"method":"ping"}'
    for line in (
        b'{"id":99,"result":1}',
        request_of_the_other_side,
        b'{"id":1,"result":{"a":1}}',
        b'{"id":1,"result":2}',
    ):
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


def test_the_data_of_an_error_is_parsed_only_if_it_is_small() -> None:
    most = b"[%b]" % b",".join([b"0"] * ((LARGEST_DATA - 1) // 2))
    for data, kept in ((most, True), (most + b"   ", True), (most.replace(b"[0", b"[0,0"), False)):
        failure = parse_failure(msgspec.Raw(b'{"code":1,"message":"m","data":%b}' % data))
        assert (failure.message, failure.data is not None) == ("m", kept)


async def test_a_request_that_was_removed_is_never_answered_and_the_others_fail_together() -> None:
    pending = PendingRequests()
    (first, left), (_, kept) = pending.add("mine"), pending.add()
    pending.remove(first)
    pending.answer(parse_message(b'{"id":"mine","result":1}'))
    pending.fail(ConnectionResetError("gone"))
    assert left.cancelled()
    with pytest.raises(ConnectionResetError):
        await kept
