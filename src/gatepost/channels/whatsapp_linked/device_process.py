"""The process of the linked device: started, spoken to by lines, and ended. `protocol` has its requests and answers.

A request that was written when the process ended may have happened. One that was not written did not.
"""

import asyncio
import itertools
import os
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec

from gatepost.channels.whatsapp_linked.protocol import (
    LONGEST_LINE,
    Acknowledge,
    Alive,
    Answer,
    Arrived,
    Begin,
    LinkStatus,
    Request,
    parse_device_line,
    render_line,
)
from gatepost.core.errors import Unavailable

MOST_REQUESTS = 16  # under way at the same time
END_S = 3.0  # that it has to end by itself
ANSWER_S = 100.0  # below the patience of the delivery would be a guess; an upload takes long
LAST_WORDS = 5  # lines of its errors that are kept
WHAT = "the linked device"
PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTPS_PROXY")

CHILD = (sys.executable, "-m", "gatepost.channels.whatsapp_linked.child")
RELAY = (sys.executable, "-I", str(Path(__file__).with_name("relay.py")))


class DeviceProcess:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._turns = asyncio.Semaphore(MOST_REQUESTS)
        self._said: deque[str] = deque(maxlen=LAST_WORDS)
        self._ended = False
        self._errors = asyncio.create_task(self._read_errors())

    @property
    def pid(self) -> int:
        return self._process.pid

    async def read_last_words(self) -> str:
        """Why it ended, as far as it said so; one line."""
        await asyncio.wait({self._errors}, timeout=END_S)
        return self._said[-1] if self._said else "its process ended without a word"

    async def list_lines(self) -> AsyncIterator[LinkStatus | Alive | Arrived]:
        """Until it ends; its answers go to those who wait for them. Raises Unavailable for what is no such line."""
        assert self._process.stdout is not None
        try:
            while True:
                try:
                    raw = await self._process.stdout.readline()
                    line = parse_device_line(raw) if raw.endswith(b"\n") else None
                except (ValueError, msgspec.DecodeError) as error:  # ValueError: longer than the bound
                    raise Unavailable(WHAT, f"it wrote what nobody can read: {_shorten(str(error))}") from None
                if line is None:
                    return
                if isinstance(line, Answer):
                    self._settle(line)
                else:
                    yield line
        finally:
            self._end_requests()

    async def call(self, make: Callable[[int], Request], *, reads: bool = False) -> Answer:
        """`reads`: it changes nothing, so an answer that is lost leaves no doubt."""
        async with self._turns:
            if self._ended:
                raise Unavailable(WHAT, "its process has ended")
            number = next(self._numbers)
            answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
            self._waiting[number] = answer
            try:
                await self._write(render_line(make(number)))
                async with asyncio.timeout(ANSWER_S):
                    return await answer
            except TimeoutError:
                raise Unavailable(WHAT, f"no answer within {ANSWER_S:g} s", uncertain=not reads) from None
            except (ConnectionError, _ProcessEnded):
                raise Unavailable(WHAT, "its process ended in the middle", uncertain=not reads) from None
            finally:
                self._waiting.pop(number, None)
                answer.cancel()

    async def begin(self, begin: Begin) -> None:
        await self._write(render_line(begin))

    async def acknowledge(self, number: int) -> None:
        with suppress(ConnectionError):  # the event comes again
            await self._write(render_line(Acknowledge(number)))

    async def _write(self, line: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line)
        except RuntimeError as error:  # uvloop's word for a pipe that the process has closed already
            raise ConnectionResetError(str(error)) from error
        await self._process.stdin.drain()

    def _settle(self, answer: Answer) -> None:
        waiting = self._waiting.get(answer.request)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def _end_requests(self) -> None:
        self._ended = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(_ProcessEnded())

    async def _read_errors(self) -> None:
        assert self._process.stderr is not None
        while True:
            try:
                raw = await self._process.stderr.readline()
            except ValueError:
                continue  # a line beyond the bound was dropped
            if not raw:
                return
            if text := _shorten(raw.decode(errors="replace")):
                self._said.append(text)

    async def stop(self) -> None:
        """It ends when its input closes. If it does not, it is killed, with what it started."""
        assert self._process.stdin is not None
        self._end_requests()
        self._process.stdin.close()
        try:
            async with asyncio.timeout(END_S):
                await self._process.wait()
        except TimeoutError:
            pass
        finally:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()
            self._errors.cancel()
            await asyncio.gather(self._errors, return_exceptions=True)


class _ProcessEnded(Exception):
    pass


@asynccontextmanager
async def running(command: Sequence[str], begin: Begin) -> AsyncIterator[DeviceProcess]:
    """While the block runs. The process gets no variable of ours but the usual ones."""
    started = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={name: os.environ[name] for name in PASSED_ON if name in os.environ},
        cwd=begin.folder,
        limit=LONGEST_LINE,
        start_new_session=True,
    )
    device = DeviceProcess(started)
    try:
        with suppress(ConnectionError):  # it ended already; its last words say why
            await device.begin(begin)
        yield device
    finally:
        await device.stop()


def _shorten(text: str) -> str:
    return " ".join(text.split())[:200]
