"""Money: what may be spent, and what was."""

from typing import Annotated, Any, Literal

from gatepost.serve.control.declaration import OperationArgs, argument, declares, option


@declares("budget.set", right="budgets.write")
class SetBudgetArgs(OperationArgs[Any], frozen=True):
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
class ShowBudgetsArgs(OperationArgs[Any], frozen=True):
    """All budgets, with what is spent and what is set aside for calls that run."""


@declares("cost.show", right="budgets.read", reads=True)
class ShowCostArgs(OperationArgs[Any], frozen=True):
    """Money spent on models: as measured between the agents and the vendors, and as agents reported it.

    A call counts in the day in which it began. Its group is the one that spent it; budgets add up all below a group.
    """

    by: Annotated[Literal["group", "user", "model", "day"], option("The column to add up by.")] = "group"
    days: Annotated[int, option("Only the last so many days (UTC; 0: all).", least=0)] = 0
