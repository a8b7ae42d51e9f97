"""Handing what a platform brought to intake: the events of a room in order, rooms beside each other."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence

from gatepost.channels.contract import Receive
from gatepost.core import log
from gatepost.core.errors import Invalid, Unavailable
from gatepost.messages import address
from gatepost.messages.inbound import Inbound, Receipt, UnrecordedState

LOG = log.get("channels")
MOST_ROOMS = 16  # of one batch that are received at the same time
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 60.0


class Backoff:
    """Waits between tries, each about twice as long as the one before it."""

    def __init__(self, first: float = FIRST_WAIT_S, longest: float = LONGEST_WAIT_S) -> None:
        self._first, self._longest, self._next = first, longest, first

    async def wait(self, at_least: float | None = None) -> None:
        wait = max(self._next * random.uniform(0.75, 1.0), at_least or 0.0)
        self._next = min(self._next * 2, self._longest)
        await asyncio.sleep(wait)

    def reset(self) -> None:
        self._next = self._first


async def receive_batch(events: Sequence[Inbound], receive: Receive) -> None:
    """Returns once all of them are durable: only then may the cursor move. An event that intake cannot take now is
    tried again, for as long as it takes. One that intake will never take is left out, and logged."""
    rooms: dict[str, list[Inbound]] = {}
    for event in events:
        if _is_addressed(event):
            rooms.setdefault(event.address, []).append(event)
    turn = asyncio.Semaphore(MOST_ROOMS)

    async def receive_room(room: Iterable[Inbound]) -> None:
        async with turn:
            for event in room:
                await receive_until_durable(event, receive)

    async with asyncio.TaskGroup() as group:
        for room in rooms.values():
            group.create_task(receive_room(room))


def skip_invalid(receive: Receive) -> Receive:
    """The same, but an event that intake will never take is left out, and logged. A platform brings it again and again
    until it is confirmed: one event of a stranger would keep back those of everybody."""

    async def receive_valid(event: Inbound) -> Receipt:
        try:
            return await receive(event)
        except Invalid as error:
            LOG.warning("an event that cannot be taken was left out", address=event.address[:80], error=str(error))
            return Receipt(message_id=0, new=False, state=UnrecordedState.INVALID)

    return receive_valid


async def receive_until_durable(event: Inbound, receive: Receive) -> None:
    """Or until intake says that it will never take it."""
    backoff, receive = Backoff(), skip_invalid(receive)
    while True:
        try:
            await receive(event)
            return
        except Unavailable as error:
            await backoff.wait(error.retry_after)


def _is_addressed(event: Inbound) -> bool:
    """What a platform calls a room or a person is hostile until it was read as an address."""
    try:
        address.parse(event.address)
        address.parse(event.sender, "sender")
    except Invalid as error:
        LOG.warning("an event without a usable address was left out", error=str(error))
        return False
    return bool(event.platform_id) and len(event.platform_id) <= address.LONGEST


async def unwrap_group(run: Callable[[], Awaitable[None]]) -> None:
    """Runs what uses a TaskGroup, and raises the first error itself in the place of a group of them."""
    try:
        await run()
    except BaseExceptionGroup as group:
        first: BaseException = group
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None
