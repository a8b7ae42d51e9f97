"""Passwords: hashed with argon2id in threads, and tried at a bounded pace.

Two are hashed at once, because each takes 64 MiB, and few wait. An unknown name costs the same as a wrong password, so
that the time says nothing about who there is.
"""

import asyncio
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from gatepost.core.errors import Invalid, Unavailable
from gatepost.core.settings import setting

if TYPE_CHECKING:
    from argon2 import PasswordHasher

import hashlib
import secrets
import time

from gatepost.core.token_bucket import Rate, TokenBucket
from gatepost.serve.peers import peer_of

PASSWORD_LOGIN = setting(
    "web.password_login",
    False,
    help="People may sign in to the web page with a password that they have set. It needs gatepost[password].",
)
MODULE, EXTRA = "argon2", "password"
AT_ONCE, MOST_WAITING = 2, 16
MEMORY_KIB, ROUNDS = 64 * 1024, 3
SHORTEST, LONGEST = 12, 1024  # characters
# The hash of a password that nobody knows, at the same cost as ours.
NOBODYS = "$argon2id$v=19$m=65536,t=3,p=1$zBSx+eDHY0iirAE96dKL5g$cvBiViFisr6sxKfGYoX6QrnaYz9fmPfS7e+V6HQUD+s"
TRIES = Rate(per_second=1 / 20, burst=10, patience_s=float("inf"))
LONGEST_S = 20.0  # that a try waits; who would wait longer is refused
PLACES = 4096

T = TypeVar("T")


class PasswordHashing:
    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="password")
        self._running = 0

    async def hash(self, password: str) -> str:
        given = normalize(password)
        return await self._run(lambda: make_hasher().hash(given))

    async def verify(self, hashed: str | None, password: str) -> bool:
        """None: nobody has it, which takes as long to find out."""
        given, against = normalize(password), hashed or NOBODYS
        right = await self._run(lambda: _verify(against, given))
        return right and hashed is not None

    async def _run(self, work: Callable[[], T]) -> T:
        if self._running >= AT_ONCE + MOST_WAITING:
            raise Unavailable("passwords", "too many are being checked; try again in a moment")
        self._running += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        finally:
            self._running -= 1


HASHING = PasswordHashing()  # one for the process: the memory is the process's


class PasswordLimits:
    """The pace of tries: by address and by name for browsers that nobody knows, and each known browser by itself.

    So guesses of strangers slow other strangers down, and never a person in the browser that they have used before.
    The tables do not grow: keys share a fixed number of places, by a hash that strangers cannot foresee.
    """

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


def make_hasher() -> "PasswordHasher":
    from argon2 import PasswordHasher  # an extra

    return PasswordHasher(time_cost=ROUNDS, memory_cost=MEMORY_KIB, parallelism=1)


def _verify(hashed: str, given: bytes) -> bool:
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        return make_hasher().verify(hashed, given)
    except (VerificationError, InvalidHashError):
        return False


def normalize(password: str) -> bytes:
    """One sign can be typed as several: it is the same password."""
    return unicodedata.normalize("NFC", password[:LONGEST]).encode("utf-8", "surrogatepass")


def check_new(password: str, name: str) -> None:
    """Raise Invalid for one that is too short, too long, or says who signs in."""
    if len(password) < SHORTEST:
        raise Invalid("new_password", f"it has fewer than {SHORTEST} characters")
    if len(password) > LONGEST:
        raise Invalid("new_password", f"it has more than {LONGEST} characters")
    if len(set(password)) < SHORTEST // 3 or name.casefold() * 2 in password.casefold():
        raise Invalid("new_password", "it repeats itself; four or five words that do not belong together are good")


def list_keys(peer: str, name: str, known: str) -> list[str]:
    return [f"known {known}"] if known else [f"peer {peer_of(peer)}", f"name {name.casefold()}"]
