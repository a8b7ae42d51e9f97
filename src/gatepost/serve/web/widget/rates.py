"""How fast visitors of chat links may come in, write and read: for each link, each address and each visitor.

A visitor who is too fast is told when to come again. A refused request costs nothing, so a flood does not lengthen its
own wait.
"""

from collections import OrderedDict
from collections.abc import Callable

from gatepost.core.errors import Unavailable
from gatepost.core.token_bucket import Rate, TokenBucket

FOREVER = float("inf")
VISITS_OF_LINK = Rate(per_second=0.5, burst=30, patience_s=FOREVER)
VISITS_OF_PEER = Rate(per_second=0.05, burst=6, patience_s=FOREVER)
MESSAGES_OF_LINK = Rate(per_second=2, burst=60, patience_s=FOREVER)
MESSAGES_OF_VISITOR = Rate(per_second=0.5, burst=10, patience_s=FOREVER)
READS_OF_VISITOR = Rate(per_second=2, burst=30, patience_s=FOREVER)
MOST_KEYS = 2000  # whose rates are remembered, the latest


class TooFast(Unavailable):
    def __init__(self, retry_after: float) -> None:
        super().__init__("the chat", "too much comes at once; wait a moment", retry_after=retry_after)


class KeyedRate:
    """One rate for each key."""

    def __init__(self, rate: Rate, now: Callable[[], float]) -> None:
        self._rate, self._now = rate, now
        self._buckets: OrderedDict[str, tuple[TokenBucket, float]] = OrderedDict()

    def charge(self, key: str) -> None:
        """Raises TooFast. '' is nobody's, and has no limit."""
        if not key:
            return
        now = self._now()
        bucket, free_at = self._buckets.pop(key, (TokenBucket(self._rate, now), 0.0))
        if now < free_at:
            self._buckets[key] = (bucket, free_at)
            raise TooFast(free_at - now)
        self._buckets[key] = (bucket, now + bucket.charge(1, now))
        while len(self._buckets) > MOST_KEYS:
            self._buckets.popitem(last=False)


class WidgetRates:
    def __init__(self, now: Callable[[], float]) -> None:
        self._visits_of_link, self._visits_of_peer = KeyedRate(VISITS_OF_LINK, now), KeyedRate(VISITS_OF_PEER, now)
        self._messages_of_link = KeyedRate(MESSAGES_OF_LINK, now)
        self._messages_of_visitor = KeyedRate(MESSAGES_OF_VISITOR, now)
        self._reads_of_visitor = KeyedRate(READS_OF_VISITOR, now)

    def charge_visit(self, link: str, peer: str) -> None:
        self._visits_of_peer.charge(peer)
        self._visits_of_link.charge(link)

    def charge_message(self, link: str, visitor: str) -> None:
        self._messages_of_visitor.charge(visitor)
        self._messages_of_link.charge(link)

    def charge_read(self, visitor: str) -> None:
        self._reads_of_visitor.charge(visitor)
