"""The relay of bells between gateways. A bell that rings here rings at the others, unless it concerns this gateway
alone.

A gateway that is alone sends nothing, since each notice costs the database a transaction. A gateway that starts
announces itself.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from gatepost.core.event_bus import Bell, EventBus

HELLO = "hello"
HEARD_S = 4.5  # for which one that was heard is there, whether or not the last beat has found it

Notice = tuple[str, ...]


class NoticePort(Protocol):
    """The place where gateways leave words for each other."""

    def post(self, notice: Notice) -> None: ...
    def start(self) -> None: ...
    async def stop(self) -> None: ...


class EventRelay:
    def __init__(
        self,
        events: EventBus,
        is_here: Callable[[str], bool],
        look: Callable[[], None],
        yield_s: float = 0.0,
        is_alone: Callable[[], bool] = lambda: False,
    ) -> None:
        """`is_here`: whether a session is awake on this gateway. `look`: called when words may have been missed.
        `yield_s`: for so long a session that sleeps is left to who rang. `is_alone`: by the last beat."""
        self._events, self._is_here, self._look, self._yield_s = events, is_here, look, yield_s
        self._is_alone, self._heard_until = is_alone, 0.0
        self.exchange: NoticePort | None = None
        events.on_any(self._relay)

    @asynccontextmanager
    async def running(
        self, open_exchange: Callable[[Callable[[list[Notice]], None]], NoticePort]
    ) -> AsyncIterator[None]:
        self.exchange = open_exchange(self.receive)
        self.exchange.start()
        try:
            yield
        finally:
            exchange, self.exchange = self.exchange, None
            await exchange.stop()

    def _relay(self, bell: Bell, *args: str) -> None:
        if self.exchange is None or (bell is Bell.SESSION and self._is_here(args[0])):
            return
        if not self._is_alone() or time.monotonic() < self._heard_until:
            self.exchange.post((bell, *args))

    def receive(self, notices: list[Notice]) -> None:
        """Ring the bells that others rang. Runs on the loop."""
        if notices:
            self._heard_until = time.monotonic() + HEARD_S
        else:
            if self.exchange is not None:
                self.exchange.post((HELLO,))
            self._look()
        for name, *args in notices:
            if name == Bell.SESSION and self._yield_s and not self._is_here(*args):
                asyncio.get_running_loop().call_later(self._yield_s, self._events.receive, Bell.SESSION, *args)
            elif name in Bell.__members__.values():
                self._events.receive(Bell(name), *args)
