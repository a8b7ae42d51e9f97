"""Things that others give the way out: a purse and keys. Money is in millionths of a USD.

The purse decides. It reserves an upper bound, so that the budget holds however much a call costs in the end. If a
prompt was counted by its own endpoint, the bound is that count with a margin; a cost beyond it is booked and logged.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from gatepost.egress.prices import Price
from gatepost.store.money.costs import TokenCounts

Prices = Callable[[str], Price | None]


class Spender(Struct, frozen=True):
    """For whom a model is called."""

    folder: str
    session_id: str
    turn_id: str | None


class ReservationHandle(Struct, frozen=True):
    """So much is held back."""

    id: int


class CallCost(Struct, frozen=True):
    """The cost of a call. `measured`: False if it is the most that the call can have come to."""

    micro: int
    usage: TokenCounts = TokenCounts()
    measured: bool = True


class BudgetRoom(Struct, frozen=True):
    """So much is left; None: there is no limit."""

    now: int | None = None
    when_settled: int | None = None  # if the calls in flight cost nothing


class BudgetShortage(Struct, frozen=True):
    """It does not fit; the sentence is for the agent. `busy`: it may, once the calls in flight are settled."""

    reason: str
    busy: bool = False


class CallBudget(Protocol):
    async def room(self, spender: Spender) -> BudgetRoom:
        """Only `reserve` decides."""
        ...

    async def reserve(
        self, spender: Spender, model: str, worst: int, tokens: TokenCounts
    ) -> ReservationHandle | BudgetShortage:
        """`tokens`: at most, as `worst` is."""
        ...

    async def settle(self, held: ReservationHandle, cost: CallCost | None) -> None:
        """Book what it cost (None: nobody knows, so all of it) and give the rest back. Called once for every
        reservation, whatever happened."""
        ...

    async def find_counted(self, beginnings: Sequence[str]) -> Mapping[str, int]:
        """Return the tokens that vendors counted for prompts with some of these beginnings."""
        ...

    async def keep_counted(self, beginnings: Sequence[str], tokens: int) -> None: ...


class PriceAsker(Protocol):
    async def ask(self, spender: Spender, model: str) -> str:
        """Ask people what a model without a price costs. Return what the agent is told; '' if nobody is asked."""
        ...


class ModelKeys(Protocol):
    async def get(
        self, name: str, spender: Spender, purpose: str = "model", origins: tuple[str, ...] | None = None
    ) -> str | None:
        """Return a key of a model's vendor if it was given for one of these endpoints, and record its use."""
        ...


class HostSecrets(Protocol):
    async def get(self, name: str, spender: Spender, purpose: str) -> str | None:
        """As it holds for this group and person; the use is recorded with its purpose."""
        ...
