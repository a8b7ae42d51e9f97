"""Money around a call: held back before, settled after, whatever ends it, also whoever is cut off at any moment."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol

from gatepost.core import log
from gatepost.core.errors import Unavailable
from gatepost.egress.contract import BudgetShortage, CallBudget, ReservationHandle, Spender
from gatepost.egress.http import HttpRefusal
from gatepost.egress.upstream import Bill
from gatepost.store.costs import TokenCounts

LATER_S = 1.0  # between two tries to settle a call while the store is away

_log = log.get("egress")


class CostBound(Protocol):
    """What a call may come to."""

    @property
    def model(self) -> str: ...

    @property
    def worst(self) -> int: ...

    def actual(self, bill: Bill) -> tuple[int | None, TokenCounts]:
        """What is booked; None: nobody knows, so all of it."""
        ...


class CallPayments:
    def __init__(self, purse: CallBudget) -> None:
        self._purse = purse
        self._settling: set[asyncio.Task[None]] = set()
        self._closing = False

    async def close(self) -> None:
        """When everything is settled. What cannot be written by now is settled by the next start, in full."""
        self._closing = True
        if self._settling:
            await asyncio.wait(self._settling)

    @asynccontextmanager
    async def paid(self, spender: Spender, deal: CostBound) -> AsyncIterator[Bill]:
        """Raises Refusal if it does not fit."""
        held = await self._reserve(spender, deal)
        if isinstance(held, BudgetShortage):
            raise HttpRefusal(429 if held.busy else 402, held.reason, retry_after=2 if held.busy else None)
        bill = Bill()
        try:
            yield bill
        finally:
            await asyncio.shield(self._kept(self._settle(held, deal, bill)))

    async def _reserve(self, spender: Spender, deal: CostBound) -> ReservationHandle | BudgetShortage:
        """Who is cut off while the purse thinks leaves nothing held back."""
        asking = asyncio.ensure_future(self._purse.reserve(spender, deal.model, deal.worst))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            self._kept(self._give_up(asking, deal))
            raise

    async def _give_up(self, asking: asyncio.Future[ReservationHandle | BudgetShortage], deal: CostBound) -> None:
        held = await asking
        if isinstance(held, ReservationHandle):
            await self._settle(held, deal, Bill())

    def _kept(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """What must be done whoever waits for it; `close` waits for all of it."""
        task = asyncio.get_running_loop().create_task(work)
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)
        return task

    async def _settle(self, held: ReservationHandle, deal: CostBound, bill: Bill) -> None:
        actual, told = deal.actual(bill)
        if actual is not None and actual > deal.worst:
            _log.warning("a call cost more than was set aside", model=deal.model, actual=actual, reserved=deal.worst)
        try:
            await self._purse.settle(held, actual, told)
        except Unavailable as error:  # the store is away: nobody waits for it, and nothing stays set aside for ever
            if self._closing:
                raise
            _log.warning("a call is settled later", model=deal.model, why=error.why)
            self._kept(self._settle_later(held, actual, told))

    async def _settle_later(self, held: ReservationHandle, actual: int | None, told: TokenCounts) -> None:
        while not self._closing:
            await asyncio.sleep(LATER_S)
            with suppress(Unavailable):
                await self._purse.settle(held, actual, told)
                return
