"""A token bucket: the rate at which a peer may send, alone or as one of many keys. Pure: the time is given.

A peer that sends faster is not read until it is within its rate again. One that keeps on for longer than `patience_s`
is not busy but hostile, or broken.
"""

from collections import OrderedDict

from msgspec import Struct


class Rate(Struct, frozen=True):
    per_second: float
    burst: int
    patience_s: float  # of being slowed without a pause


# Bytes of one session: reading them is work for everybody's loop, too. Who sends much is slowed and not ended for it.
VOLUME = Rate(per_second=4 * 1024 * 1024, burst=1024 * 1024, patience_s=float("inf"))
# Bytes that one session moves through its way out, both ways together. Packages and models are downloaded there, so the
# rate is above most lines to the internet; without one, copying for a session would take a whole core from everybody.
EGRESS_VOLUME = Rate(per_second=32 * 1024 * 1024, burst=32 * 1024 * 1024, patience_s=float("inf"))


class TokenBucket:
    """Counts may go into debt: what was read is done, and the debt is waited for."""

    def __init__(self, rate: Rate, now: float) -> None:
        self.rate = rate
        self._level, self._at = float(rate.burst), now
        self.slowed_since: float | None = None  # None: it is within its rate

    def charge(self, count: int, now: float) -> float:
        """Return how many seconds to wait before anything more is read; 0: go on."""
        level = min(self.rate.burst, self._level + (now - self._at) * self.rate.per_second)
        if level >= self.rate.burst / 2:
            self.slowed_since = None  # it has paused by itself
        self._level, self._at = level - count, now
        if self._level >= 0:
            return 0.0
        if self.slowed_since is None:
            self.slowed_since = now
        return -self._level / self.rate.per_second

    def get_wait(self, now: float) -> float:
        """Return how many seconds are left of the last wait; 0: none. To ask costs nothing."""
        return max(0.0, self._at - self._level / self.rate.per_second - now) if self._level < 0 else 0.0

    def preview(self, count: int, now: float) -> float:
        """Return what `charge` would return, without counting anything."""
        level = min(self.rate.burst, self._level + (now - self._at) * self.rate.per_second) - count
        return max(0.0, -level / self.rate.per_second)

    def is_flooded(self, now: float) -> bool:
        return self.slowed_since is not None and now - self.slowed_since > self.rate.patience_s


class KeyedBuckets:
    """A bucket for each of the `most` keys that were used last. Strangers may choose keys, so memory is bounded."""

    def __init__(self, rate: Rate, most: int) -> None:
        self._rate, self._most = rate, most
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def get_wait(self, key: str, now: float) -> float:
        """Return how many seconds a key still has to wait; 0: none. To ask costs nothing, so a limit that refuses does
        not lengthen the wait of a flood."""
        bucket = self._buckets.get(key)
        if bucket is None:
            return 0.0
        self._buckets.move_to_end(key)  # refused or not, it was used
        return bucket.get_wait(now)

    def charge(self, key: str, now: float, rate: Rate | None = None) -> float:
        """Count one. Return how many seconds to wait before the next; 0: none. `rate`: of a key that is new, if it is
        not the usual one."""
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = TokenBucket(rate or self._rate, now)
            if len(self._buckets) > self._most:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(key)
        return bucket.charge(1, now)
