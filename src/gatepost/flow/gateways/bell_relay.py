"""Bells from gateway to gateway. What is rung here is rung at the others, unless it concerns this one alone."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from gatepost.core.event_bus import Bell, EventBus

Notice = tuple[str, ...]


class Board(Protocol):
    """Where gateways leave words for each other."""

    def post(self, notice: Notice) -> None: ...
    def start(self) -> None: ...
    async def stop(self) -> None: ...


class BellRelay:
    def __init__(
        self, bells: EventBus, is_here: Callable[[str], bool], look: Callable[[], None], yield_s: float = 0.0
    ) -> None:
        """`is_here`: whether a session is awake on this gateway. `look`: called when words may have been missed.
        `yield_s`: for so long a session that sleeps is left to who rang."""
        self._bells, self._is_here, self._look, self._yield_s = bells, is_here, look, yield_s
        self.board: Board | None = None
        bells.on_any(self._relay)

    @asynccontextmanager
    async def running(self, open_board: Callable[[Callable[[list[Notice]], None]], Board]) -> AsyncIterator[None]:
        self.board = open_board(self.receive)
        self.board.start()
        try:
            yield
        finally:
            board, self.board = self.board, None
            await board.stop()

    def _relay(self, bell: Bell, *args: str) -> None:
        if self.board is not None and (bell is not Bell.SESSION or not self._is_here(args[0])):
            self.board.post((bell, *args))

    def receive(self, notices: list[Notice]) -> None:
        """What the others rang. On the loop."""
        if not notices:
            self._look()
        for name, *args in notices:
            if name == Bell.SESSION and self._yield_s and not self._is_here(*args):
                asyncio.get_running_loop().call_later(self._yield_s, self._bells.receive, Bell.SESSION, *args)
            elif name in Bell.__members__.values():
                self._bells.receive(Bell(name), *args)
