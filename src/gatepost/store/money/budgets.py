"""Budgets: how much a group with all below it, a user, or the whole instance may spend in a day or month (UTC).

`spending` holds what groups and users spent in each period, with a budget or without. Spending of the instance and
reservations are there for budgets alone: a call that meets none waits for nobody. A budget that is set at noon counts
the morning, by the costs and reservations that there are. No budget means no limit; a budget of 0 means that nothing
may be spent.

Caps limit one turn, one run of a task, or one conversation. A group sets each of them, or the instance, and the nearest
that does counts; a run has the lower one of its task's own, too. `spending` counts every turn and conversation. The
cost of an errand counts for the turn that gave it out, too, and for its conversation, however many errands lie between.

A call that spends shares `LockKind.MONEY`, and has each budget that applies alone while it looks and reserves. A change
of budgets has all of it alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

from msgspec import Struct

from gatepost.core.clock import Period, end_of_period, start_of_period
from gatepost.store.port import Db, LockKind, inline_read

_OWN_ROW = "WHERE kind = ? AND name = ? AND period = ? AND starts_at = ?"  # of a budget in its period
_CAPS = "period IN ('turn', 'task', 'session')"
NEVER = 2**62  # microseconds
MOST_STEPS = 50  # from errand to errand
NEAR = 80  # percent
STOP = 100


class BudgetScopeKind(StrEnum):
    GROUP = "group"
    USER = "user"
    INSTANCE = "instance"
    TURN = "turn"
    SESSION = "session"


class CapSpan(StrEnum):
    """The thing that a cap holds for each time. A task's run is a turn."""

    TURN = "turn"
    TASK = "task"
    SESSION = "session"


class BudgetScope(Struct, frozen=True):
    """The owner of the money. The instance has no name."""

    kind: BudgetScopeKind
    name: str = ""


class Cap(Struct, frozen=True):
    """A limit of one turn, run or conversation, in millionths of a USD. `folder`: the group that says so; '' for the
    instance. `task`: the id of the task that says so itself."""

    span: CapSpan
    micro: int
    folder: str = ""
    task: str = ""


class BudgetStatus(Struct, frozen=True):
    """A budget in the current period. Amounts are millionths of a USD. `limit`: with what it was raised by. `cap`: of
    one turn or conversation, whose period ends with it."""

    scope: BudgetScope
    period: Period | CapSpan
    limit: int
    spent: int
    reserved: int
    starts_at: int
    ends_at: int
    refuses: bool = False  # the last call did not fit, though something is left
    cap: Cap | None = None
    needed: int = 0  # what that call could have cost
    raised: int = 0  # of `limit`, what was added for this period alone
    refused: bool = False  # it was spent, or a call did not fit, in this period and as the limit is now

    @property
    def left(self) -> int:
        return max(self.limit - self.spent - self.reserved, 0)

    @property
    def unspent(self) -> int:
        """The amount that is left if the calls in flight cost nothing."""
        return max(self.limit - self.spent, 0)

    @property
    def is_spent(self) -> bool:
        """One of 0 was never there to be spent: who has that may use what costs nothing, which each call shows. A cap
        is small, so a rest that pays for no call is none."""
        return self.limit > 0 and (self.spent >= self.limit or (self.cap is not None and self.refuses))


class BudgetNotice(Struct, frozen=True):
    """Something to tell people, once in a period: 80 percent are spent, or nothing more fits (100)."""

    percent: int
    status: BudgetStatus


def list_scopes(folder: str, user: str) -> tuple[BudgetScope, ...]:
    """Everybody whose money a group spends: itself, its parents, the user, the instance."""
    parts = folder.split("/")
    groups = tuple(BudgetScope(BudgetScopeKind.GROUP, "/".join(parts[:depth])) for depth in range(len(parts), 0, -1))
    person = (BudgetScope(BudgetScopeKind.USER, user),) if user else ()
    return (*groups, *person, BudgetScope(BudgetScopeKind.INSTANCE))


