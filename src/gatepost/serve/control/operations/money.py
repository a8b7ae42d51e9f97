"""Money: what may be spent, and what was."""

from dataclasses import asdict
from typing import Any, Literal

from gatepost.access.budgets import in_usd, micro_of
from gatepost.core.clock import DAY, iso
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.periods import Period, start_of
from gatepost.serve.control.contract import OPERATOR, Args, Nothing, Office, operation, write_down
from gatepost.store import budgets, costs, groups, reservations, users
from gatepost.store.budgets import Kind, Scope, Standing
from gatepost.store.port import Db

NONE = "none"  # takes a limit away
By = Literal["group", "user", "model", "day"]


class Set(Args, frozen=True):
    """One of folder, user and instance. A limit that is left out stays as it is."""

    folder: str = ""
    user: str = ""
    instance: bool = False
    daily: str | None = None  # USD, or none
    monthly: str | None = None


class Cost(Args, frozen=True):
    by: By = "group"
    days: int = 0  # the last so many, today among them; 0: all


def _scope(args: Set) -> Scope:
    if [bool(args.folder), bool(args.user), args.instance].count(True) != 1:
        raise Invalid("", "whose budget? name a FOLDER, or --user, or --instance, and only one of them")
    if args.instance:
        return Scope(Kind.INSTANCE)
    return Scope(Kind.GROUP, args.folder) if args.folder else Scope(Kind.USER, args.user)


def _limits(args: Set) -> dict[Period, int | None]:
    given = ((Period.DAY, args.daily, "daily"), (Period.MONTH, args.monthly, "monthly"))
    limits = {
        period: None if text.strip().lower() == NONE else micro_of(text, field)
        for period, text, field in given
        if text is not None
    }
    if not limits:
        raise Invalid("", f"how much? give --daily or --monthly in USD, or `{NONE}` to take a limit away")
    return limits


def _known(db: Db, scope: Scope) -> None:
    if scope.kind is Kind.GROUP and groups.get(db, scope.name) is None:
        raise NotFound("group", scope.name, "`gatepost group list` shows them")
    if scope.kind is Kind.USER and users.get(db, scope.name) is None:
        raise NotFound("user", scope.name, f"`gatepost user add {scope.name}` makes them known")


@operation("budget.set", Set)
async def set_budget(office: Office, args: Set) -> dict[str, Any]:
    scope, limits, now = _scope(args), _limits(args), office.clock.now()

    def change(db: Db) -> dict[str, Any]:
        if any(limit is not None for limit in limits.values()):  # one of a group that is gone can be taken away
            _known(db, scope)
        for period, micro in limits.items():
            budgets.put(db, scope, period, micro, OPERATOR, now)
        kept = [each for each in budgets.every(db, now) if each.scope == scope]
        return _told(scope, kept)

    details = {"kind": scope.kind, "name": scope.name, "daily": args.daily, "monthly": args.monthly}
    return await write_down(office, "budget.set", details, change)


def _told(scope: Scope, found: list[Standing]) -> dict[str, Any]:
    by_period = {each.period: each for each in found}
    return {
        "kind": scope.kind,
        "name": scope.name,
        "daily": _amounts(by_period.get(Period.DAY)),
        "monthly": _amounts(by_period.get(Period.MONTH)),
    }


def _amounts(standing: Standing | None) -> dict[str, Any] | None:
    if standing is None:
        return None
    return {
        "limit_usd": in_usd(standing.limit),
        "spent_usd": in_usd(standing.spent),
        "reserved_usd": in_usd(standing.reserved),
        "left_usd": in_usd(standing.left),
        "ends_at": iso(standing.ends_at),
    }


def all_budgets(db: Db, now: int) -> list[dict[str, Any]]:
    """One entry a scope that has a limit, the instance first."""
    found = budgets.every(db, now)
    scopes = dict.fromkeys(each.scope for each in found)
    return [_told(scope, [each for each in found if each.scope == scope]) for scope in scopes]


@operation("budget.show", Nothing)
async def show_budgets(office: Office, args: Nothing) -> list[dict[str, Any]]:
    return await office.store.read(all_budgets, office.clock.now())


def spent(db: Db, by: str, days: int, now: int) -> dict[str, Any]:
    """What was booked, and what calls in flight may still cost."""
    if days < 0:
        raise Invalid("days", f"{days} is negative; 0 means all")
    since = max(start_of(Period.DAY, now) - (days - 1) * DAY, 0) if days else 0
    rows = costs.sums(db, by, since)
    total = sum(row.micro for row in rows)
    return {
        "by": by,
        "since": iso(since or None),
        "total_usd": in_usd(total),
        "total_micro": total,
        "reserved_usd": in_usd(reservations.in_flight(db)),
        "rows": [{by: row.key, "usd": in_usd(row.micro), **_numbers(row)} for row in rows],
    }


def _numbers(row: costs.Sum) -> dict[str, int]:
    return {name: value for name, value in asdict(row).items() if name != "key"}


@operation("cost.show", Cost)
async def show_cost(office: Office, args: Cost) -> dict[str, Any]:
    return await office.store.read(spent, args.by, args.days, office.clock.now())
