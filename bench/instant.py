"""A platform that answers at once."""

import asyncio
import time

from gatepost.messages.outbound import Outbound
from gatepost_testing.channel import FakeChannel


class Instant(FakeChannel):
    """A platform that answers at once and remembers only when."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: dict[str, asyncio.Future[float]] = {}
        self.count = 0
        self.wanted = 0
        self.all_there = asyncio.Event()

    async def reached(self, count: int) -> None:
        self.wanted = count
        if self.count < count:
            await self.all_there.wait()

    async def send(self, address: str, message: Outbound) -> str:
        self.count += 1
        if self.count == self.wanted:
            self.all_there.set()
        future = self.waiting.pop(message.text, None)
        if future is not None and not future.done():
            future.set_result(time.perf_counter())
        return message.key

    def expect(self, text: str) -> "asyncio.Future[float]":
        future = self.waiting[text] = asyncio.get_running_loop().create_future()
        return future
