"""Money that was spent where the gateway does not see it."""

from typing import Annotated

from msgspec import Meta, Struct

from gatepost.access.subjects import Subject
from gatepost.access.tiers import Tier, world_of
from gatepost.core.clock import Period, start_of_period
from gatepost.core.errors import Invalid
from gatepost.core.money import MICRO, parse_usd, render_usd, to_usd_number
from gatepost.core.settings import setting
from gatepost.messages.text import clean
from gatepost.store.money import budgets, costs
from gatepost.store.money.costs import NewCost, TokenCounts
from gatepost.store.port import Db
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import tool

MOST = setting(
    "budget.external_max",
    100.0,
    help="The most that an agent may report as spent elsewhere in one call, in USD: a slip of its pen must not use up"
    " everybody's budget.",
)
DAILY = setting(
    "budget.external_daily",
    10.0,
    help="The most that a world may report as spent elsewhere in one day (UTC), in USD, where neither the group nor one"
    " above it has a daily budget; that budget counts instead. It is an agent's word, and uses up everybody's budget.",
)
LONGEST_NAME = 200
CENT = MICRO // 100

Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
Tokens = Annotated[int, Meta(ge=0, le=10**12, description="How many, 0 if unknown.")]


class LoggedCost(Struct, frozen=True):
    ok: bool
    cents: int  # rounded; the exact amount is booked
    left_usd: float | None  # what the budgets still allow; null if there is no limit


@tool(tier=Tier.WORKER, group="cost", effects=(Subject.SPEND,), reports_cost=True)
async def log_external_cost(
    call: ToolCall,
    provider: Annotated[Name, Meta(description="Who was paid, like openai.")],
    model: Annotated[Name, Meta(description="The model, like gpt-5 or gpt-5-mini.")],
    cost_usd: Annotated[float, Meta(ge=0, description="What the provider says that it cost, in USD.")],
    input_tokens: Tokens = 0,
    output_tokens: Tokens = 0,
) -> LoggedCost:
    """Report what a model call cost that you made past this gateway, right after it: a script or program with an
    account of its own. It counts against your group's budget.

    Not for your own model and not for calls through this gateway: those are measured.
    """
    micro = parse_usd(cost_usd, "cost_usd")
    if micro > parse_usd(most := call.deps.config[MOST], "budget.external_max"):
        raise Invalid(
            "cost_usd", f"{render_usd(micro)} is more than {most} USD in one call; report what was really spent"
        )
    usage = TokenCounts(input=input_tokens, output=output_tokens)
    left = await call.write(_book, call, f"{clean(provider)}:{clean(model)}", micro, usage)
    return LoggedCost(True, (micro + CENT // 2) // CENT, None if left is None else to_usd_number(left))


def _book(db: Db, call: ToolCall, model: str, micro: int, usage: TokenCounts) -> int | None:
    turn_id, folder = call.turn.id if call.turn else "", call.caller.folder
    user = costs.find_payer(db, turn_id) if turn_id else costs.find_last_payer(db, call.caller.session_id or "")
    new = NewCost(
        key=f"call/{call.key}",
        at=call.now,
        folder=folder,
        user=user,
        session_id=call.caller.session_id or "",
        turn_id=turn_id,
        model=model,
        micro=micro,
        usage=usage,
    )
    if costs.add_external(db, new, call.now):
        _check_day(db, call, micro)
    return budgets.get_remaining(db, folder, user, call.now)


def _check_day(db: Db, call: ToolCall, micro: int) -> None:
    """With what was just booked, which an error takes back: a report alone must not stop those who share a budget."""
    folder, default = call.caller.folder, parse_usd(call.deps.config[DAILY], "budget.external_daily")
    own = [
        each
        for each in budgets.list_applicable(db, folder, "", call.now)
        if each.scope.kind is budgets.BudgetScopeKind.GROUP
    ]
    daily = [each for each in own if each.period is Period.DAY]
    nearest = max(daily, key=lambda each: len(each.scope.name), default=None)
    whose, most = (nearest.scope.name, nearest.limit) if nearest else (world_of(folder), default)
    reported = costs.sum_external(db, whose, start_of_period(Period.DAY, call.now))
    if reported > most:
        raise Invalid(
            "cost_usd",
            f"{render_usd(reported - micro)} of at most {render_usd(most)} were reported today for {whose},"
            f" and {render_usd(micro)} is too much;"
            " the operator can raise `budget.external_daily` or set a daily budget for the group",
        )