def put(db: Db, scope: BudgetScope, period: Period | CapSpan, micro: int | None, by: str, now: int) -> int:
    """Set a limit; None takes it away. Raises of it end, and are returned. People hear anew when a changed one is
    nearly spent."""
    key = (scope.kind, scope.name, period)
    db.lock(LockKind.MONEY)
    raised = _end_raises(db, scope, period, now)
    found = db.row("SELECT micro FROM budgets WHERE kind = ? AND name = ? AND period = ?", key)
    if (found[0] if found else None) == micro and not raised:
        return 0
    if micro is None:
        db.run("DELETE FROM budgets WHERE kind = ? AND name = ? AND period = ?", key)
    else:
        db.run(
            "INSERT INTO budgets (kind, name, period, micro, set_by, set_at) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (kind, name, period) DO UPDATE SET micro = excluded.micro, set_by = excluded.set_by,"
            " set_at = excluded.set_at",
            (*key, micro, by, now),
        )
    if isinstance(period, CapSpan):
        db.run("UPDATE spending SET told_stop = 0, refuses = 0 WHERE kind IN ('turn', 'session') AND refuses = 1")
        return raised
    if found is None:
        _count_anew(db, scope, period, now)
    changed = "UPDATE spending SET told_near = 0, told_stop = 0, refuses = 0 WHERE kind = ? AND name = ? AND period = ?"
    db.run(changed, key)
    return raised


def _end_raises(db: Db, scope: BudgetScope, period: Period | CapSpan, now: int) -> int:
    """Take back what a limit was raised by: a budget in its running period, the cap of conversations in each of them
    that no nearer group limits. Return the sum."""
    keys = (
        [(scope.kind, scope.name, period, start_of_period(period, now))]
        if isinstance(period, Period)
        else _list_raised_conversations(db, scope, period)
    )
    ended = 0
    for key in keys:
        if row := db.row(f"SELECT raised FROM spending {_OWN_ROW} AND raised > 0", key):
            db.run(f"UPDATE spending SET raised = 0 {_OWN_ROW}", key)
            ended += int(row[0])
    return ended


def _list_raised_conversations(db: Db, scope: BudgetScope, span: CapSpan) -> list[tuple[str, str, str, int]]:
    """Return the keys in `spending` of those that run on, and that a cap of this scope holds."""
    rows = db.rows(
        "SELECT x.kind, x.name, x.period, x.starts_at, s.folder FROM spending x JOIN sessions s"
        " ON s.id = x.name AND COALESCE(s.reset_at, 0) = x.starts_at"
        " WHERE x.kind = 'session' AND x.period = ? AND x.raised > 0",
        (span,),
    )
    held = {str(row[4]) for row in rows if scope in list_scopes(str(row[4]), "")}
    nearer = {folder for folder in held if _is_held_nearer(db, scope, span, folder)}
    return [(row[0], row[1], row[2], int(row[3])) for row in rows if row[4] in held - nearer]


def _is_held_nearer(db: Db, scope: BudgetScope, span: CapSpan, folder: str) -> bool:
    cap = list_caps(db, folder).get(span)
    return cap is not None and len(cap.folder) > len(scope.name)


def raise_limit(db: Db, scope: BudgetScope, period: Period | CapSpan, starts_at: int, micro: int) -> None:
    """Allow so much more in the period that begins then. People hear anew when that is nearly spent."""
    key = (scope.kind, scope.name, period, starts_at)
    db.lock(LockKind.MONEY)
    _add_spending_row(db, key)
    more = f"UPDATE spending SET raised = raised + ?, told_near = 0, told_stop = 0, refuses = 0 {_OWN_ROW}"
    db.run(more, (micro, *key))


def _count_anew(db: Db, scope: BudgetScope, period: Period, now: int) -> None:
    """For a budget that is new, in the period of now: what is reserved, and what the instance has spent. While there
    was no budget, nobody counted it."""
    starts_at = start_of_period(period, now)
    reserved = _sum_where(db, "worst", "reservations", scope, starts_at)
    key = (scope.kind, scope.name, period, starts_at)
    _add_spending_row(db, key)
    db.run(f"UPDATE spending SET reserved = ? {_OWN_ROW}", (reserved, *key))
    if scope.kind is BudgetScopeKind.INSTANCE:
        spent = _sum_where(db, "micro", "costs", scope, starts_at)
        db.run(f"UPDATE spending SET spent = ? {_OWN_ROW}", (spent, *key))


