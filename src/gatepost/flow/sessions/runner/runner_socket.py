"""`runner.sock`, the host's end: one connection of one runner, framed by lines, bounded in size, number and rate.

Frames are taken off the connection in order and handed over in batches. Only a few are read in one turn of the event
loop. A runner that sends faster than the ledger can write, or than its rate, is not read from until it has caught up;
one that does not stop is ended.

Results come over `runner.sock`, tool calls over `router.sock`; `ResultOrder` gives both one order. Before a call with
an effect is let through, the runner is asked to hand over what the agent said before it. Its frames are taken in order.
So by its answer those results are in the outbox, and whatever the call sends comes behind them. Every wait is bounded:
a runner that does not answer delays its own agent's calls and nobody else.
"""

import asyncio
from collections.abc import Callable

import msgspec

from gatepost.core import log
from gatepost.core.json_limits import MOST_VALUES, has_few_values
from gatepost.core.process.unix_sockets import peer_pid
from gatepost.core.token_bucket import VOLUME, Rate, TokenBucket
from gatepost.mailbox import runner_frames

MOST_WAITING = 256
MOST_AT_ONCE = 64  # frames in one turn of the loop
FRAMES = Rate(per_second=200, burst=2000, patience_s=60)
LONGEST_FAULT = 200  # characters: what was wrong may name what the runner sent
FLOOD = f"the agent's runner sends more than {FRAMES.per_second:g} frames a second"
LONGEST_S = 2.0  # for the runner's answer; it waits half as long for its provider's announcement
MOST_UNSEEN = 3  # calls in a row that no provider announced: the connection is a script's, and waits no longer …
# … or that the runner did not answer for
MOST_CONNECTIONS = 64  # that are remembered
_log = log.get("sessions")


