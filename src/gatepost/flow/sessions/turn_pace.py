"""The pace at which a group may begin turns while other groups are at work.

A turn costs the gateway some milliseconds of its one interpreter, whatever it costs the model. A group that begins
turns as fast as they end leaves no moment idle, so each step of another group's reply waits behind several of its own.
While others are at work, such groups together begin a bounded number of turns a second. A group by itself has no limit.
"""

from collections import OrderedDict

TURNS_PER_S = 60.0  # of all groups together that are ahead of their pace: far more than people ask for
BURST_S = 0.05  # for which a group may be ahead without waiting
ACTIVE_S = 1.0  # a group that began a turn within this time is at work


class TurnPace:
    """Reserve turns of groups. A group is ahead by the time until which its turns are reserved."""

    def __init__(self) -> None:
        self._begun: OrderedDict[str, float] = OrderedDict()  # when the last turn of a group was reserved, oldest first
        self._reserved: dict[str, float] = {}  # until when its turns are reserved, for the same groups

    def reserve(self, folder: str, now: float) -> float:
        """Reserve a turn that is about to begin. Return how many seconds it waits."""
        self._begun[folder] = now
        self._begun.move_to_end(folder)
        while self._begun[first := next(iter(self._begun))] < now - ACTIVE_S:
            del self._begun[first]
            self._reserved.pop(first, None)
        if len(self._begun) == 1:
            self._reserved[folder] = now
            return 0.0
        start = max(self._reserved.get(folder, now), now)
        ahead = sum(until > now + BURST_S for until in self._reserved.values())
        self._reserved[folder] = start + max(1, ahead) / TURNS_PER_S
        return max(0.0, start - now - BURST_S)
