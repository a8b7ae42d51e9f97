"""How fast one session may move bytes through its way out, and how little of it is done without a break.

Reading what has already arrived does not suspend a task, so a loop over it would hold up everybody. Every piece is
charged to the session's bucket here, and other tasks run before the next one, also where nothing has to wait.
"""

import asyncio

from gatepost.core.token_bucket import EGRESS_VOLUME, Rate, TokenBucket

# A small piece is about as much work as one of this size. While a session waits, small pieces join in the buffer, so a
# download in small packets is not slowed by this.
LEAST_CHARGE = 4 * 1024
PIECE = 64 * 1024


class Pace:
    """The pace of one session: all its connections share it, so that more of them are no faster."""

    def __init__(self, rate: Rate = EGRESS_VOLUME) -> None:
        self._bucket = TokenBucket(rate, 0.0)
        self.spent = 0  # bytes, as they were charged

    async def spend(self, count: int) -> None:
        """Charge a piece of so many bytes. Waits while the session is in debt, and always gives others a turn."""
        charge = max(count, LEAST_CHARGE)
        self.spent += charge
        await asyncio.sleep(self._bucket.charge(charge, asyncio.get_running_loop().time()))


class PacedReader:
    """One direction of a connection. Bytes that were read too far can be put back."""

    def __init__(self, reader: asyncio.StreamReader, pace: Pace | None = None) -> None:
        self._reader, self.pace = reader, pace or Pace()
        self._unread = b""

    async def read(self, size: int = PIECE) -> bytes:
        """Return what there is, at least one byte; b"": nothing more comes."""
        if self._unread:
            piece, self._unread = self._unread[:size], self._unread[size:]
            return piece
        piece = await self._reader.read(size)
        if piece:
            await self.pace.spend(len(piece))
        return piece

    def unread(self, data: bytes) -> None:
        """The next to be read."""
        self._unread = data + self._unread

    async def until(self, mark: bytes, limit: int) -> bytes:
        """Up to the end of the first mark. Raises IncompleteReadError, and LimitOverrunError beyond the limit."""
        said, searched = bytearray(), 0
        while (at := said.find(mark, max(searched - len(mark) + 1, 0))) < 0:
            searched = len(said)
            if searched > limit:
                raise asyncio.LimitOverrunError("no end within the limit", searched)
            piece = await self.read()
            if not piece:
                raise asyncio.IncompleteReadError(bytes(said), None)
            said += piece
        end = at + len(mark)
        self.unread(bytes(said[end:]))
        if end > limit:
            raise asyncio.LimitOverrunError("the end is beyond the limit", end)
        return bytes(said[:end])
