"""How far a stream was received, where rooms are received beside each other. Pure."""

from collections import deque


class StreamProgress:
    """Events finish in any order; the cursor stands behind the last one before which all are finished."""

    def __init__(self) -> None:
        self._first = 0  # the place of the oldest event that is not finished
        self._ids: deque[str] = deque()
        self._done: set[int] = set()

    def add(self, event: str) -> int:
        """Its place. `event` is '' where the platform gives no ids."""
        self._ids.append(event)
        return self._first + len(self._ids) - 1

    def finish(self, place: int) -> str:
        """The id up to which everything is finished, '' if that has not changed."""
        self._done.add(place)
        reached = ""
        while self._first in self._done:
            self._done.discard(self._first)
            reached = self._ids.popleft() or reached
            self._first += 1
        return reached
