"""The pace of sending to a channel: what its kind declares, and the pauses that its platform asks for.

Everything is asked before a row is taken, so a wait holds no lane, costs no try and is never cut off by a timeout. A
permit is for one effect; one that was not needed is given back. Times are microseconds of the monotonic clock.
"""

from gatepost.channels.contract import ChannelPace
from gatepost.core.clock import Clock, to_microseconds
from gatepost.flow.delivery.outgoing_messages import ChannelInstances

FEWEST_REMEMBERED = 1024  # rooms, before those at rest are forgotten
SLACK_S = 0.1  # that a whole channel may be ahead of its pace, so that late timers do not slow it down


class PaceLimit:
    """So many a second, and `burst` at once. One number is kept: when the next would be due if all came evenly."""

    __slots__ = ("_interval", "_slack")

    def __init__(self, rate: float, burst: float) -> None:
        self._interval = max(to_microseconds(1 / rate), 1)
        self._slack = int((max(burst, 1.0) - 1) * self._interval)

    def get_wait(self, due: int, now: int) -> int:
        return max(due - self._slack - now, 0)

    def add(self, due: int, now: int) -> int:
        return max(due, now) + self._interval

    def remove(self, due: int) -> int:
        return due - self._interval


class _InstanceLimits:
    """The limits of one instance. Rooms of the same rate share theirs."""

    def __init__(self, pace: ChannelPace) -> None:
        self.pace = pace
        self.everywhere = PaceLimit(pace.everywhere, pace.everywhere * SLACK_S + 1) if pace.everywhere > 0 else None
        rates = {pace.room, *pace.slow_rooms.values()}
        self.rooms = {rate: PaceLimit(rate, pace.burst) for rate in rates if rate > 0}  # by rate


class DeliveryPace:
    def __init__(self, channels: ChannelInstances, clock: Clock, longest_pause: int) -> None:
        self._channels, self._clock, self._longest = channels, clock, longest_pause
        self._limits: dict[str, _InstanceLimits] = {}
        self._paused: dict[str, int] = {}  # by instance: until when
        self._due: dict[str, int] = {}  # by instance
        self._rooms: dict[tuple[str, str], int] = {}  # those at rest are forgotten
        self._forget_at = FEWEST_REMEMBERED

    def claim(self, instance: str, address: str) -> int:
        """Return 0 if one effect may go to this room now, else how long to wait before asking again."""
        everywhere, room = self._find_limits(instance, address)
        if not (everywhere or room or self._paused):
            return 0
        now = self._clock.monotonic()
        wait = self._get_instance_wait(instance, everywhere, now)
        place = (instance, address)
        if room is not None:
            wait = max(wait, room.get_wait(self._rooms.get(place, 0), now))
        if wait:
            return wait
        if everywhere is not None:
            self._due[instance] = everywhere.add(self._due.get(instance, 0), now)
        if room is not None:
            self._rooms[place] = room.add(self._rooms.get(place, 0), now)
            self._forget_idle_rooms(now)
        return 0

    def give_back(self, instance: str, address: str) -> None:
        """Take a permit back: there was nothing to send after all."""
        everywhere, room = self._find_limits(instance, address)
        if everywhere is not None and instance in self._due:
            self._due[instance] = everywhere.remove(self._due[instance])
        if room is not None and (due := self._rooms.get((instance, address))) is not None:
            self._rooms[instance, address] = room.remove(due)

    def get_wait(self, instance: str) -> int:
        """Return how long no room of this instance may be sent to; 0: some may."""
        everywhere, _ = self._find_limits(instance, "")
        if not (everywhere or self._paused):
            return 0
        return self._get_instance_wait(instance, everywhere, self._clock.monotonic())

    def pause(self, instance: str, seconds: float) -> None:
        """Pause as the platform asks. A shorter pause does not end a longer one."""
        until = self._clock.monotonic() + min(to_microseconds(max(seconds, 0.0)), self._longest)
        self._paused[instance] = max(until, self._paused.get(instance, 0))

    def count_rooms(self) -> int:
        return len(self._rooms)

    def _get_instance_wait(self, instance: str, everywhere: PaceLimit | None, now: int) -> int:
        wait = everywhere.get_wait(self._due.get(instance, 0), now) if everywhere is not None else 0
        until = self._paused.get(instance)
        if until is None:
            return wait
        if until <= now:
            del self._paused[instance]
            return wait
        return max(wait, until - now)

    def _find_limits(self, instance: str, address: str) -> tuple[PaceLimit | None, PaceLimit | None]:
        """Return the limit of an instance, and that of one of its rooms."""
        pace, known = self._channels.get_kind(instance).pace, self._limits.get(instance)
        if known is None or known.pace is not pace:  # it may be switched on later, or be of another kind by now
            known = self._limits[instance] = _InstanceLimits(pace)
        return known.everywhere, known.rooms.get(pace.get_room_rate(address)) if known.rooms else None

    def _forget_idle_rooms(self, now: int) -> None:
        if len(self._rooms) < self._forget_at:
            return
        self._rooms = {place: due for place, due in self._rooms.items() if due > now}
        self._forget_at = max(FEWEST_REMEMBERED, 2 * len(self._rooms))
