"""Money around a call: held back before, settled after, whatever ends it, also whoever is cut off at any moment."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol
from weakref import WeakValueDictionary

from gatepost.core import log
from gatepost.core.errors import Unavailable
from gatepost.egress.contract import BudgetShortage, CallBudget, CallCost, ReservationHandle, Spender
from gatepost.egress.http import HttpRefusal
from gatepost.egress.upstream import Bill
from gatepost.store.money.costs import TokenCounts

LATER_S = 1.0  # between two tries to settle a call while the store is away
LONGEST_WAIT_S = 30.0  # for calls in flight to be settled
AGAIN_S = 1.0  # between two looks, where nothing tells of it
BUSY = "other calls have set aside what is left of the budget; try again when they have ended"

_log = log.get("egress")


class CostBound(Protocol):
    """The most that a call may cost."""

    @property
    def model(self) -> str: ...

    @property
    def worst(self) -> int: ...

    @property
    def tokens(self) -> TokenCounts: ...

    def actual(self, bill: Bill) -> CallCost: ...


class CallPayments:
    def __init__(self, purse: CallBudget) -> None:
        self._purse = purse
        self._lines: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by folder: whose calls wait
        self._freed_or_none: asyncio.Future[None] | None = None
        self._settling: set[asyncio.Task[None]] = set()
        self._closing = False

    async def close(self) -> None:
        """Wait until every call is settled. One that cannot be written now is settled in full at the next start."""
        self._closing = True
        if self._settling:
            await asyncio.wait(self._settling)

    @asynccontextmanager
    async def paid(self, spender: Spender, deal: CostBound) -> AsyncIterator[Bill]:
        """Raises Refusal if it does not fit."""
        held = await self._reserve(spender, deal)
        if isinstance(held, BudgetShortage):
            raise _make_refusal(held)
        async with self._settled(held, deal) as bill:
            yield bill

    @asynccontextmanager
    async def paid_in_turn(self, spender: Spender, deal: CostBound) -> AsyncIterator[Bill | None]:
        """The same, once calls in flight have left room for it; None if they have not in time."""
        held = await self._reserve_in_turn(spender, deal)
        if isinstance(held, BudgetShortage) and not held.busy:
            raise _make_refusal(held)
        if isinstance(held, BudgetShortage):
            yield None
            return
        async with self._settled(held, deal) as bill:
            yield bill

    @asynccontextmanager
    async def _settled(self, held: ReservationHandle, deal: CostBound) -> AsyncIterator[Bill]:
        bill = Bill()
        try:
            yield bill
        finally:
            await asyncio.shield(self.run_kept(self._settle(held, deal, bill)))

    async def _reserve_in_turn(self, spender: Spender, deal: CostBound) -> ReservationHandle | BudgetShortage:
        """The calls of a group wait in line, and only the first of the line asks the store again: many that wait are
        no more work for it than one."""
        line = self._lines.setdefault(spender.folder, asyncio.Lock())
        found = await self._reserve(spender, deal) if not line.locked() else None
        if found is not None and not (isinstance(found, BudgetShortage) and found.busy):
            return found
        shortage = BudgetShortage(BUSY, busy=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_WAIT_S), line:
                while True:
                    freed = self._freed
                    found = await self._reserve(spender, deal)
                    if not isinstance(found, BudgetShortage) or not found.busy:
                        return found
                    shortage = found
                    await asyncio.wait((freed,), timeout=AGAIN_S)  # another gateway's calls are settled unheard
        return shortage

    async def _reserve(self, spender: Spender, deal: CostBound) -> ReservationHandle | BudgetShortage:
        """Reserve the most that a call may cost. A caller that is cancelled meanwhile leaves nothing reserved."""
        asking = asyncio.ensure_future(self._purse.reserve(spender, deal.model, deal.worst, deal.tokens))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            self.run_kept(self._give_up(asking, deal))
            raise

    async def _give_up(self, asking: asyncio.Future[ReservationHandle | BudgetShortage], deal: CostBound) -> None:
        held = await asking
        if isinstance(held, ReservationHandle):
            await self._settle(held, deal, Bill())

    def run_kept(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run work that must be finished even if its caller is cancelled; `close` waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)
        return task

    async def _settle(self, held: ReservationHandle, deal: CostBound, bill: Bill) -> None:
        cost = deal.actual(bill)
        if cost.micro > deal.worst:
            _log.warning(
                "a call cost more than was set aside", model=deal.model, actual=cost.micro, reserved=deal.worst
            )
        try:
            await self._purse.settle(held, cost)
        except Unavailable as error:  # the store is away: nobody waits for it, and nothing stays set aside for ever
            if self._closing:
                raise
            _log.warning("a call is settled later", model=deal.model, why=error.why)
            self.run_kept(self._settle_later(held, cost))
            return
        self._ring()

    async def _settle_later(self, held: ReservationHandle, cost: CallCost) -> None:
        while not self._closing:
            await asyncio.sleep(LATER_S)
            with suppress(Unavailable):
                await self._purse.settle(held, cost)
                self._ring()
                return

    def _ring(self) -> None:
        """Something was given back: whoever waits for that may look."""
        freed, self._freed_or_none = self._freed_or_none, None
        if freed is not None and not freed.done():
            freed.set_result(None)

    @property
    def _freed(self) -> asyncio.Future[None]:
        """Done when the next call is settled."""
        if self._freed_or_none is None:
            self._freed_or_none = asyncio.get_running_loop().create_future()
        return self._freed_or_none


def _make_refusal(shortage: BudgetShortage) -> HttpRefusal:
    return HttpRefusal(429 if shortage.busy else 402, shortage.reason, retry_after=2 if shortage.busy else None)
