"""Budgets: how much a group with all below it, a user, or the whole instance may spend in a day or month (UTC).

`spending` holds what was spent and what is reserved in each scope and period, with a budget or without, so that one
that is set at noon counts the morning. No budget means no limit; a budget of 0 means that nothing may be spent.
"""

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

from gatepost.core.periods import Period, end_of, start_of
from gatepost.store.port import Db, LockKind, quick

_OWN_ROW = "WHERE kind = ? AND name = ? AND period = ? AND starts_at = ?"  # of a budget in its period
NEAR = 80  # percent
STOP = 100


class BudgetScopeKind(StrEnum):
    GROUP = "group"
    USER = "user"
    INSTANCE = "instance"


class BudgetScope(Struct, frozen=True):
    """Whose money it is. The instance has no name."""

    kind: BudgetScopeKind
    name: str = ""


class BudgetStatus(Struct, frozen=True):
    """A budget in the current period. Amounts are millionths of a USD."""

    scope: BudgetScope
    period: Period
    limit: int
    spent: int
    reserved: int
    starts_at: int
    ends_at: int
    refuses: bool = False  # the last call did not fit, though something is left

    @property
    def left(self) -> int:
        return max(self.limit - self.spent - self.reserved, 0)

    @property
    def unspent(self) -> int:
        """What is left if the calls in flight cost nothing."""
        return max(self.limit - self.spent, 0)


class BudgetNotice(Struct, frozen=True):
    """Something to tell people, once in a period: 80 percent are spent, or nothing more fits (100)."""

    percent: int
    standing: BudgetStatus


def list_scopes(folder: str, user: str) -> tuple[BudgetScope, ...]:
    """Everybody whose money a group spends: itself, its parents, the user, the instance."""
    parts = folder.split("/")
    groups = tuple(BudgetScope(BudgetScopeKind.GROUP, "/".join(parts[:depth])) for depth in range(len(parts), 0, -1))
    person = (BudgetScope(BudgetScopeKind.USER, user),) if user else ()
    return (*groups, *person, BudgetScope(BudgetScopeKind.INSTANCE))


def put(db: Db, scope: BudgetScope, period: Period, micro: int | None, by: str, now: int) -> None:
    """Set a limit; None takes it away. People hear anew when a changed one is nearly spent."""
    key = (scope.kind, scope.name, period)
    db.alone(LockKind.MONEY)
    found = db.row("SELECT micro FROM budgets WHERE kind = ? AND name = ? AND period = ?", key)
    if (found[0] if found else None) == micro:
        return
    if micro is None:
        db.run("DELETE FROM budgets WHERE kind = ? AND name = ? AND period = ?", key)
    else:
        db.run(
            "INSERT INTO budgets (kind, name, period, micro, set_by, set_at) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (kind, name, period) DO UPDATE SET micro = excluded.micro, set_by = excluded.set_by,"
            " set_at = excluded.set_at",
            (*key, micro, by, now),
        )
    changed = "UPDATE spending SET told_near = 0, told_stop = 0, refuses = 0 WHERE kind = ? AND name = ? AND period = ?"
    db.run(changed, key)


def list_all(db: Db, now: int) -> list[BudgetStatus]:
    """All budgets, the instance's first."""
    found = _list_where(db, "1 = 1", (), now)
    order = (BudgetScopeKind.INSTANCE, BudgetScopeKind.GROUP, BudgetScopeKind.USER)
    return sorted(found, key=lambda each: (order.index(each.scope.kind), each.scope.name, each.period))


def list_shared(db: Db, now: int) -> list[BudgetStatus]:
    """Those of groups and of the instance, whoever spends."""
    return _list_where(db, "b.kind <> 'user'", (), now)


def has_budgets(db: Db) -> bool:
    return db.row("SELECT 1 FROM budgets LIMIT 1") is not None


def list_applicable(db: Db, folder: str, user: str, now: int) -> list[BudgetStatus]:
    """The budgets that a group's calls for a user must fit into."""
    scopes = list_scopes(folder, user)
    where = " OR ".join(["(b.kind = ? AND b.name = ?)"] * len(scopes))
    return _list_where(db, where, tuple(part for each in scopes for part in (each.kind, each.name)), now)


