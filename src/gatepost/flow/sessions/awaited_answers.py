"""Decisions of people that a runner's turn waits for, and for how long already. Times are microseconds of listening."""


class AwaitedAnswers:
    def __init__(self) -> None:
        self._names: dict[str, None] = {}
        self.since: int | None = None  # None: it waits for nobody
        self.waited = 0  # of the turn's time, before the wait of now

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def __bool__(self) -> bool:
        return bool(self._names)

    def add(self, name: str, now: int) -> None:
        self._names[name] = None
        self.since = now if self.since is None else self.since

    def remove(self, name: str, now: int) -> bool:
        """Its answer is there. What is still awaited has its whole time again: the turn has something to do now. False
        if nobody waits for it."""
        if name not in self._names:
            return False
        del self._names[name]
        assert self.since is not None
        self.waited += now - self.since
        self.since = now if self._names else None
        return True

    def end_use(self, use: str) -> None:
        """A use of a tool is over: what was asked about it is awaited no longer, answered or not. Only the runner says
        so, and what it says does not lengthen its turn: that wait is the turn's own time."""
        for name in [each for each in self._names if use and each.rpartition("~")[0] == use]:
            del self._names[name]
        self.since = self.since if self._names else None

    def clear(self) -> None:
        """Another turn, or none."""
        self._names.clear()
        self.since, self.waited = None, 0