def _sum_where(db: Db, column: str, table: str, scope: BudgetScope, since: int) -> int:
    below = f"{scope.name}/"
    mine = {
        BudgetScopeKind.INSTANCE: ("1 = 1", ()),
        BudgetScopeKind.USER: ("user_id = ?", (scope.name,)),
        BudgetScopeKind.GROUP: (
            "(folder = ? OR substr(folder, 1, CAST(? AS INTEGER)) = ?)",
            (scope.name, len(below), below),
        ),
    }
    where, params = mine[scope.kind]
    row = db.row(f"SELECT COALESCE(SUM({column}), 0) FROM {table} WHERE at >= ? AND {where}", (since, *params))
    return int(row[0]) if row else 0


def count_person_anew(db: Db, person: str, now: int) -> None:
    """After identities were paired: what is reserved for a person who has budgets."""
    for period in Period:
        if db.row("SELECT 1 FROM budgets WHERE kind = 'user' AND name = ? AND period = ?", (person, period)):
            _count_anew(db, BudgetScope(BudgetScopeKind.USER, person), period, now)


def hold_applicable(
    db: Db, folder: str, user: str, now: int, session_id: str = "", turn_id: str = ""
) -> list[BudgetStatus]:
    """The budgets that a call must fit into, each of them this transaction's alone; as they are then. If there are
    none, the call waits for nobody."""
    db.share(LockKind.MONEY)
    found = list_for_call(db, folder, user, session_id, turn_id, now)
    if not found:
        return []
    for scope in sorted({(each.scope.kind.value, each.scope.name) for each in found}):
        db.lock(LockKind.MONEY, *scope)
    return list_for_call(db, folder, user, session_id, turn_id, now)


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


def list_for_call(db: Db, folder: str, user: str, session_id: str, turn_id: str, now: int) -> list[BudgetStatus]:
    """The same, and the caps of the conversation and turn in which the call is made, and of those that asked for its
    work."""
    if not session_id:
        return list_applicable(db, folder, user, now)
    own = AskingTurn(session_id, find_charged_turn(db, session_id, turn_id), folder)
    capped = [cap for each in (own, *list_asking(db, own.turn_id)) for cap in _list_capped(db, each)]
    return [*list_applicable(db, folder, user, now), *capped]


class AskingTurn(Struct, frozen=True):
    """A turn whose caps a call counts for, and its group."""

    session_id: str
    turn_id: str
    folder: str


def list_asking(db: Db, turn_id: str) -> list[AskingTurn]:
    """Return the turns behind the errand that a turn works on, the nearest first. An errand that was given out between
    two turns was so by the one before."""
    found: list[AskingTurn] = []
    while turn_id and len(found) < MOST_STEPS:
        row = db.row(
            "SELECT e.caller_session, e.caller_folder, CASE WHEN e.caller_turn <> '' THEN e.caller_turn ELSE COALESCE("
            "(SELECT c.id FROM turns c WHERE c.session_id = e.caller_session AND c.started_at <= e.created_at"
            " ORDER BY c.started_at DESC LIMIT 1), '') END"
            " FROM turns t JOIN errands e ON e.id = t.thread WHERE t.id = ? AND t.instance = 'errands'",
            (turn_id,),
        )
        if row is None:
            break
        session_id, folder, turn_id = map(str, row)
        found.append(AskingTurn(session_id, turn_id, folder))
    return found


def find_charged_turn(db: Db, session_id: str, turn_id: str) -> str:
    """Return the turn whose cap a call counts for: of a call between turns, the one before it. So nobody gets round a
    cap by what goes on after the answer."""
    if turn_id or not session_id:
        return turn_id
    row = db.row("SELECT id FROM turns WHERE session_id = ? ORDER BY started_at DESC LIMIT 1", (session_id,))
    return str(row[0]) if row else ""


def find_session_cap(db: Db, session_id: str) -> BudgetStatus | None:
    """Return the cap of a conversation as it stands; None if it has none."""
    row = db.row("SELECT folder FROM sessions WHERE id = ?", (session_id,))
    own = AskingTurn(session_id, find_charged_turn(db, session_id, ""), str(row[0])) if row else None
    found = _list_capped(db, own) if own is not None else []
    return next((each for each in found if each.period is CapSpan.SESSION), None)


def list_caps(db: Db, folder: str) -> dict[CapSpan, Cap]:
    """Return the caps that hold for a group, each as the nearest one above it says that says anything."""
    scopes = list_scopes(folder, "")
    where = " OR ".join(["(kind = ? AND name = ?)"] * len(scopes))
    rows = db.rows(
        f"SELECT period, micro, name FROM budgets WHERE {_CAPS} AND ({where}) ORDER BY LENGTH(name)",
        tuple(part for each in scopes for part in (each.kind, each.name)),
    )
    return {CapSpan(span): Cap(CapSpan(span), int(micro), str(name)) for span, micro, name in rows}


