"""Common parts of the emulators of platforms with a REST API: the token, the faults of a request, the order of
events."""

import asyncio
import hashlib
import itertools
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gatepost_testing.platforms.base import EmulatedPlatform, NotOffered, PlatformFault

Answer = Callable[[Request], Awaitable[Response]]
OF_A_SEND = (PlatformFault.RATE_LIMIT, PlatformFault.BUSY, PlatformFault.FORBIDDEN, PlatformFault.NO_ANSWER)
_COUNTER = itertools.count(1)


class RestPlatform(EmulatedPlatform):
    token: str = "the-bots-token"
    faults: ClassVar[frozenset[PlatformFault]] = frozenset(
        {*OF_A_SEND, PlatformFault.UNAUTHORIZED, PlatformFault.DROPPED, PlatformFault.DUPLICATE}
    )

    def __init__(self) -> None:
        super().__init__()
        self._delayed: list[Any] = []  # an event that the next one overtakes
        self._waiting: set[asyncio.Event] = set()  # of held polls

    def fault(self, *faults: PlatformFault) -> None:
        unknown = [each for each in faults if each not in self.faults]
        if unknown:
            raise NotOffered(f"{self.kind} has no {unknown[0]}")
        super().fault(*faults)

    # Requests of the bot.

    def route(self, method: str, path: str, answer: Answer, *, sends: bool = False, open_to_all: bool = False) -> Route:
        """`sends`: the single faults of sends happen here. `open_to_all`: it needs no token."""

        async def run(request: Request) -> Response:
            with self.changed:
                self.requests.append((request.method, request.url.path))
            if not open_to_all and (self.is_faulty(PlatformFault.UNAUTHORIZED) or not self.is_authorized(request)):
                return self.render_error(401, "Invalid or expired session, please login again.")
            fault = self.claim_fault(*OF_A_SEND) if sends else None
            refusal = self._render_fault(fault)
            try:
                response = refusal or await answer(request)
            except asyncio.CancelledError:  # the platform is stopped while a poll is held
                return self.render_error(503, "the server stops")
            self.notify()
            if fault is PlatformFault.NO_ANSWER:
                await self.abort(request)
            return response

        return Route(path, run, methods=[method])

    def _render_fault(self, fault: PlatformFault | None) -> Response | None:
        match fault:
            case PlatformFault.RATE_LIMIT:
                return self.render_error(429, "slow down", {"Retry-After": f"{self.retry_after:g}"})
            case PlatformFault.BUSY:
                return self.render_error(503, "the server is busy")
            case PlatformFault.FORBIDDEN:
                return self.render_error(403, "You do not have the appropriate permissions.")
        return None

    def is_authorized(self, request: Request) -> bool:
        return request.headers.get("authorization") == f"Bearer {self.token}"

    def render_error(self, status: int, words: str, headers: dict[str, str] | None = None) -> Response:
        return JSONResponse({"message": words, "status_code": status}, status, headers)

    async def abort(self, request: Request) -> None:
        """End the connection that this request came by, without an answer."""
        self.abort_connection(request.scope)
        await asyncio.sleep(0)

    # Events for the bot.

    async def wait_until(self, holds: Callable[[], bool], timeout: float) -> bool:
        """In the platform's loop: until this holds of what was pushed, or the time is over."""
        news = asyncio.Event()
        self._waiting.add(news)
        try:
            async with asyncio.timeout(timeout):
                while not holds():
                    await news.wait()
                    news.clear()
        except TimeoutError:
            return False
        finally:
            self._waiting.discard(news)
        return True

    def wake(self) -> None:
        """Held polls look again."""
        self.call_soon(self._wake)

    def _wake(self) -> None:
        for each in self._waiting:
            each.set()

    def push(self, event: Any) -> None:
        """Give the bot one event, now. Called with `changed` held."""
        raise NotImplementedError

    def deliver(self, event: Any) -> None:
        """The same, with the faults of events."""
        with self.changed:
            fault = self.claim_fault(PlatformFault.DUPLICATE, PlatformFault.REORDER)
            if fault is PlatformFault.REORDER:
                self._delayed.append(event)
                return
            self.push(event)
            if fault is PlatformFault.DUPLICATE:
                self.push(event)
            while self._delayed:
                self.push(self._delayed.pop(0))
            self.changed.notify_all()
        self.wake()

    def heal(self) -> None:
        super().heal()
        self.wake()


def make_id(*parts: str, length: int = 26) -> str:
    """An id as platforms make them; the same parts give the same one, no parts a new one."""
    seed = "/".join(parts) or f"new {next(_COUNTER)}"
    return hashlib.sha256(seed.encode()).hexdigest()[:length].ljust(length, "0")
