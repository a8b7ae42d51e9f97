"""Bells from gateway to gateway. What is rung here is rung at the others, unless it concerns this one alone."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from gatepost.core.event_bus import Bell, EventBus

Notice = tuple[str, ...]


class Board(Protocol):
    """Where gateways leave words for each other."""

    def post(self, notice: Notice) -> None: ...


class BellRelay:
    def __init__(self, bells: EventBus, is_here: Callable[[str], bool], look: Callable[[], None]) -> None:
        """`is_here`: whether a session is awake on this gateway. `look`: called when words may have been missed."""
        self._bells, self._is_here, self._look = bells, is_here, look
        self._board: Board | None = None

    def start(self, board: Board) -> None:
        self._board = board
        self._bells.on_any(self._say)

    def _say(self, bell: Bell, *args: str) -> None:
        assert self._board is not None
        if bell is not Bell.SESSION or not self._is_here(args[0]):
            self._board.post((bell, *args))

    def hear(self, notices: list[Notice]) -> None:
        """What the others rang. On the loop."""
        if not notices:
            self._look()
        for name, *args in notices:
            if name in Bell.__members__.values():
                self._bells.hear(Bell(name), *args)


def call_on(loop: asyncio.AbstractEventLoop, hear: Callable[[list[Notice]], None]) -> Callable[[list[Notice]], None]:
    """The same for another thread."""

    def pass_on(notices: list[Notice]) -> None:
        loop.call_soon_threadsafe(hear, notices)

    return pass_on