def _list_where(db: Db, where: str, params: tuple[str, ...], now: int) -> list[BudgetStatus]:
    rows = db.rows(
        "SELECT b.kind, b.name, b.period, b.micro, COALESCE(s.spent, 0), COALESCE(s.reserved, 0),"
        " COALESCE(s.refuses, 0) FROM budgets b"
        " LEFT JOIN spending s ON s.kind = b.kind AND s.name = b.name AND s.period = b.period"
        f" AND s.starts_at = CASE b.period WHEN 'day' THEN ? ELSE ? END WHERE {where}",
        (start_of(Period.DAY, now), start_of(Period.MONTH, now), *params),
    )
    bounds = {each.value: (each, start_of(each, now), end_of(each, now)) for each in Period}
    found = []
    for kind, name, period, limit, spent, reserved, refuses in rows:
        per, begins, ends = bounds[period]
        scope = BudgetScope(BudgetScopeKind(kind), name)
        found.append(BudgetStatus(scope, per, limit, spent, reserved, begins, ends, bool(refuses)))
    return found


@quick
def get_remaining(db: Db, folder: str, user: str | None, now: int) -> int | None:
    """What may still be reserved, in millionths of a USD; None: there is no limit."""
    return min((each.left for each in list_applicable(db, folder, user or "", now)), default=None)


def mark_refusing(db: Db, standing: BudgetStatus) -> None:
    """A call did not fit. It is so until one does, or until the budget is changed."""
    _add_spending_row(db, standing)
    db.run(f"UPDATE spending SET refuses = 1 {_OWN_ROW}", _get_key(standing))


def add_spending(db: Db, folder: str, user: str, at: int, *, spent: int = 0, reserved: int = 0) -> None:
    """Add to what is spent and reserved, all the way up, in the periods that hold the moment `at`. What fits is not
    refused."""
    for scope, period, starts_at in _list_periods(folder, user, at):
        db.run(
            "INSERT INTO spending (kind, name, period, starts_at, spent, reserved) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (kind, name, period, starts_at) DO UPDATE SET spent = spending.spent + excluded.spent,"
            " reserved = spending.reserved + excluded.reserved, refuses = 0",
            (scope.kind, scope.name, period, starts_at, spent, reserved),
        )


def settle_reserved(db: Db, folder: str, user: str, at: int, *, spent: int, reserved: int) -> None:
    """What was reserved becomes what was spent."""
    for scope, period, starts_at in _list_periods(folder, user, at):
        db.run(
            "UPDATE spending SET spent = spent + ?, reserved = reserved - ?"
            " WHERE kind = ? AND name = ? AND period = ? AND starts_at = ?",
            (spent, reserved, scope.kind, scope.name, period, starts_at),
        )


def _list_periods(folder: str, user: str, at: int) -> Iterator[tuple[BudgetScope, Period, int]]:
    return ((scope, period, start_of(period, at)) for scope in list_scopes(folder, user) for period in Period)


def claim_notices(db: Db, folder: str, user: str, now: int) -> tuple[BudgetNotice, ...]:
    """What people must hear about the money that was spent; each thing is handed out once, however many ask."""
    high = [
        each for each in list_applicable(db, folder, user, now) if each.spent * 100 >= each.limit * NEAR and each.spent
    ]
    notes = (BudgetNotice(STOP if each.spent >= each.limit else NEAR, each) for each in high)
    return tuple(note for note in notes if _claim_notice(db, note))


def claim_stop_notice(db: Db, standing: BudgetStatus) -> tuple[BudgetNotice, ...]:
    """The message that nothing more fits; empty if it was handed out before."""
    note = BudgetNotice(STOP, standing)
    return (note,) if _claim_notice(db, note) else ()


def _claim_notice(db: Db, note: BudgetNotice) -> bool:
    key = _get_key(note.standing)
    _add_spending_row(db, note.standing)
    if note.percent == NEAR:
        return bool(db.run(f"UPDATE spending SET told_near = 1 {_OWN_ROW} AND told_near = 0", key))
    return bool(db.run(f"UPDATE spending SET told_near = 1, told_stop = 1 {_OWN_ROW} AND told_stop = 0", key))


def _get_key(standing: BudgetStatus) -> tuple[str, str, str, int]:
    return standing.scope.kind, standing.scope.name, standing.period, standing.starts_at


def _add_spending_row(db: Db, standing: BudgetStatus) -> None:
    """A budget of 0 stops a scope in which nothing was ever spent."""
    db.run(
        "INSERT INTO spending (kind, name, period, starts_at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (kind, name, period, starts_at) DO NOTHING",
        _get_key(standing),
    )
