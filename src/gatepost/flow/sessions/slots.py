"""Who is woken next when there are more sessions with work than places. Pure bookkeeping, no I/O.

People before schedules; groups take turns, so that one busy group cannot starve the others; within a group, first come
first served.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass, field


@dataclass(slots=True)
class Slots:
    most: int
    _awake: set[str] = field(default_factory=set)
    _waiting: dict[bool, "OrderedDict[str, deque[str]]"] = field(
        default_factory=lambda: {False: OrderedDict(), True: OrderedDict()}
    )
    _queued: set[str] = field(default_factory=set)

    @property
    def awake(self) -> int:
        return len(self._awake)

    @property
    def waiting(self) -> int:
        return len(self._queued)

    @property
    def full(self) -> bool:
        return len(self._awake) >= self.most

    def want(self, session_id: str, folder: str, *, background: bool = False) -> None:
        """Stand in line, once."""
        if session_id in self._queued or session_id in self._awake:
            return
        self._queued.add(session_id)
        self._waiting[background].setdefault(folder, deque()).append(session_id)

    def take(self) -> str | None:
        """The next session that may wake, which then holds a place; None if nobody waits or all places are taken."""
        if self.full:
            return None
        for background in (False, True):
            lines = self._waiting[background]
            if lines:
                folder, line = lines.popitem(last=False)
                session_id = line.popleft()
                if line:
                    lines[folder] = line  # to the end: the other groups come first
                self._queued.discard(session_id)
                self._awake.add(session_id)
                return session_id
        return None

    def release(self, session_id: str) -> None:
        self._awake.discard(session_id)

    def forget(self, session_id: str) -> None:
        """It no longer wants to wake."""
        if session_id not in self._queued:
            return
        self._queued.discard(session_id)
        for lines in self._waiting.values():
            for folder, line in list(lines.items()):
                if session_id in line:
                    line.remove(session_id)
                if not line:
                    del lines[folder]
