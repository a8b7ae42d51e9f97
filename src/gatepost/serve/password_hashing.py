"""Passwords are hashed with argon2id in threads: two at once, because each takes 64 MiB, and few that wait.

An unknown name costs the same as a wrong password, so that the time says nothing about who there is.
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