def list_set_caps(db: Db) -> list[Cap]:
    """Return all caps that somebody set, the instance's first."""
    rows = db.rows(f"SELECT period, micro, name FROM budgets WHERE {_CAPS} ORDER BY name, period")
    return [Cap(CapSpan(span), int(micro), str(name)) for span, micro, name in rows]


def _list_capped(db: Db, each: AskingTurn) -> list[BudgetStatus]:
    """Return the caps of a conversation and of its turn, with what each has spent and set aside."""
    session_id, turn_id, caps = each.session_id, each.turn_id, list_caps(db, each.folder)
    of_turn = _choose_turn_cap(db, caps, turn_id) if turn_id else None
    of_session = caps.get(CapSpan.SESSION)
    if of_turn is None and of_session is None:
        return []
    begins = _find_beginning(db, session_id)
    found: list[BudgetStatus] = []
    if of_turn is not None and begins is not None:
        found.append(_read_capped(db, BudgetScope(BudgetScopeKind.TURN, turn_id), of_turn, session_id, 0))
    if of_session is not None and begins is not None:
        found.append(_read_capped(db, BudgetScope(BudgetScopeKind.SESSION, session_id), of_session, session_id, begins))
    return found


def _choose_turn_cap(db: Db, caps: dict[CapSpan, Cap], turn_id: str) -> Cap | None:
    """Return the cap of a turn; of a task's run, the one for runs, or the task's own if that is lower."""
    usual = caps.get(CapSpan.TURN)
    row = db.row(
        "SELECT k.id, k.max_cost FROM turns t JOIN inbox i ON i.turn_id = t.id"
        " JOIN firings f ON f.message_id = i.message_id JOIN tasks k ON k.id = f.task_id"
        " WHERE t.id = ? AND t.rights = 'task' LIMIT 1",
        (turn_id,),
    )
    if row is None:
        return usual
    usual = caps.get(CapSpan.TASK, usual)
    if row[1] is None or (usual is not None and usual.micro <= row[1]):
        return usual
    return Cap(CapSpan.TASK, int(row[1]), task=str(row[0]))


def _find_beginning(db: Db, session_id: str) -> int | None:
    """When a conversation began that was begun anew, else 0. None: there is no such one."""
    row = db.row("SELECT COALESCE(reset_at, 0) FROM sessions WHERE id = ?", (session_id,))
    return int(row[0]) if row else None


def _read_capped(db: Db, scope: BudgetScope, cap: Cap, session_id: str, starts_at: int) -> BudgetStatus:
    """In one statement, which sees a call either set aside or booked. Sums set aside are those of calls that run."""
    is_turn = scope.kind is BudgetScopeKind.TURN
    span, ends_at = (CapSpan.TURN, 0) if is_turn else (CapSpan.SESSION, NEVER)
    row = db.row(
        "SELECT COALESCE(MAX(spent), 0), COALESCE(MAX(raised), 0), COALESCE(MAX(refuses), 0), COALESCE(MAX(needed), 0),"
        " (SELECT COALESCE(SUM(worst), 0) FROM reservations WHERE session_id = ?"
        f" AND {'charged_turn = ?' if is_turn else 'at >= ?'}),"
        " (SELECT COALESCE(SUM(r.worst), 0) FROM reservation_charges c JOIN reservations r ON r.id = c.reservation_id"
        f" WHERE c.session_id = ? AND {'c.turn_id = ?' if is_turn else 'r.at >= ?'}) FROM spending {_OWN_ROW}",
        (*(session_id, scope.name if is_turn else starts_at) * 2, scope.kind, scope.name, span, starts_at),
    )
    assert row is not None
    spent, raised, refuses, needed, own, of_errands = map(int, row)
    limit, reserved = cap.micro + raised, own + of_errands
    return BudgetStatus(scope, span, limit, spent, reserved, starts_at, ends_at, bool(refuses), cap, needed)


