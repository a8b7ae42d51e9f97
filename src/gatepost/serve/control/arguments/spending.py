"""Money: what may be spent, and what was."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from gatepost.core.money import render_usd
from gatepost.core.record_fields import ShownAs, argument, option, shown
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.money.budgets import BudgetScopeKind


class BudgetAmounts(Struct, frozen=True, kw_only=True):
    limit_usd: float
    spent_usd: float
    reserved_usd: float
    left_usd: float
    ends_at: int
    raised_usd: float = 0  # of the limit, what was added for this day or month alone


class BudgetView(Struct, frozen=True):
    """The limits of a group, a person or the instance. `turn`, `task`, `session`: the most that one answer, one run of
    a task and one conversation may cost, in USD."""

    kind: BudgetScopeKind
    name: str
    daily: BudgetAmounts | None
    monthly: BudgetAmounts | None
    turn: float | None = None
    task: float | None = None
    session: float | None = None
    ended_usd: float = 0  # what people had added to the limits that were set anew just now


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


class ListedPrice(Struct, frozen=True, kw_only=True):
    """The price of a model, in millionths of a USD for a million tokens, a minute of sound, or a million characters
    spoken. `source`: the vendor's page, or the operator's file. `checked`: when it was compared or changed."""

    model: Annotated[str, shown("Model", ShownAs.ID, head="model")]
    input: Annotated[int, shown("Input", head="input", render=render_usd)]
    output: Annotated[int, shown("Output", head="output", render=render_usd)]
    cache_read: Annotated[int, shown("Cache read", head="cache read", render=render_usd)]
    cache_write: Annotated[int, shown("Cache write", head="cache write", render=render_usd)]
    minute: Annotated[int, shown("A minute", ShownAs.MONEY, head="minute")]
    characters: Annotated[int | None, shown("Spoken", ShownAs.MONEY, head="spoken")]
    checked: Annotated[str, shown("As of", head="as of")]
    source: Annotated[str, shown("Source", head="source")]


@declares("price.list", right="budgets.read")
class ListPricesArgs(OperationArgs[list[ListedPrice]], frozen=True):
    """The prices by which models are booked, for a million tokens: your own, and those of the vendors' lists."""

    model: Annotated[str, argument("Only of models whose name has this.")] = ""


@declares("price.set", right="budgets.write")
class SetPriceArgs(OperationArgs[ListedPrice], frozen=True):
    """Give a model a price of your own, in USD for a million tokens. It holds for the next call."""

    model: Annotated[
        str, argument("The model, as the agent calls it.", examples=("my-model",)), Meta(min_length=1, max_length=200)
    ]
    price: Annotated[str, argument("IN/OUT, or 0 if it is free.", metavar="IN/OUT", examples=("0.5/1.5", "0"))]


@declares("budget.set", right="budgets.write")
class SetBudgetArgs(OperationArgs[BudgetView], frozen=True):
    """Limit what a group (with all below it), a person or the gateway may spend in a day or month. Groups and the
    gateway also limit what one answer, one run of a task and one conversation may cost. Limits that are left out stay
    as they are. An amount that people added to a spent limit ends when the limit is set anew."""

    folder: Annotated[str, argument("The group.", scope=True)] = ""
    user: Annotated[str, option("The budget of a person.", metavar="ID", examples=("telegram:user/9",))] = ""
    instance: Annotated[bool, option("The budget of the whole gateway.")] = False
    daily: Annotated[
        str | None,
        option("For a day; 0 allows nothing; `none` takes the limit away.", metavar="USD", examples=("2.50", "none")),
    ] = None
    monthly: Annotated[str | None, option("The same for a month.", metavar="USD", examples=("50",))] = None
    turn: Annotated[
        str | None,
        option(
            "The most that one answer may cost. The nearest group above that says so counts; the gateway's is the"
            " default.",
            metavar="USD",
            examples=("0.50",),
        ),
    ] = None
    task: Annotated[
        str | None, option("The same for one run of a task (default: as --turn).", metavar="USD", examples=("1",))
    ] = None
    session: Annotated[
        str | None, option("The same for one conversation, until /new.", metavar="USD", examples=("5",))
    ] = None


@declares("budget.show", right="budgets.read", reads=True)
class ShowBudgetsArgs(OperationArgs[list[BudgetView]], frozen=True):
    """All budgets, with what is spent and what is set aside for calls that run."""

    folder: Annotated[str, option("Only of this group and those below it.", scope=True)] = ""


@declares("cost.show", right="budgets.read", reads=True)
class ShowCostArgs(OperationArgs[SpendingReport], frozen=True):
    """Money spent on models: as measured between the agents and the vendors, and as agents reported it.

    A call counts in the day in which it began. Its group is the one that spent it; budgets add up all below a group.
    """

    by: Annotated[Literal["group", "user", "model", "day"], option("The column to add up by.")] = "group"
    days: Annotated[int, option("Only the last so many days (UTC; 0: all).", least=0)] = 0
    folder: Annotated[str, option("Only of this group and those below it.", scope=True)] = ""
