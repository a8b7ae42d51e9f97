"""The pace at which passwords may be tried: by address and by name for browsers that nobody knows, and each known
browser by itself. So guesses of strangers slow other strangers down, and never a person in the browser that they have
used before.

The tables do not grow: keys share a fixed number of places, by a hash that strangers cannot foresee.
"""

import hashlib
import secrets
import time
from collections.abc import Callable

from gatepost.core.token_bucket import Rate, TokenBucket
from gatepost.serve.peers import peer_of

TRIES = Rate(per_second=1 / 20, burst=10, patience_s=float("inf"))
LONGEST_S = 20.0  # that a try waits; who would wait longer is refused
PLACES = 4096


class PasswordLimits:
    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._key = now, secrets.token_bytes(16)
        self._buckets: dict[int, TokenBucket] = {}

    def admit(self, peer: str, name: str, known: str) -> float | None:
        """Seconds to wait before a try; None: too many were made. `known`: the cookie of a known browser, or ''."""
        now = self._now()
        buckets = [self._get(key, now) for key in list_keys(peer, name, known)]
        if any(each.preview(1, now) > LONGEST_S for each in buckets):
            return None  # it costs nothing: who is refused for their address must not use up somebody's name
        return max(each.charge(1, now) for each in buckets)

    def forgive(self, peer: str, name: str, known: str) -> None:
        """The password was right: the try does not count."""
        now = self._now()
        for key in list_keys(peer, name, known):
            self._get(key, now).charge(-1, now)

    def _get(self, key: str, now: float) -> TokenBucket:
        place = int.from_bytes(hashlib.blake2b(key.encode("utf-8", "surrogatepass"), key=self._key).digest()[:4])
        return self._buckets.setdefault(place % PLACES, TokenBucket(TRIES, now))


def list_keys(peer: str, name: str, known: str) -> list[str]:
    return [f"known {known}"] if known else [f"peer {peer_of(peer)}", f"name {name.casefold()}"]
