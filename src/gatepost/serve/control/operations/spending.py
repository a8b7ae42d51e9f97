"""Money: what may be spent, and what was."""

from gatepost.core.clock import DAY, Period, iso, start_of_period
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.money import parse_usd, to_usd_number
from gatepost.core.records import asdict, replace
from gatepost.serve.control.arguments.spending import (
    BudgetAmounts,
    BudgetView,
    SetBudgetArgs,
    ShowBudgetsArgs,
    ShowCostArgs,
    SpendingReport,
    SpendingRow,
)
from gatepost.serve.control.contract import OperationDeps, operation, read_operation
from gatepost.store.money import budgets, costs, reservations
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind, BudgetStatus
from gatepost.store.people import identities, users
from gatepost.store.port import Db
from gatepost.store.rights import waiting_requests
from gatepost.store.rights.requests import RequestKind
from gatepost.store.sessions import groups

NONE = "none"  # takes a limit away


def _scope(args: SetBudgetArgs) -> BudgetScope:
    if [bool(args.folder), bool(args.user), args.instance].count(True) != 1:
        raise Invalid("", "whose budget? name a FOLDER, or --user, or --instance, and only one of them")
    if args.instance:
        return BudgetScope(BudgetScopeKind.INSTANCE)
    return (
        BudgetScope(BudgetScopeKind.GROUP, args.folder) if args.folder else BudgetScope(BudgetScopeKind.USER, args.user)
    )


def _limits(args: SetBudgetArgs) -> dict[Period, int | None]:
    given = ((Period.DAY, args.daily, "daily"), (Period.MONTH, args.monthly, "monthly"))
    limits = {
        period: None if text.strip().lower() == NONE else parse_usd(text, field)
        for period, text, field in given
        if text is not None
    }
    if not limits:
        raise Invalid("", f"how much? give --daily or --monthly in USD, or `{NONE}` to take a limit away")
    return limits


def _resolve_person(db: Db, scope: BudgetScope) -> BudgetScope:
    """A budget is the person's, whichever of their identities is named."""
    return replace(scope, name=identities.get_person(db, scope.name)) if scope.kind is BudgetScopeKind.USER else scope


def _check_scope_exists(db: Db, scope: BudgetScope) -> None:
    if scope.kind is BudgetScopeKind.GROUP and groups.get(db, scope.name) is None:
        raise NotFound("group", scope.name, "`gatepost group list` shows them")
    if scope.kind is BudgetScopeKind.USER and users.get(db, scope.name) is None:
        raise NotFound("user", scope.name, f"`gatepost user add {scope.name}` makes them known")


@operation
async def set_budget(deps: OperationDeps, args: SetBudgetArgs) -> BudgetView:
    named, limits, now = _scope(args), _limits(args), deps.clock.now()

    def change(db: Db) -> BudgetView:
        scope = _resolve_person(db, named)
        if any(limit is not None for limit in limits.values()):  # one of a group that is gone can be taken away
            _check_scope_exists(db, scope)
        for period, micro in limits.items():
            budgets.put(db, scope, period, micro, deps.caller, now)
        waiting_requests.hurry(db, RequestKind.BUDGET, now)
        return _make_view(scope, budgets.list_all(db, now))

    view = await deps.write(change)
    deps.events.requests()
    return view


def _make_view(scope: BudgetScope, found: list[BudgetStatus]) -> BudgetView:
    amounts = {each.period: _make_amounts(each) for each in found if each.scope == scope}
    return BudgetView(scope.kind, scope.name, amounts.get(Period.DAY), amounts.get(Period.MONTH))


def _make_amounts(status: BudgetStatus) -> BudgetAmounts:
    return BudgetAmounts(
        limit_usd=to_usd_number(status.limit),
        spent_usd=to_usd_number(status.spent),
        reserved_usd=to_usd_number(status.reserved),
        left_usd=to_usd_number(status.left),
        ends_at=status.ends_at,
    )


@read_operation
def show_budgets(db: Db, args: ShowBudgetsArgs, now: int) -> list[BudgetView]:
    """One entry a scope that has a limit, the instance first."""
    found = budgets.list_all(db, now)
    return [_make_view(scope, found) for scope in dict.fromkeys(each.scope for each in found)]


@read_operation
def show_cost(db: Db, args: ShowCostArgs, now: int) -> SpendingReport:
    if args.days < 0:
        raise Invalid("days", f"{args.days} is negative; 0 means all")
    since = max(start_of_period(Period.DAY, now) - (args.days - 1) * DAY, 0) if args.days else 0
    rows = costs.list_sums(db, args.by, since)
    total = sum(row.micro for row in rows)
    return SpendingReport(
        by=args.by,
        since=iso(since or None),
        total_usd=to_usd_number(total),
        total_micro=total,
        reserved_usd=to_usd_number(reservations.sum_reserved(db)),
        rows=[_make_row(args.by, row) for row in rows],
    )


def _make_row(by: str, row: costs.CostSum) -> SpendingRow:
    numbers = asdict(row)
    return SpendingRow(**{by: numbers.pop("key")}, usd=to_usd_number(row.micro), **numbers)
