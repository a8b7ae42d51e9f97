"""The runner's line: in order, bounded in size, number and rate. A runner is asked for its results before a call."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from gatepost.core.json_limits import MOST_VALUES
from gatepost.core.token_bucket import Rate
from gatepost.flow.sessions.runner.runner_socket import (
    FLOOD,
    FRAMES,
    MOST_AT_ONCE,
    MOST_UNSEEN,
    MOST_WAITING,
    ResultOrder,
    RunnerSocket,
)
from gatepost.mailbox import runner_frames
from gatepost_testing.waiting import PATIENCE_S

PING = runner_frames.encode_frame(runner_frames.PingFrame())


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


@asynccontextmanager
async def connected(
    rate: Rate = FRAMES, now: Callable[[], float] | None = None
) -> AsyncIterator[tuple[RunnerSocket, socket.socket]]:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    loop = asyncio.get_running_loop()
    _, line = await loop.connect_accepted_socket(lambda: RunnerSocket(lambda line, pid: True, rate, now), ours)
    with theirs:
        yield line, theirs
    line.close()


async def read_all(
    line: RunnerSocket, found: list[runner_frames.FromRunner] | None = None
) -> list[runner_frames.FromRunner]:
    found = [] if found is None else found
    while frames := await line.frames():
        found += frames
    return found


async def test_stranger_04_few_frames_are_read_in_one_turn_of_the_loop_and_none_is_lost() -> None:
    async with connected() as (line, runner):
        rows = [
            runner_frames.encode_frame(runner_frames.RowsBegunFrame(id=number, turn="t", epoch=1, rows=[]))
            for number in range(1000)
        ]
        reading = asyncio.create_task(read_all(line))
        await asyncio.get_running_loop().sock_sendall(runner, b"".join(rows))
        runner.close()
        frames = await reading

    assert [frame.id for frame in frames if isinstance(frame, runner_frames.RowsBegunFrame)] == list(range(1000))
    assert not line.fault


async def test_stranger_04_a_batch_is_small() -> None:
    async with connected() as (line, runner):
        await asyncio.get_running_loop().sock_sendall(runner, PING * (3 * MOST_AT_ONCE))

        assert len(await line.frames()) <= MOST_AT_ONCE


async def _rest() -> None:
    for _ in range(500):
        await asyncio.sleep(0)


async def test_of_what_a_runner_has_sent_no_more_is_taken_than_is_handled() -> None:
    async with connected() as (line, runner):
        await asyncio.get_running_loop().sock_sendall(runner, PING * 1900)
        await _rest()
        first = len(await line.frames())
        runner.close()
        rest = len(await read_all(line))

    assert first <= MOST_WAITING + MOST_AT_ONCE and first + rest == 1900


async def test_nothing_more_is_taken_from_a_runner_that_does_not_read_and_all_of_it_later() -> None:
    answer = runner_frames.WelcomeFrame(session="s", folder="f", name="n", provider="p", summary="x" * 400_000)
    loop = asyncio.get_running_loop()
    async with connected() as (line, runner):
        await loop.sock_sendall(runner, PING * 1000)
        found = list(await line.frames())
        line.send(answer)
        line.send(answer)
        reading = asyncio.create_task(read_all(line, found))
        await _rest()
        assert len(found) <= 4 * MOST_AT_ONCE

        heard, size = 0, len(runner_frames.encode_frame(answer))
        async with asyncio.timeout(PATIENCE_S):
            while heard < 2 * size:
                heard += len(await loop.sock_recv(runner, 65536))
        runner.close()
        await reading
    assert len(found) == 1000


async def test_stranger_04_a_runner_that_floods_is_slowed() -> None:
    rate = Rate(per_second=1000, burst=100, patience_s=60)
    async with connected(rate, lambda: 0.0) as (line, runner):  # the time stands still: nothing is refilled
        await asyncio.get_running_loop().sock_sendall(runner, PING * 1000)
        taken = 0
        while taken < 128:
            taken += len(await line.frames())
        waiting = asyncio.create_task(line.frames())
        for _ in range(100):
            await asyncio.sleep(0)

        assert taken == 128 and not waiting.done()  # two reads of 64: the second one went into debt
        waiting.cancel()


async def test_stranger_04_a_runner_that_does_not_stop_is_ended_with_the_reason() -> None:
    times = iter(range(10_000))
    rate = Rate(per_second=1_000_000, burst=0, patience_s=0)
    async with connected(rate, lambda: next(times) / 1_000_000) as (line, runner):
        await asyncio.get_running_loop().sock_sendall(runner, PING * 1000)
        frames = await read_all(line)

    assert len(frames) < 1000
    assert line.flooded and line.fault == FLOOD
    assert "more than 200 frames a second" in FLOOD


async def test_stranger_04_a_frame_of_many_values_is_refused_before_it_is_built() -> None:
    frame = b'{"type":"event","turn":"","kind":"x","data":{"a":[' + b"1," * (MOST_VALUES + 1) + b"1]}}\n"
    async with connected() as (line, runner):
        await asyncio.get_running_loop().sock_sendall(runner, frame)

        assert await read_all(line) == []
        assert line.fault == f"a message of more than {MOST_VALUES} values"


async def _fault_of(raw: bytes) -> str:
    async with connected() as (line, runner):
        reading = asyncio.create_task(read_all(line))
        await asyncio.get_running_loop().sock_sendall(runner, raw + b"\n")
        assert await reading == []
    return line.fault


async def test_stranger_new_a_frame_that_is_nested_too_deeply_is_a_bad_frame_like_any_other() -> None:
    nested = b'{"type":"event","turn":"t","kind":"tool_use","data":{"input":' + b"[" * 3000 + b"]" * 3000 + b"}}"

    assert "cannot be read" in await _fault_of(nested)


async def test_stranger_new_a_bad_frame_is_named_in_few_words() -> None:
    fault = await _fault_of(b'{"type":"' + b"x" * 900_000 + b'"}')

    assert "cannot be read" in fault and len(fault) < 500


class Runner:
    """Answers at once."""

    def __init__(self, *, seen: bool) -> None:
        self.seen, self.asked = seen, list[runner_frames.FlushFrame]()
        self.at_work = True
        self.order = ResultOrder(self.hear, lambda: self.at_work)

    def hear(self, frame: runner_frames.Frame) -> None:
        assert isinstance(frame, runner_frames.FlushFrame)
        self.asked.append(frame)
        self.order.receive_flush_reply(runner_frames.FlushReplyFrame(id=frame.id, seen=self.seen))


async def test_stranger_19_a_call_outside_of_a_turn_asks_nobody() -> None:
    runner = Runner(seen=True)
    runner.at_work = False
    await runner.order.flush_results("send", "c-1.1")
    assert runner.asked == []


async def test_stranger_19_a_connection_whose_calls_nobody_announces_waits_no_longer() -> None:
    runner = Runner(seen=False)
    for number in range(MOST_UNSEEN + 1):
        await runner.order.flush_results("send", f"c-1.{number}")
    await runner.order.flush_results("send", "c-2.1")
    assert [frame.wait for frame in runner.asked] == [True] * MOST_UNSEEN + [False, True]

    runner.seen = True
    await runner.order.flush_results("send", "c-1.9")
    await runner.order.flush_results("send", "c-1.10")
    assert runner.asked[-1].wait


async def test_stranger_19_an_answer_that_nobody_waits_for_is_ignored() -> None:
    runner = Runner(seen=True)
    runner.order.receive_flush_reply(runner_frames.FlushReplyFrame(id=77))
    await runner.order.flush_results("send", "c-1.1")
    assert len(runner.asked) == 1


async def test_a_script_that_connects_anew_for_every_call_is_delayed_a_few_times_only() -> None:
    runner = Runner(seen=False)
    for number in range(MOST_UNSEEN + 5):
        await runner.order.flush_results("send", f"c-{number}.1")
    assert [frame.wait for frame in runner.asked] == [True] * MOST_UNSEEN + [False] * 5

    runner.seen = True  # an agent's own client speaks again: what connects next may be one, too
    await runner.order.flush_results("send", "c-90.1")
    await runner.order.flush_results("send", "c-91.1")
    assert runner.asked[-1].wait
