"""Costs: what was spent, one row a model call. A row is booked once, by its key, and never changed.

A cost counts in the day and month in which its call was let through, not in those in which it was learnt: only there
was it judged.
"""

from typing import Annotated

from msgspec import Struct

from gatepost.core.clock import DAY, iso
from gatepost.core.record_fields import ShownAs, shown
from gatepost.store.money import budgets
from gatepost.store.people import identities
from gatepost.store.port import Db, LockKind, inline_read
from gatepost.store.rooms import origins

BY = {"group": "folder", "user": "user_id", "model": "model", "day": f"at / {DAY}"}


class TokenCounts(Struct, frozen=True):
    """Tokens. Those read from a cache, or written to it, are not in `input`."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0


class NewCost(Struct, frozen=True, kw_only=True):
    key: str
    at: int
    folder: str
    model: str
    micro: int
    user: str = ""
    session_id: str = ""
    turn_id: str = ""
    usage: TokenCounts = TokenCounts()
    measured: bool = True


class CostSum(Struct, frozen=True):
    key: str  # a folder, a user, a model or a day
    calls: int
    input: int
    output: int
    cache_read: int
    cache_write: int
    micro: int
    estimated_micro: int  # of these: of calls that were cut, or of which nobody learnt the cost


class ModelCall(Struct, frozen=True):
    """One call of a model, as it was booked."""

    at: Annotated[int, shown("When", ShownAs.MOMENT)]
    model: Annotated[str, shown("Model")]
    input: Annotated[int, shown("Tokens in", ShownAs.NUMBER)]
    output: Annotated[int, shown("Tokens out", ShownAs.NUMBER)]
    micro: Annotated[int, shown("Cost", ShownAs.MONEY)]
    measured: Annotated[bool, shown("Counted", render=lambda held: "measured" if held else "as reported or set aside")]


def record_cost(db: Db, new: NewCost, source: str, now: int) -> bool:
    """Record a cost; return False if it was recorded before. The caller also changes the spending."""
    usage = new.usage
    return bool(
        db.run(
            "INSERT INTO costs (key, at, booked_at, folder, user_id, session_id, turn_id, model, source, measured,"
            " input, output, cache_read, cache_write, micro) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (key) DO NOTHING",
            (
                *(new.key, new.at, now, new.folder, new.user, new.session_id, new.turn_id, new.model, source),
                *(int(new.measured), usage.input, usage.output, usage.cache_read, usage.cache_write, new.micro),
            ),
        )
    )


def add_external(db: Db, new: NewCost, now: int) -> bool:
    """Book a cost that arose elsewhere and was reported afterwards; return False if it was reported before.

    It is booked whether it fits or not. The next reservation hands out the notices that people must get about it.
    """
    db.share(LockKind.MONEY)
    if not record_cost(db, new, "external", now):
        return False
    turn = budgets.find_charged_turn(db, new.session_id, new.turn_id)
    budgets.add_spending(
        db,
        new.folder,
        new.user,
        new.at,
        spent=new.micro,
        session_id=new.session_id,
        turn_id=turn,
        asking=budgets.list_asking(db, turn),
    )
    return True


def sum_external(db: Db, folder: str, since: int) -> int:
    """Return what a group and those below it said that they spent elsewhere."""
    below = f"{folder}/"
    row = db.row(
        "SELECT COALESCE(SUM(micro), 0) FROM costs WHERE at >= ? AND source = 'external'"
        " AND (folder = ? OR substr(folder, 1, CAST(? AS INTEGER)) = ?)",
        (since, folder, len(below), below),
    )
    return int(row[0]) if row else 0


@inline_read
def find_payer(db: Db, turn_id: str) -> str:
    """Return whose budget a turn is paid from: who wrote the first message of its batch, or asked for it where an agent
    put it in; '' for nobody."""
    found = next((each.person for each in origins.get_for_turn(db, turn_id).origins if each.person), "")
    return identities.get_person(db, found) if found else ""


@inline_read
def find_asker(db: Db, turn_id: str) -> str:
    """Return whose personal secrets a turn may use: who wrote the first message of its batch. An agent that put it in
    has none, whoever is behind it."""
    row = db.row(
        "SELECT m.sender FROM inbox i JOIN messages m ON m.id = i.message_id"
        " WHERE i.turn_id = ? AND m.kind = 'chat' ORDER BY i.seq LIMIT 1",
        (turn_id,),
    )
    return str(row[0]) if row else ""


@inline_read
def find_last_payer(db: Db, session_id: str) -> str:
    """Return whose budget a session is paid from between its turns: that of the last turn which somebody asked for."""
    last = origins.find_last_turn(db, session_id)
    return find_payer(db, last) if last else ""


def list_for_turn(db: Db, turn_id: str, since: int) -> list[ModelCall]:
    """Return what a turn asked of models; none was asked before `since`."""
    rows = db.rows(
        "SELECT at, model, input + cache_read + cache_write, output, micro, measured FROM costs"
        " WHERE at >= ? AND turn_id = ? ORDER BY at, key",
        (since, turn_id),
    )
    return [ModelCall(at, model, read, said, micro, bool(exact)) for at, model, read, said, micro, exact in rows]


def sum_for_session(db: Db, session_id: str) -> int:
    """All that was spent in it."""
    row = db.row("SELECT COALESCE(SUM(micro), 0) FROM costs WHERE session_id = ?", (session_id,))
    return int(row[0]) if row else 0


def sum_for_turns(db: Db, session_id: str, since: int) -> dict[str, int]:
    """Return what each turn of a session cost, of what was spent since a moment."""
    rows = db.rows(
        "SELECT turn_id, SUM(micro) FROM costs WHERE session_id = ? AND at >= ? GROUP BY turn_id", (session_id, since)
    )
    return {str(turn_id): int(micro) for turn_id, micro in rows}


def sum_since(db: Db, session_id: str, *moments: int) -> list[int]:
    """Return what was spent in a session since each of these moments. It reads what came after the first of all, no
    more."""
    sums = ", ".join("COALESCE(SUM(CASE WHEN at >= ? THEN micro ELSE 0 END), 0)" for _ in moments)
    row = db.row(f"SELECT {sums} FROM costs WHERE session_id = ? AND at >= ?", (*moments, session_id, min(moments)))
    return [int(each) for each in row] if row else [0 for _ in moments]


def list_models(db: Db, session_id: str) -> tuple[str, ...]:
    """Return what it was spent on, the dearest first."""
    rows = db.rows(
        "SELECT model FROM costs WHERE session_id = ? GROUP BY model ORDER BY SUM(micro) DESC, model", (session_id,)
    )
    return tuple(str(model) for (model,) in rows)


def list_sums(db: Db, by: str, since: int = 0, folder: str = "") -> list[CostSum]:
    """By group, user, model (the dearest first) or day (in order), of what was let through since a moment. `folder`: of
    this group and those below it alone."""
    place, params = get_place(folder)
    rows = db.rows(
        f"SELECT {BY[by]}, COUNT(*), SUM(input), SUM(output), SUM(cache_read), SUM(cache_write), SUM(micro),"
        " SUM(CASE WHEN measured = 0 THEN micro ELSE 0 END)"
        f" FROM costs WHERE at >= ?{place} GROUP BY 1 ORDER BY {'1' if by == 'day' else '7 DESC, 1'}",
        (since, *params),
    )
    return [CostSum(_day(key) if by == "day" else key, *numbers) for key, *numbers in rows]


def get_place(folder: str) -> tuple[str, tuple[str, ...]]:
    """Return a condition on the column `folder`, to follow another one, with its parameters. `0` is the character
    behind `/`."""
    if not folder:
        return "", ()
    return " AND (folder = ? OR (folder > ? AND folder < ?))", (folder, f"{folder}/", f"{folder}0")


def _day(number: int) -> str:
    return str(iso(number * DAY))[:10]