class RunnerSocket(asyncio.Protocol):
    """One connection. `frames()` gives what has arrived; `lost` is set when it is over and all of it was read."""

    def __init__(
        self, admit: Callable[["RunnerSocket", int], bool], rate: Rate = FRAMES, now: Callable[[], float] | None = None
    ) -> None:
        """`now`: seconds; the loop's own by default."""
        self._admit = admit
        self._loop = asyncio.get_running_loop()
        self._now = now or self._loop.time
        self._bucket, self._volume = TokenBucket(rate, self._now()), TokenBucket(VOLUME, self._now())
        self._buffer = bytearray()
        self._frames: list[runner_frames.FromRunner] = []
        self._arrived = asyncio.Event()
        self._paused = self._full = self._closed = False
        self._later: asyncio.Handle | None = None  # there is more in the buffer, and its turn comes
        self._owes = False  # more was read than its rate allows, which is waited for
        self._transport: asyncio.Transport | None = None
        self.fault = ""
        self.flooded = False
        self.lost = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvloop's has no such base
        if not self._admit(self, peer_pid(transport.get_extra_info("socket"))):
            self.lost = True
            transport.abort()
            return
        self._transport = transport

    def pause_writing(self) -> None:
        """Stop reading from a runner that does not read what it is told."""
        self._full = True
        self._hold()

    def resume_writing(self) -> None:
        self._full = False
        self._release()

    def _hold(self) -> None:
        if self._transport is not None and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    @property
    def _is_crowded(self) -> bool:
        """Return True while nothing more is taken: what is answered is not read, or what was taken is not handled."""
        return self._full or len(self._frames) > MOST_WAITING

    def _release(self) -> None:
        if self._later is None and not self._is_crowded and b"\n" in self._buffer:
            self._read()
        if self._transport is not None and self._paused and self._later is None and not self._is_crowded:
            self._paused = False
            self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Read what it still said before it went."""
        self._transport = None
        self._closed = True
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._read()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) > runner_frames.LARGEST and b"\n" not in self._buffer:
            self._fail(f"a message of more than {runner_frames.LARGEST} bytes")
        elif self._later is None:
            self._read()

    def _read(self) -> None:
        """Read a few frames of the buffer, and the rest in a later turn of the loop."""
        self._later = None
        if self._is_crowded and not self._closed:
            return self._hold()
        debt = max(self._bucket.charge(0, self._now()), self._volume.charge(0, self._now())) if self._owes else 0.0
        if debt and not self._closed:
            self._hold()
            self._later = self._loop.call_later(debt, self._go_on)
            return None
        number, start = 0, 0
        while number < MOST_AT_ONCE and (end := self._buffer.find(b"\n", start)) >= 0:
            if not self._parse_line(bytes(self._buffer[start:end])):
                return None
            number, start = number + 1, end + 1
        del self._buffer[:start]
        if number:
            self._arrived.set()
        wait = max(self._bucket.charge(number, self._now()), self._volume.charge(start, self._now()))
        self._owes = wait > 0
        if self._bucket.slowed_since is not None and self._bucket.is_flooded(self._now()) and not self._closed:
            self.flooded = True
            return self._fail(FLOOD)
        more = number == MOST_AT_ONCE and b"\n" in self._buffer
        if self._closed and not more:
            self.lost = True
            self._arrived.set()
        elif more or wait:
            self._hold()
            self._later = self._loop.call_later(0 if self._closed else wait, self._go_on)
        elif self._is_crowded:
            self._hold()
        return None

    def _go_on(self) -> None:
        self._read()
        self._release()

    def _parse_line(self, line: bytes) -> bool:
        if len(line) > runner_frames.LARGEST:
            self._fail(f"a message of more than {runner_frames.LARGEST} bytes")
        elif len(line) > MOST_VALUES and not has_few_values(line):
            self._fail(f"a message of more than {MOST_VALUES} values")
        else:
            try:
                self._frames.append(runner_frames.read_from_runner(line))
            except (msgspec.DecodeError, RecursionError) as error:
                self._fail(f"a message that cannot be read: {error}"[:LONGEST_FAULT])
        return not self.lost

    async def frames(self) -> list[runner_frames.FromRunner]:
        """Return what has arrived since the last call, at least one; empty when the connection is over."""
        while True:
            await self._arrived.wait()
            taken, self._frames = self._frames, []
            if not self.lost:
                self._arrived.clear()
            if self._paused:
                self._release()
            if taken or self.lost:
                return taken

    def send(self, frame: runner_frames.Frame) -> None:
        if self._transport is not None:
            self._transport.write(runner_frames.encode_frame(frame))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _fail(self, fault: str) -> None:
        self.fault = fault
        self.lost = True
        self._buffer.clear()
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self._transport is not None:
            self._transport.abort()
        self._arrived.set()


class ResultOrder:
    """`say` puts a frame on the runner's socket. `at_work`: whether a turn runs that could have said something."""

    def __init__(self, say: Callable[[runner_frames.Frame], None], at_work: Callable[[], bool]) -> None:
        self._say, self._at_work = say, at_work
        self._last = 0
        self._waiting: dict[int, asyncio.Future[bool]] = {}
        self._unanswered = 0  # in a row: a runner that does not read is not written to any more
        self._unseen: dict[str, int] = {}  # by connection: calls in a row that were not announced
        self._scripts = 0  # connections in a row whose first call was not announced

    async def flush_results(self, tool: str, call_id: str) -> None:
        """Return when everything that the agent said before this call is in the outbox, or the bound has passed."""
        if not self._at_work() or self._unanswered >= MOST_UNSEEN:
            return
        connection = call_id.rpartition(".")[0]
        fresh = connection not in self._unseen
        unseen = self._scripts if fresh else self._unseen[connection]  # a script may connect anew for every call
        self._last += 1
        number, answer = self._last, asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        self._say(runner_frames.FlushFrame(id=number, tool=tool, wait=unseen < MOST_UNSEEN))
        try:
            async with asyncio.timeout(LONGEST_S):
                seen = await answer
        except TimeoutError:
            self._unanswered += 1
            _log.warning("a runner did not hand over in time what was said before a call", tool=tool)
            return
        finally:
            del self._waiting[number]
        if len(self._unseen) >= MOST_CONNECTIONS:
            self._unseen.clear()
        self._unseen[connection] = 0 if seen else unseen + 1
        if seen or fresh:
            self._scripts = 0 if seen else self._scripts + 1

    def receive_flush_reply(self, frame: runner_frames.FlushReplyFrame) -> None:
        self._unanswered = 0
        answer = self._waiting.get(frame.id)
        if answer is not None and not answer.done():
            answer.set_result(frame.seen)
