"""The runner's one connection to the host: frames out, answers matched by id, everything else handed to `hear`."""

import asyncio
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from gatepost.mailbox import wire

A = TypeVar("A", wire.Done, wire.Claimed)

EARLY = 100  # frames before Welcome that are kept


class Gone(Exception):
    """The host hung up. Nothing that we do from here on reaches anybody."""


class Link:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._waiting: dict[int, asyncio.Future[wire.Done | wire.Claimed]] = {}
        self._early: deque[wire.Frame] = deque(maxlen=EARLY)
        self._last = 0
        self._gone = False

    @classmethod
    async def open(cls, path: Path) -> "Link":
        return cls(*await asyncio.open_unix_connection(str(path), limit=wire.LARGEST + 1))

    def number(self) -> int:
        """The id of the next request."""
        self._last += 1
        return self._last

    def tell(self, frame: wire.Frame) -> None:
        """Say something that has no answer."""
        if not self._gone:
            self._writer.write(wire.line(frame))

    def post(
        self, frame: wire.Begun | wire.Claim | wire.Result | wire.Submit
    ) -> asyncio.Future[wire.Done | wire.Claimed]:
        """Send a request; its answer comes later. Several may be under way."""
        future: asyncio.Future[wire.Done | wire.Claimed] = asyncio.get_running_loop().create_future()
        if self._gone:
            future.set_exception(Gone())
            return future
        self._waiting[frame.id] = future
        self._writer.write(wire.line(frame))
        return future

    async def ask(self, frame: wire.Begun | wire.Result | wire.Submit) -> wire.Done:
        answer = await self.post(frame)
        if not isinstance(answer, wire.Done):
            raise TypeError(f"{type(frame).__name__} was answered by {type(answer).__name__}")
        return answer

    async def claim(self, frame: wire.Claim) -> wire.Claimed:
        answer = await self.post(frame)
        if not isinstance(answer, wire.Claimed):
            raise TypeError(f"Claim was answered by {type(answer).__name__}")
        return answer

    async def welcome(self) -> wire.Welcome:
        """What the runner works by. Whatever the host says before it is kept, and heard in its order after it."""
        while line := await self._line():
            frame = wire.read_from_host(line)
            if isinstance(frame, wire.Welcome):
                return frame
            self._early.append(frame)
        raise Gone

    async def listen(self, hear: Callable[[wire.Frame], None]) -> None:
        """Until the host hangs up. `hear` gets what is not an answer. What makes no sense raises ValueError."""
        while self._early:
            self._pass_on(self._early.popleft(), hear)
        while line := await self._line():
            self._pass_on(wire.read_from_host(line), hear)
        self._hang_up()

    def _pass_on(self, frame: wire.Frame, hear: Callable[[wire.Frame], None]) -> None:
        if isinstance(frame, wire.Done | wire.Claimed):
            future = self._waiting.pop(frame.id, None)
            if future is not None and not future.done():
                future.set_result(frame)
        else:
            hear(frame)

    async def _line(self) -> bytes:
        try:
            return await self._reader.readline()
        except OSError:
            return b""

    async def flush(self) -> None:
        await self._writer.drain()

    def _hang_up(self) -> None:
        self._gone = True
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(Gone())
        self._waiting.clear()
        self._writer.close()
