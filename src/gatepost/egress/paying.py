"""Money around a call: held back before, settled after, whatever ends it, also whoever is cut off at any moment."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Protocol

from gatepost.core import log
from gatepost.egress.contract import Held, Purse, Short, Spender
from gatepost.egress.http import Refusal
from gatepost.egress.upstream import Bill
from gatepost.store.costs import Usage

_log = log.get("egress")


class Priced(Protocol):
    """What a call may come to."""

    @property
    def model(self) -> str: ...

    @property
    def worst(self) -> int: ...

    def actual(self, bill: Bill) -> tuple[int | None, Usage]:
        """What is booked; None: nobody knows, so all of it."""
        ...


class Till:
    def __init__(self, purse: Purse) -> None:
        self._purse = purse
        self._settling: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """When everything is settled."""
        if self._settling:
            await asyncio.wait(self._settling)

    @asynccontextmanager
    async def paid(self, spender: Spender, deal: Priced) -> AsyncIterator[Bill]:
        """Raises Refusal if it does not fit."""
        held = await self._reserve(spender, deal)
        if isinstance(held, Short):
            raise Refusal(429 if held.busy else 402, held.reason, retry_after=2 if held.busy else None)
        bill = Bill()
        try:
            yield bill
        finally:
            await asyncio.shield(self._kept(self._settle(held, deal, bill)))

    async def _reserve(self, spender: Spender, deal: Priced) -> Held | Short:
        """Who is cut off while the purse thinks leaves nothing held back."""
        asking = asyncio.ensure_future(self._purse.reserve(spender, deal.model, deal.worst))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            self._kept(self._give_up(asking, deal))
            raise

    async def _give_up(self, asking: asyncio.Future[Held | Short], deal: Priced) -> None:
        held = await asking
        if isinstance(held, Held):
            await self._settle(held, deal, Bill())

    def _kept(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """What must be done whoever waits for it; `close` waits for all of it."""
        task = asyncio.get_running_loop().create_task(work)
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)
        return task

    async def _settle(self, held: Held, deal: Priced, bill: Bill) -> None:
        actual, told = deal.actual(bill)
        if actual is not None and actual > deal.worst:
            _log.warning("a call cost more than was set aside", model=deal.model, actual=actual, reserved=deal.worst)
        await self._purse.settle(held, actual, told)