def _list_where(db: Db, where: str, params: tuple[str, ...], now: int) -> list[BudgetStatus]:
    rows = db.rows(
        "SELECT b.kind, b.name, b.period, b.micro + COALESCE(s.raised, 0), COALESCE(s.spent, 0),"
        " COALESCE(s.reserved, 0), COALESCE(s.refuses, 0), COALESCE(s.needed, 0), COALESCE(s.raised, 0),"
        " COALESCE(s.told_stop, 0) FROM budgets b"
        " LEFT JOIN spending s ON s.kind = b.kind AND s.name = b.name AND s.period = b.period"
        " AND s.starts_at = CASE b.period WHEN 'day' THEN ? ELSE ? END"
        f" WHERE b.period IN ('day', 'month') AND ({where})",
        (start_of_period(Period.DAY, now), start_of_period(Period.MONTH, now), *params),
    )
    bounds = {each.value: (each, start_of_period(each, now), end_of_period(each, now)) for each in Period}
    found = []
    for kind, name, period, limit, spent, reserved, refuses, needed, raised, refused in rows:
        per, begins, ends = bounds[period]
        scope = BudgetScope(BudgetScopeKind(kind), name)
        found.append(
            BudgetStatus(
                scope, per, limit, spent, reserved, begins, ends, bool(refuses), None, needed, raised, bool(refused)
            )
        )
    return found


@inline_read
def get_remaining(db: Db, folder: str, user: str | None, now: int) -> int | None:
    """Return what may still be reserved, in millionths of a USD; None: there is no limit."""
    return min((each.left for each in list_applicable(db, folder, user or "", now)), default=None)


def mark_refusing(db: Db, status: BudgetStatus, needed: int) -> None:
    """A call that could cost so much did not fit. It is so until one does, or until the budget is changed."""
    _add_spending_row(db, _get_key(status))
    db.run(f"UPDATE spending SET refuses = 1, needed = ? {_OWN_ROW}", (needed, *_get_key(status)))


def add_reserved(db: Db, statuses: Iterable[BudgetStatus], micro: int) -> None:
    """Set something aside in these budgets, in one statement each. A call that fits clears the mark of a refusal. In
    caps the reservations themselves are the amount that is set aside."""
    for each in _in_order(statuses):
        if each.cap is None:
            _add(db, each.scope, each.period, each.starts_at, 0, micro)
        elif each.refuses:
            db.run(f"UPDATE spending SET refuses = 0 {_OWN_ROW}", _get_key(each))


def add_spending(
    db: Db,
    folder: str,
    user: str,
    at: int,
    *,
    spent: int,
    reserved: int = 0,
    session_id: str = "",
    turn_id: str = "",
    asking: Sequence[AskingTurn] = (),
) -> bool:
    """Add to what is spent, all the way up, in the periods that hold the moment `at`, and in the conversation and turn.
    Those that are `asking` for the work count it, too.
    Return True if a budget applies. `reserved`: what was set aside for it in these, and is no longer. The caller shares
    `LockKind.MONEY`."""
    limited = _list_keys(db, folder, user)
    for scope, period, starts_at in _list_periods(folder, user, at):
        is_limited = (scope.kind, scope.name, period) in limited
        if is_limited or scope.kind is not BudgetScopeKind.INSTANCE:
            _add_spent(db, scope, period, starts_at, spent, reserved if is_limited else 0)
    own = [AskingTurn(session_id, turn_id, folder)] if session_id else []
    known = [(each, begins) for each in (*own, *asking) if (begins := _find_beginning(db, each.session_id)) is not None]
    for each, _ in known:
        if each.turn_id:
            _add_spent(db, BudgetScope(BudgetScopeKind.TURN, each.turn_id), CapSpan.TURN, 0, spent, 0)
    for each, begins in known:  # behind all turns, as in `_in_order`
        if at >= begins:  # not of a conversation that was begun anew meanwhile
            _add_spent(db, BudgetScope(BudgetScopeKind.SESSION, each.session_id), CapSpan.SESSION, begins, spent, 0)
    return bool(limited)


def carry_turn(db: Db, earlier: str, turn_id: str) -> None:
    """Count what a turn has spent and set aside for another one, which tries its messages again."""
    spent = "SELECT spent FROM spending WHERE kind = 'turn' AND name = ? AND spent > 0"
    reserved = "SELECT 1 FROM reservations WHERE charged_turn = ?"
    for_errands = "SELECT 1 FROM reservation_charges WHERE turn_id = ?"
    if not db.row(f"{spent} UNION ALL {reserved} UNION ALL {for_errands}", (earlier, earlier, earlier)):
        return
    db.lock(LockKind.MONEY)  # a call that ends just now is either spent or set aside
    if row := db.row(spent, (earlier,)):
        _add_spent(db, BudgetScope(BudgetScopeKind.TURN, turn_id), CapSpan.TURN, 0, int(row[0]), 0)
    db.run("UPDATE reservations SET charged_turn = ? WHERE charged_turn = ?", (turn_id, earlier))
    db.run("UPDATE reservation_charges SET turn_id = ? WHERE turn_id = ?", (turn_id, earlier))


