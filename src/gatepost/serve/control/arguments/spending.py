"""Money: what may be spent, and what was."""

from typing import Annotated, Literal

from msgspec import UNSET, Struct, UnsetType

from gatepost.core.record_fields import ShownAs, argument, option, shown
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.money.budgets import BudgetScopeKind


class BudgetAmounts(Struct, frozen=True, kw_only=True):
    limit_usd: float
    spent_usd: float
    reserved_usd: float
    left_usd: float
    ends_at: int


class BudgetView(Struct, frozen=True):
    kind: BudgetScopeKind
    name: str
    daily: BudgetAmounts | None
    monthly: BudgetAmounts | None


SPENT_BY = ("group", "user", "model", "day")


class SpendingRow(Struct, frozen=True, kw_only=True):
    """A sum of costs. It has one of `group`, `user`, `model` and `day`: the one that the report adds up by.
    `estimated_micro`: the part whose cost is not known for certain."""

    group: Annotated[str | UnsetType, shown("Group")] = UNSET
    user: Annotated[str | UnsetType, shown("Person")] = UNSET
    model: Annotated[str | UnsetType, shown("Model")] = UNSET
    day: Annotated[str | UnsetType, shown("Day")] = UNSET
    usd: float
    micro: Annotated[int, shown("Spent", ShownAs.MONEY, head="spent")]
    estimated_micro: Annotated[int, shown("Of it estimated", ShownAs.MONEY, head="estimated")]
    calls: Annotated[int, shown("Calls", ShownAs.NUMBER)]
    input: Annotated[int, shown("Input", ShownAs.NUMBER)]
    output: Annotated[int, shown("Output", ShownAs.NUMBER)]
    cache_read: Annotated[int, shown("Cache read", ShownAs.NUMBER, head="cache read")]
    cache_write: Annotated[int, shown("Cache write", ShownAs.NUMBER, head="cache write")]

    @property
    def key(self) -> str:
        """The group, person, model or day that spent it."""
        return next(each for each in (self.group, self.user, self.model, self.day) if isinstance(each, str))


class SpendingReport(Struct, frozen=True, kw_only=True):
    """Costs that were booked, and those that calls in flight may still cause."""

    by: str
    since: str | None
    total_usd: float
    total_micro: int
    reserved_usd: float
    rows: list[SpendingRow]


@declares("budget.set", right="budgets.write")
class SetBudgetArgs(OperationArgs[BudgetView], frozen=True):
    """Limit what a group (with all below it), a person or the gateway may spend. Limits that are left out stay as they
    are."""

    folder: Annotated[str, argument("The group.", scope=True)] = ""
    user: Annotated[str, option("The budget of a person.", metavar="ID", examples=("telegram:user/9",))] = ""
    instance: Annotated[bool, option("The budget of the whole gateway.")] = False
    daily: Annotated[
        str | None,
        option("For a day; 0 allows nothing; `none` takes the limit away.", metavar="USD", examples=("2.50", "none")),
    ] = None
    monthly: Annotated[str | None, option("The same for a month.", metavar="USD", examples=("50",))] = None


@declares("budget.show", right="budgets.read", reads=True)
class ShowBudgetsArgs(OperationArgs[list[BudgetView]], frozen=True):
    """All budgets, with what is spent and what is set aside for calls that run."""


@declares("cost.show", right="budgets.read", reads=True)
class ShowCostArgs(OperationArgs[SpendingReport], frozen=True):
    """Money spent on models: as measured between the agents and the vendors, and as agents reported it.

    A call counts in the day in which it began. Its group is the one that spent it; budgets add up all below a group.
    """

    by: Annotated[Literal["group", "user", "model", "day"], option("The column to add up by.")] = "group"
    days: Annotated[int, option("Only the last so many days (UTC; 0: all).", least=0)] = 0
