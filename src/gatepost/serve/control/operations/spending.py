"""Money: what may be spent, and what was."""

from typing import Any, Literal

from gatepost.access.budgets import parse_usd, to_usd_number
from gatepost.core.clock import DAY, iso
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.periods import Period, start_of
from gatepost.core.records import asdict
from gatepost.serve.control.contract import OPERATOR, NoArgs, OperationArgs, OperationDeps, operation, run_audited
from gatepost.store import budgets, costs, groups, reservations, users
from gatepost.store.budgets import BudgetScope, BudgetScopeKind, BudgetStatus
from gatepost.store.port import Db

NONE = "none"  # takes a limit away
By = Literal["group", "user", "model", "day"]


class SetBudgetArgs(OperationArgs, frozen=True):
    """One of folder, user and instance. A limit that is left out stays as it is."""

    folder: str = ""
    user: str = ""
    instance: bool = False
    daily: str | None = None  # USD, or none
    monthly: str | None = None


class ShowCostArgs(OperationArgs, frozen=True):
    by: By = "group"
    days: int = 0  # the last so many, today among them; 0: all


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


def _check_scope_exists(db: Db, scope: BudgetScope) -> None:
    if scope.kind is BudgetScopeKind.GROUP and groups.get(db, scope.name) is None:
        raise NotFound("group", scope.name, "`gatepost group list` shows them")
    if scope.kind is BudgetScopeKind.USER and users.get(db, scope.name) is None:
        raise NotFound("user", scope.name, f"`gatepost user add {scope.name}` makes them known")


@operation("budget.set", SetBudgetArgs)
async def set_budget(office: OperationDeps, args: SetBudgetArgs) -> dict[str, Any]:
    scope, limits, now = _scope(args), _limits(args), office.clock.now()

    def change(db: Db) -> dict[str, Any]:
        if any(limit is not None for limit in limits.values()):  # one of a group that is gone can be taken away
            _check_scope_exists(db, scope)
        for period, micro in limits.items():
            budgets.put(db, scope, period, micro, OPERATOR, now)
        kept = [each for each in budgets.list_all(db, now) if each.scope == scope]
        return _budget_to_json(scope, kept)

    details = {"kind": scope.kind, "name": scope.name, "daily": args.daily, "monthly": args.monthly}
    return await run_audited(office, "budget.set", details, change)


def _budget_to_json(scope: BudgetScope, found: list[BudgetStatus]) -> dict[str, Any]:
    by_period = {each.period: each for each in found}
    return {
        "kind": scope.kind,
        "name": scope.name,
        "daily": _amounts_to_json(by_period.get(Period.DAY)),
        "monthly": _amounts_to_json(by_period.get(Period.MONTH)),
    }


def _amounts_to_json(standing: BudgetStatus | None) -> dict[str, Any] | None:
    if standing is None:
        return None
    return {
        "limit_usd": to_usd_number(standing.limit),
        "spent_usd": to_usd_number(standing.spent),
        "reserved_usd": to_usd_number(standing.reserved),
        "left_usd": to_usd_number(standing.left),
        "ends_at": iso(standing.ends_at),
    }


def list_budgets(db: Db, now: int) -> list[dict[str, Any]]:
    """One entry a scope that has a limit, the instance first."""
    found = budgets.list_all(db, now)
    scopes = dict.fromkeys(each.scope for each in found)
    return [_budget_to_json(scope, [each for each in found if each.scope == scope]) for scope in scopes]


@operation("budget.show", NoArgs)
async def show_budgets(office: OperationDeps, args: NoArgs) -> list[dict[str, Any]]:
    return await office.store.read(list_budgets, office.clock.now())


def read_spending(db: Db, by: str, days: int, now: int) -> dict[str, Any]:
    """What was booked, and what calls in flight may still cost."""
    if days < 0:
        raise Invalid("days", f"{days} is negative; 0 means all")
    since = max(start_of(Period.DAY, now) - (days - 1) * DAY, 0) if days else 0
    rows = costs.list_sums(db, by, since)
    total = sum(row.micro for row in rows)
    return {
        "by": by,
        "since": iso(since or None),
        "total_usd": to_usd_number(total),
        "total_micro": total,
        "reserved_usd": to_usd_number(reservations.sum_reserved(db)),
        "rows": [{by: row.key, "usd": to_usd_number(row.micro), **_numbers(row)} for row in rows],
    }


def _numbers(row: costs.CostSum) -> dict[str, int]:
    return {name: value for name, value in asdict(row).items() if name != "key"}


@operation("cost.show", ShowCostArgs)
async def show_cost(office: OperationDeps, args: ShowCostArgs) -> dict[str, Any]:
    return await office.store.read(read_spending, args.by, args.days, office.clock.now())