def _add_spent(db: Db, scope: BudgetScope, period: Period | CapSpan, starts_at: int, spent: int, freed: int) -> None:
    """`freed`: what is no longer reserved. A budget that is newer than the period of a call never held it."""
    changed = db.run(
        "UPDATE spending SET spent = spent + ?, reserved = CASE WHEN reserved > ? THEN reserved - ? ELSE 0 END"
        " WHERE kind = ? AND name = ? AND period = ? AND starts_at = ?",
        (spent, freed, freed, scope.kind, scope.name, period, starts_at),
    )
    if not changed:
        _add(db, scope, period, starts_at, spent, 0)


def _add(db: Db, scope: BudgetScope, period: Period | CapSpan, starts_at: int, spent: int, reserved: int) -> None:
    db.run(
        "INSERT INTO spending (kind, name, period, starts_at, spent, reserved) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (kind, name, period, starts_at) DO UPDATE SET spent = spending.spent + excluded.spent,"
        " reserved = spending.reserved + excluded.reserved, refuses = 0",
        (scope.kind, scope.name, period, starts_at, spent, reserved),
    )


def _list_keys(db: Db, folder: str, user: str) -> set[tuple[str, str, str]]:
    """Which budgets apply."""
    scopes = list_scopes(folder, user)
    where = " OR ".join(["(kind = ? AND name = ?)"] * len(scopes))
    params = tuple(part for each in scopes for part in (each.kind, each.name))
    return {
        (row[0], row[1], row[2]) for row in db.rows(f"SELECT kind, name, period FROM budgets WHERE {where}", params)
    }


def _in_order(statuses: Iterable[BudgetStatus]) -> list[BudgetStatus]:
    """In that of `_list_periods`: two that lock the same rows never wait for each other in a circle."""
    kinds, periods = list(BudgetScopeKind), [*Period, *CapSpan]
    return sorted(
        statuses,
        key=lambda each: (kinds.index(each.scope.kind), -each.scope.name.count("/"), periods.index(each.period)),
    )


def _list_periods(folder: str, user: str, at: int) -> Iterator[tuple[BudgetScope, Period, int]]:
    return ((scope, period, start_of_period(period, at)) for scope in list_scopes(folder, user) for period in Period)


def claim_notices(db: Db, folder: str, user: str, now: int) -> tuple[BudgetNotice, ...]:
    """Return what people must hear about the money that was spent; each thing is handed out once, however many ask."""
    high = [
        each for each in list_applicable(db, folder, user, now) if each.spent * 100 >= each.limit * NEAR and each.spent
    ]
    notes = (BudgetNotice(STOP if each.spent >= each.limit else NEAR, each) for each in high)
    return tuple(note for note in notes if _claim_notice(db, note))


def claim_stop_notice(db: Db, status: BudgetStatus) -> tuple[BudgetNotice, ...]:
    """The message that nothing more fits; empty if it was handed out before."""
    note = BudgetNotice(STOP, status)
    return (note,) if _claim_notice(db, note) else ()


def _claim_notice(db: Db, note: BudgetNotice) -> bool:
    key = _get_key(note.status)
    _add_spending_row(db, key)
    if note.percent == NEAR:
        return bool(db.run(f"UPDATE spending SET told_near = 1 {_OWN_ROW} AND told_near = 0", key))
    return bool(db.run(f"UPDATE spending SET told_near = 1, told_stop = 1 {_OWN_ROW} AND told_stop = 0", key))


def _get_key(status: BudgetStatus) -> tuple[str, str, str, int]:
    return status.scope.kind, status.scope.name, status.period, status.starts_at


def _add_spending_row(db: Db, key: tuple[str, str, str, int]) -> None:
    """A budget of 0 stops a scope in which nothing was ever spent."""
    db.run(
        "INSERT INTO spending (kind, name, period, starts_at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (kind, name, period, starts_at) DO NOTHING",
        key,
    )
