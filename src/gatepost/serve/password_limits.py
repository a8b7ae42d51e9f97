"""The pace at which passwords may be tried: by address and by name for browsers that nobody knows, and each known
browser by itself. So guesses of strangers slow other strangers down, and never a person in the browser that they have
used before.

The tables do not grow: keys share a fixed number of places, by a hash that strangers cannot foresee.
"""

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from gatepost.serve.peers import peer_of

BURST = 10.0  # tries at once
PER_S = 1 / 20  # and then so many
LONGEST_S = 20.0  # that a try waits; who would wait longer is refused
PLACES = 4096


@dataclass(slots=True)
class _Tries:
    left: float
    at: float


class PasswordLimits:
    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._key = now, secrets.token_bytes(16)
        self._tries: dict[int, _Tries] = {}

    def admit(self, peer: str, name: str, known: str) -> float | None:
        """Seconds to wait before a try; None: too many were made. `known`: the cookie of a known browser, or ''."""
        tries = [self._get(key) for key in list_keys(peer, name, known)]
        if any(each.left - 1 < -LONGEST_S * PER_S for each in tries):
            return None  # it costs nothing: who is refused for their address must not use up somebody's name
        for each in tries:
            each.left -= 1
        return max(max(0.0, -each.left / PER_S) for each in tries)

    def forgive(self, peer: str, name: str, known: str) -> None:
        """The password was right: the try does not count."""
        for key in list_keys(peer, name, known):
            tries = self._get(key)
            tries.left = min(BURST, tries.left + 1)

    def _get(self, key: str) -> _Tries:
        now = self._now()
        place = int.from_bytes(hashlib.blake2b(key.encode("utf-8", "surrogatepass"), key=self._key).digest()[:4])
        tries = self._tries.setdefault(place % PLACES, _Tries(BURST, now))
        tries.left, tries.at = min(BURST, tries.left + (now - tries.at) * PER_S), now
        return tries


def list_keys(peer: str, name: str, known: str) -> list[str]:
    return [f"known {known}"] if known else [f"peer {peer_of(peer)}", f"name {name.casefold()}"]
