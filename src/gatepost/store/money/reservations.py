"""Reservations: before a model call, the worst that it can cost is set aside; after it, what it did cost is booked.

The check and the reservation are one transaction, which has each budget that applies alone, so calls that come together
cannot pass a budget together. A reservation is either settled or, after a crash, booked in full; it is never forgotten.

Prompt sizes are the tokens that vendors counted for prompts with one beginning: a bound for the next of these.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import astuple

from gatepost.core.errors import Invalid
from gatepost.core.money import DEAREST
from gatepost.store.engine.table import Table
from gatepost.store.money import budgets, costs
from gatepost.store.money.budgets import AskingTurn, BudgetNotice, BudgetStatus
from gatepost.store.money.costs import NewCost, TokenCounts
from gatepost.store.port import Db, LockKind

NO_TOKENS = TokenCounts()
MOST_SIZES = 1000  # prompt sizes that are kept


class BudgetReservation(Struct, frozen=True):
    id: int
    notes: tuple[BudgetNotice, ...] = ()


class BudgetDenial(Struct, frozen=True):
    """The call does not fit. `busy`: it would, if calls in flight cost less than their worst; so nobody is told."""

    status: BudgetStatus  # of the budget that stands in the way the longest
    asked: int
    busy: bool
    notes: tuple[BudgetNotice, ...] = ()


class CostSettlement(Struct, frozen=True):
    micro: int  # what was booked
    notes: tuple[BudgetNotice, ...] = ()


class _Reservation(Struct, frozen=True):
    id: int
    at: int
    folder: str
    user_id: str
    session_id: str
    turn_id: str
    model: str
    worst: int
    gateway: str = ""
    input: int = 0  # tokens at most …
    output: int = 0  # … as `worst` counts them
    charged_turn: str = ""  # whose cap it counts for


RESERVATIONS = Table("reservations", _Reservation)


class _Charge(Struct, frozen=True):
    """A turn that asked for the work of a call, and its conversation."""

    reservation_id: int
    step: int
    session_id: str
    turn_id: str


CHARGES = Table("reservation_charges", _Charge)


def reserve(
    db: Db,
    folder: str,
    user: str | None,
    session_id: str | None,
    turn_id: str | None,
    model: str,
    worst_micro: int,
    now: int,
    tokens: TokenCounts = NO_TOKENS,
) -> BudgetReservation | BudgetDenial:
    """Set aside the worst that a call can cost, if it fits everywhere up the tree. `tokens`: at most, for a call of
    which nothing else is learnt."""
    if not 0 <= worst_micro <= DEAREST:
        raise Invalid("worst_micro", f"{worst_micro} is no price of a call")
    payer = user or ""
    session, turn = session_id or "", turn_id or ""
    statuses = budgets.hold_applicable(db, folder, payer, now, session, turn)
    denied = check_fit(statuses, worst_micro)
    if denied is not None:
        notes = () if denied.busy else budgets.claim_stop_notice(db, denied.status)
        if not denied.busy:
            budgets.mark_refusing(db, denied.status, worst_micro)
        return BudgetDenial(denied.status, worst_micro, denied.busy, notes)
    held = RESERVATIONS.put(
        db,
        at=now,
        folder=folder,
        user_id=payer,
        session_id=session,
        turn_id=turn,
        model=model,
        worst=worst_micro,
        gateway=db.gateway,  # that makes the call: whoever takes over from it books what it leaves
        input=tokens.input,
        output=tokens.output,
        charged_turn=budgets.find_charged_turn(db, session, turn),
    )
    for step, each in enumerate(budgets.list_asking(db, held.charged_turn)):
        CHARGES.insert(db, "", reservation_id=held.id, step=step, session_id=each.session_id, turn_id=each.turn_id)
    budgets.add_reserved(db, statuses, worst_micro)
    return BudgetReservation(held.id, budgets.claim_notices(db, folder, payer, now) if statuses else ())


def check_fit(statuses: Sequence[BudgetStatus], worst: int) -> BudgetDenial | None:
    """Return the denial, or None if the cost fits. A call that costs nothing always fits."""
    full = [each for each in statuses if worst > each.left]
    if not full:
        return None
    lasting = [each for each in full if each.spent + worst > each.limit]
    chosen = max(lasting or full, key=lambda each: (each.ends_at, -each.left))
    return BudgetDenial(chosen, worst, busy=not lasting)


def find_spent(db: Db, folder: str, user: str | None, now: int, session_id: str = "") -> BudgetStatus | None:
    """Is a budget, or the cap of this conversation, spent, so that nothing should even be started?"""
    cap = budgets.find_session_cap(db, session_id) if session_id else None
    found = [*budgets.list_applicable(db, folder, user or "", now), *([cap] if cap is not None else [])]
    return max((each for each in found if each.is_spent), key=lambda each: each.ends_at, default=None)


def find_spent_budget(db: Db, folder: str, user: str | None, now: int, session_id: str = "") -> BudgetDenial | None:
    """The same for a turn that is to begin. Its message is handed out once."""
    chosen = find_spent(db, folder, user, now, session_id)
    if chosen is None:
        return None
    return BudgetDenial(chosen, 0, busy=False, notes=budgets.claim_stop_notice(db, chosen))


def settle(
    db: Db, reservation_id: int, actual_micro: int | None, usage: TokenCounts | None, now: int, *, measured: bool = True
) -> CostSettlement | None:
    """Book what a call did cost; None for `actual_micro` (the usage was never learnt) books it in full.

    `measured`: False if the cost is an estimate. Return None if the reservation is settled already.
    """
    db.share(LockKind.MONEY)
    asking = _list_asking(db, reservation_id)
    row = db.row(f"DELETE FROM reservations WHERE id = ? RETURNING {RESERVATIONS.columns}", (reservation_id,))
    if row is None:
        return None
    held = RESERVATIONS.parse(row)
    micro, limited = _record_cost(db, held, asking, actual_micro, usage or NO_TOKENS, now, measured=measured)
    return CostSettlement(micro, budgets.claim_notices(db, held.folder, held.user_id, now) if limited else ())


def settle_leftovers(db: Db, now: int, gateway: str = "") -> int:
    """Nobody will settle what a gateway that is gone has left, and the call may have cost its worst. How many there
    were."""
    db.lock(LockKind.MONEY)
    found = RESERVATIONS.list(db, "WHERE gateway = ?", gateway)
    asking = {each.id: _list_asking(db, each.id) for each in found}
    db.run("DELETE FROM reservations WHERE gateway = ?", (gateway,))
    for each in found:
        _record_cost(db, each, asking[each.id], None, NO_TOKENS, now)
    return len(found)


def _list_asking(db: Db, reservation_id: int) -> list[AskingTurn]:
    """Return the turns that asked for the work of a call, as they stand now: a turn that is tried again is another."""
    charges = CHARGES.list(db, "WHERE reservation_id = ? ORDER BY step", reservation_id)
    return [AskingTurn(each.session_id, each.turn_id, "") for each in charges]


def sum_reserved(db: Db, folder: str = "") -> int:
    """All that is set aside now, in millionths of a USD. `folder`: by this group and those below it alone."""
    place, params = costs.get_place(folder)
    row = db.row(f"SELECT COALESCE(SUM(worst), 0) FROM reservations WHERE 1 = 1{place}", params)
    return int(row[0]) if row else 0


def _record_cost(
    db: Db,
    held: _Reservation,
    asking: Sequence[AskingTurn],
    actual: int | None,
    usage: TokenCounts,
    now: int,
    *,
    measured: bool = True,
) -> tuple[int, bool]:
    """Return what was booked, and whether a budget applies. An unknown cost is booked as it was set aside, with its
    tokens: money beside no tokens looks like a mistake."""
    known = actual is not None and 0 <= actual <= DEAREST
    micro = actual if actual is not None and known else held.worst
    if not known:
        usage = TokenCounts(input=held.input, output=held.output)
    new = NewCost(
        key=f"reservation/{held.id}",
        at=held.at,
        folder=held.folder,
        user=held.user_id,
        session_id=held.session_id,
        turn_id=held.turn_id,
        model=held.model,
        micro=micro,
        usage=_clip(usage),
        measured=known and measured,
    )
    costs.record_cost(db, new, "proxy", now)
    limited = budgets.add_spending(
        db,
        held.folder,
        held.user_id,
        held.at,
        spent=micro,
        reserved=held.worst,
        session_id=held.session_id,
        turn_id=held.charged_turn,
        asking=asking,
    )
    return micro, limited


def _clip(usage: TokenCounts) -> TokenCounts:
    """Return what the other side says, within reason."""
    return TokenCounts(*(min(max(each, 0), DEAREST) for each in astuple(usage)))


class PromptSize(Struct, frozen=True):
    digest: str
    tokens: int
    counted_at: int


SIZES = Table("prompt_sizes", PromptSize)


def find_prompt_sizes(db: Db, digests: Sequence[str]) -> dict[str, int]:
    marks = ", ".join("?" * len(digests))
    rows = db.rows(f"SELECT digest, tokens FROM prompt_sizes WHERE digest IN ({marks})", tuple(digests))
    return {str(digest): int(tokens) for digest, tokens in rows}


def keep_prompt_sizes(db: Db, digests: Sequence[str], tokens: int, now: int) -> None:
    """Remember the smaller count. The oldest rows beyond the most that are kept are removed."""
    for digest in digests:
        SIZES.insert(
            db,
            "ON CONFLICT (digest) DO UPDATE SET counted_at = excluded.counted_at, tokens ="
            " CASE WHEN excluded.tokens < prompt_sizes.tokens THEN excluded.tokens ELSE prompt_sizes.tokens END",
            PromptSize(digest, tokens, now),
        )
    db.run(
        "DELETE FROM prompt_sizes WHERE counted_at < (SELECT MIN(counted_at) FROM (SELECT counted_at FROM prompt_sizes"
        " ORDER BY counted_at DESC LIMIT ?) AS newest)",
        (MOST_SIZES,),
    )
