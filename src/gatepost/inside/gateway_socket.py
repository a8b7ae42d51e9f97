"""The runner's one connection to the host: frames out, answers matched by id, everything else handed to `hear`."""

import asyncio
from collections import deque
from collections.abc import Callable
from pathlib import Path

from gatepost.mailbox import runner_frames

Request = (
    runner_frames.RowsBegunFrame | runner_frames.ClaimFrame | runner_frames.ResultFrame | runner_frames.SubmitTurnFrame
)
Reply = runner_frames.AckFrame | runner_frames.ClaimReplyFrame

EARLY = 100  # frames before Welcome that are kept


class GatewayDisconnected(Exception):
    """The host hung up. Nothing that we do from here on reaches anybody."""


class GatewaySocket:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._early: deque[runner_frames.Frame] = deque(maxlen=EARLY)
        self._last = 0
        self._gone = False

    @classmethod
    async def open(cls, path: Path) -> "GatewaySocket":
        return cls(*await asyncio.open_unix_connection(str(path), limit=runner_frames.LARGEST + 1))

    def number(self) -> int:
        """The id of the next request."""
        self._last += 1
        return self._last

    def send(self, frame: runner_frames.Frame) -> None:
        """Say something that has no answer."""
        if not self._gone:
            self._writer.write(runner_frames.encode_frame(frame))

    def post(self, frame: Request) -> asyncio.Future[Reply]:
        """Send a request; its answer comes later. Several may be under way."""
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        if self._gone:
            future.set_exception(GatewayDisconnected())
            return future
        self._waiting[frame.id] = future
        self._writer.write(runner_frames.encode_frame(frame))
        return future

    async def ask(
        self, frame: runner_frames.RowsBegunFrame | runner_frames.ResultFrame | runner_frames.SubmitTurnFrame
    ) -> runner_frames.AckFrame:
        answer = await self.post(frame)
        if not isinstance(answer, runner_frames.AckFrame):
            raise TypeError(f"{type(frame).__name__} was answered by {type(answer).__name__}")
        return answer

    async def claim(self, frame: runner_frames.ClaimFrame) -> runner_frames.ClaimReplyFrame:
        answer = await self.post(frame)
        if not isinstance(answer, runner_frames.ClaimReplyFrame):
            raise TypeError(f"Claim was answered by {type(answer).__name__}")
        return answer

    async def welcome(self) -> runner_frames.WelcomeFrame:
        """Return the frame that sets up the runner. Frames that come before it are kept, and handled in their order
        after it."""
        while line := await self._line():
            frame = runner_frames.read_from_host(line)
            if isinstance(frame, runner_frames.WelcomeFrame):
                return frame
            self._early.append(frame)
        raise GatewayDisconnected

    async def listen(self, hear: Callable[[runner_frames.Frame], None]) -> None:
        """Read frames until the host hangs up. `hear` gets those that are not answers. A malformed frame raises
        ValueError."""
        while self._early:
            self._pass_on(self._early.popleft(), hear)
        while line := await self._line():
            self._pass_on(runner_frames.read_from_host(line), hear)
        self._disconnect()

    def _pass_on(self, frame: runner_frames.Frame, hear: Callable[[runner_frames.Frame], None]) -> None:
        if isinstance(frame, runner_frames.AckFrame | runner_frames.ClaimReplyFrame):
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

    def _disconnect(self) -> None:
        self._gone = True
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(GatewayDisconnected())
        self._waiting.clear()
        self._writer.close()
