"""Costs of requests to hooks, bounded before it is proved who sent them and after.

Before, a request has no place of its instance: it is in one pool with those of all strangers. When the pool is full,
the request that has been there longest is dropped. So a slow client makes room, and a platform, which is quick, gets
its proof. A request without proof uses up a budget of its address. Behind a reverse proxy a platform has the address of
all strangers; there nobody has a budget, and the proof alone decides. But failures there are answered slowly once there
are many. Beyond the first bytes of a body, all requests without proof are read at one common pace.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import Scope

from gatepost.core.errors import Unavailable
from gatepost.core.token_bucket import KeyedBuckets, Rate, TokenBucket
from gatepost.serve.web.trusted_proxies import ClientAddresses

FULL_S = 1.0  # until a place may be free
FAILURES = Rate(per_second=2, burst=60, patience_s=float("inf"))  # proofs of one address that fail
FAILURES_OF_ALL = Rate(per_second=20, burst=200, patience_s=float("inf"))  # the same, of those without an own budget
UNPROVED_BYTES = Rate(per_second=4 * 1024 * 1024, burst=4 * 1024 * 1024, patience_s=float("inf"))  # of all strangers
MOST_DEBT_S = 1.0  # of bytes that strangers have sent and that are not yet paid for by time
LONGEST_DELAY_S = 2.0  # of the answer to a proof that failed
FIRST_BYTES = 16 * 1024  # of a body that are read at once: nearly all events of platforms are smaller
MOST_PEERS = 1000  # whose budgets are remembered, the latest


class HookBusy(Unavailable):
    """The instance has no place, or the address no budget, for another request now."""

    def __init__(self, retry_after: float) -> None:
        super().__init__("the hook", "too much is under way", retry_after=retry_after)


class HookLoad:
    """The load of one instance, by senders who are proved."""

    def __init__(self, rate: Rate, most: int, now: float) -> None:
        self._bucket, self._most, self._running = TokenBucket(rate, now), most, 0

    def check(self, now: float) -> None:
        if self._running >= self._most:
            raise HookBusy(FULL_S)
        if wait := self._bucket.get_wait(now):
            raise HookBusy(wait)

    def enter(self, now: float) -> None:
        self.check(now)
        self._bucket.charge(1, now)
        self._running += 1

    def leave(self) -> None:
        self._running -= 1


class HookVisit:
    """One request, until it is answered."""

    def __init__(
        self, peer: str, load: HookLoad, timeout: asyncio.Timeout, answer_s: float | None, volume: TokenBucket
    ) -> None:
        """`answer_s`: how long the answer may take from the proof on; None: as long as it takes."""
        self.peer, self.is_proved, self.is_displaced = peer, False, False
        self._volume = volume
        self._load, self._timeout, self._answer_s, self._has_place = load, timeout, answer_s, False

    def admit(self) -> None:
        """It is proved who sent it. Raises HookBusy if there is no place for it now."""
        if self.is_proved:
            return
        self.is_proved = True
        self._load.enter(_now())
        self._has_place = True
        self.allow(self._answer_s)

    async def pace(self, count: int, so_far: int) -> None:
        """Wait before more of its body is read, if strangers send too much together."""
        if self.is_proved or so_far <= FIRST_BYTES:
            return
        debt = self._volume.charge(0, _now())
        if debt > MOST_DEBT_S:  # nothing more is added to it: whoever floods must not keep others waiting for minutes
            raise HookBusy(debt)
        await asyncio.sleep(self._volume.charge(count, _now()))

    def allow(self, seconds: float | None) -> None:
        """From now on."""
        if not self.is_displaced:
            self._timeout.reschedule(None if seconds is None else _now() + seconds)

    def displace(self) -> None:
        self.is_displaced = True
        self._timeout.reschedule(_now())

    def leave(self) -> None:
        if self._has_place:
            self._load.leave()


class UnprovedVisits:
    """The requests of which nobody knows yet who sent them, of all instances, and those who prove nothing."""

    def __init__(self, most: int, of_peer: int, clients: ClientAddresses, failures: Rate = FAILURES) -> None:
        self._most, self._of_peer, self._clients = most, of_peer, clients
        # How often an address may fail to prove who it is. Those that may be a proxy of everybody have no budget.
        self._budgets = KeyedBuckets(failures, MOST_PEERS)
        self._failures, self._volume = TokenBucket(FAILURES_OF_ALL, 0.0), TokenBucket(UNPROVED_BYTES, 0.0)
        self._visits: list[HookVisit] = []  # oldest first

    @asynccontextmanager
    async def enter(
        self, scope: Scope, load: HookLoad, proof_s: float, answer_s: float | None
    ) -> AsyncIterator[HookVisit]:
        """Raises TimeoutError if it takes too long, HookBusy if it cannot be taken now."""
        peer = self._clients.find_own(scope)
        if wait := self._budgets.get_wait(peer, _now()):
            raise HookBusy(wait)
        load.check(_now())
        try:
            async with asyncio.timeout(proof_s) as timeout:
                visit = HookVisit(peer, load, timeout, answer_s, self._volume)
                self._add(visit)
                try:
                    yield visit
                finally:
                    visit.leave()
                    if visit in self._visits:
                        self._visits.remove(visit)
        except TimeoutError:
            if visit.is_displaced:
                raise HookBusy(FULL_S) from None
            if visit.peer and not visit.is_proved:
                self._budgets.charge(visit.peer, _now())
            raise

    async def charge(self, visit: HookVisit) -> None:
        """It proved nothing. Visitors without a budget of their own wait for the answer, once they are many."""
        if visit.peer:
            self._budgets.charge(visit.peer, _now())
        else:
            await asyncio.sleep(min(self._failures.charge(1, _now()), LONGEST_DELAY_S))

    def _add(self, visit: HookVisit) -> None:
        self._visits = [each for each in self._visits if not each.is_proved]
        own = [each for each in self._visits if each.peer == visit.peer]
        if visit.peer and len(own) >= self._of_peer:
            self._displace(own[0])
        elif len(self._visits) >= self._most:
            counts = Counter(each.peer for each in self._visits)
            self._displace(max(self._visits, key=lambda each: counts[each.peer]))
        self._visits.append(visit)

    def _displace(self, visit: HookVisit) -> None:
        self._visits.remove(visit)
        visit.displace()


def _now() -> float:
    return asyncio.get_running_loop().time()
