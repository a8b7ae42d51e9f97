"""Money: what may be spent, and what was."""

import asyncio

from gatepost.core import settings
from gatepost.core.clock import DAY, Period, iso, start_of_period
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.home import Home
from gatepost.core.money import parse_usd, to_usd_number
from gatepost.core.records import asdict, replace
from gatepost.egress import prices
from gatepost.egress.audio import ENDPOINT_SETTINGS
from gatepost.egress.prices import FILE, Price
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.decide import Decision, follow_decision, withdraw_priced
from gatepost.serve.control.arguments.spending import (
    BudgetAmounts,
    BudgetView,
    ListedPrice,
    ListPricesArgs,
    SetBudgetArgs,
    SetPriceArgs,
    ShowBudgetsArgs,
    ShowCostArgs,
    SpendingReport,
    SpendingRow,
)
from gatepost.serve.control.contract import OperationDeps, operation, read_operation
from gatepost.store.money import budgets, costs, reservations
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind, BudgetStatus, Cap, CapSpan
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


def _limits(args: SetBudgetArgs) -> dict[Period | CapSpan, int | None]:
    given: tuple[tuple[Period | CapSpan, str | None, str], ...] = (
        (Period.DAY, args.daily, "daily"),
        (Period.MONTH, args.monthly, "monthly"),
        *((span, getattr(args, span), span.value) for span in CapSpan),
    )
    limits = {
        period: None if text.strip().lower() == NONE else parse_usd(text, field)
        for period, text, field in given
        if text is not None
    }
    if not limits:
        raise Invalid(
            "",
            f"how much? give --daily, --monthly, --turn, --task or --session in USD, or `{NONE}` to take a limit away",
        )
    if args.user and (caps := [each.value for each in limits if isinstance(each, CapSpan)]):
        raise Invalid(caps[0], "is a limit of a group or of the gateway; a person has --daily and --monthly")
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
        ended = sum(budgets.put(db, scope, period, micro, deps.caller, now) for period, micro in limits.items())
        waiting_requests.hurry(db, RequestKind.BUDGET, now)
        view = _make_view(scope, budgets.list_all(db, now), budgets.list_set_caps(db))
        return replace(view, ended_usd=to_usd_number(ended))

    view = await deps.write(change)
    deps.events.requests()
    return view


def _make_view(scope: BudgetScope, found: list[BudgetStatus], caps: list[Cap]) -> BudgetView:
    amounts = {each.period: _make_amounts(each) for each in found if each.scope == scope}
    most = {each.span.value: to_usd_number(each.micro) for each in caps if _get_scope(each) == scope}
    return BudgetView(scope.kind, scope.name, amounts.get(Period.DAY), amounts.get(Period.MONTH), **most)


def _get_scope(cap: Cap) -> BudgetScope:
    return BudgetScope(BudgetScopeKind.GROUP if cap.folder else BudgetScopeKind.INSTANCE, cap.folder)


def _make_amounts(status: BudgetStatus) -> BudgetAmounts:
    return BudgetAmounts(
        limit_usd=to_usd_number(status.limit),
        spent_usd=to_usd_number(status.spent),
        reserved_usd=to_usd_number(status.reserved),
        left_usd=to_usd_number(status.left),
        ends_at=status.ends_at,
        raised_usd=to_usd_number(status.raised),
    )


@read_operation
def show_budgets(db: Db, args: ShowBudgetsArgs, now: int) -> list[BudgetView]:
    """One entry a scope that has a limit, the instance first."""
    found = budgets.list_all(db, now)
    caps = budgets.list_set_caps(db)
    scopes = dict.fromkeys([*(each.scope for each in found), *map(_get_scope, caps)])
    if args.folder:
        scopes = dict.fromkeys(each for each in scopes if _is_of_group(each, args.folder))
    return [_make_view(scope, found, caps) for scope in scopes]


def _is_of_group(scope: BudgetScope, folder: str) -> bool:
    return scope.kind is BudgetScopeKind.GROUP and f"{scope.name}/".startswith(f"{folder}/")


@read_operation
def show_cost(db: Db, args: ShowCostArgs, now: int) -> SpendingReport:
    if args.days < 0:
        raise Invalid("days", f"{args.days} is negative; 0 means all")
    since = max(start_of_period(Period.DAY, now) - (args.days - 1) * DAY, 0) if args.days else 0
    rows = costs.list_sums(db, args.by, since, args.folder)
    total = sum(row.micro for row in rows)
    return SpendingReport(
        by=args.by,
        since=iso(since or None),
        total_usd=to_usd_number(total),
        total_micro=total,
        reserved_usd=to_usd_number(reservations.sum_reserved(db, args.folder)),
        rows=[_make_row(args.by, row) for row in rows],
    )


def _make_row(by: str, row: costs.CostSum) -> SpendingRow:
    numbers = asdict(row)
    return SpendingRow(**{by: numbers.pop("key")}, usd=to_usd_number(row.micro), **numbers)


@operation
async def list_prices(deps: OperationDeps, args: ListPricesArgs) -> list[ListedPrice]:
    found = await asyncio.to_thread(_load_prices, deps.home)
    return [each for each in found if args.model in each.model]


def _load_prices(home: Home) -> list[ListedPrice]:
    config = settings.load_declared(home.path, FILE)
    own, path = prices.load_own_prices(home, config), home.path / config[FILE]
    changed = str(iso(path.stat().st_mtime_ns // 1000))[:10] if config[FILE] else ""
    mine = [_make_price(name, price, str(path), changed) for name, price in own.items()]
    listed = prices.load_shipped_prices()
    shipped = ((name, listed[name], prices.find_shipped_source(name)) for name in listed if name not in own)
    return sorted(mine, key=lambda each: each.model) + [
        _make_price(name, price, source.page, source.checked) for name, price, source in shipped
    ]


def _make_price(model: str, price: Price, source: str, checked: str) -> ListedPrice:
    numbers = {name: getattr(price, name) for name in ("input", "output", "cache_read", "cache_write", "minute")}
    return ListedPrice(model=model, characters=price.characters, source=source, checked=checked, **numbers)


@operation
async def set_price(deps: OperationDeps, args: SetPriceArgs) -> ListedPrice:
    await put_price(deps, args.model, args.price)
    found = await asyncio.to_thread(_load_prices, deps.home)
    return next(each for each in found if each.model == args.model)


async def put_price(deps: OperationDeps, model: str, price: str) -> None:
    """In the operator's own file, which is made and named in the settings if there is none."""
    given, now = prices.parse_price(price), deps.clock.now()
    channels = deps.extra.get("channel_instances")

    def put(db: Db) -> Decision | None:
        prices.put_own_price(deps.home, model, given)
        return withdraw_priced(db, channels, model, now) if isinstance(channels, ChannelInstances) else None

    ended = await deps.write(put, action="prices.put", model=model, price=price)
    if deps.move_models is not None:
        deps.move_models(settings.load_declared(deps.home.path, *ENDPOINT_SETTINGS, FILE))
    if ended is not None:
        follow_decision(deps.events, ended)
