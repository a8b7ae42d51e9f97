"""Rows of the audit log about a person: as whoever acted, or in the details of what others did."""

import re
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from gatepost.store.people.person_requests import is_named
from gatepost.store.people.person_rows import is_of_person
from gatepost.store.people.person_scope import PersonScope
from gatepost.store.port import Db
from gatepost.store.rights import audit

_KEPT = (audit.CUT, audit.ERASED, audit.SEAL)  # rows that vouch for others say nothing of people


class _Turn(msgspec.Struct):
    turn: object = None


_read_turn = msgspec.json.Decoder(_Turn).decode


class AuditPortion(Struct, frozen=True):
    """Among the next rows: those that the person wrote, those whose details tell of them, and where to go on."""

    own: tuple[int, ...]
    others: tuple[int, ...]
    after: int
    more: bool


def find_rows(db: Db, scope: PersonScope, words: re.Pattern[str], after: int, through: int, most: int) -> AuditPortion:
    """Find the rows that tell of a person. `words`: of which details that tell of them hold one. So do those of calls
    in turns that were given a message of theirs."""
    rows = db.rows(
        "SELECT seq, actor, action, details FROM audit WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
        (after, through, most),
    )
    turns: dict[str, bool] = {}
    own, others = [], []
    for seq, actor, action, details in rows:
        if action in _KEPT:
            continue
        if is_named(actor, scope.names):
            own.append(seq)
        elif details is not None and (words.search(details) or _is_of_her_turn(db, scope, details, turns)):
            others.append(seq)
    return AuditPortion(tuple(own), tuple(others), rows[-1][0] if rows else after, len(rows) == most)


def _is_of_her_turn(db: Db, scope: PersonScope, details: str, known: dict[str, bool]) -> bool:
    try:
        turn = _read_turn(details).turn
    except msgspec.MsgspecError:
        return False
    if not isinstance(turn, str):
        return False
    if turn not in known:
        known[turn] = is_of_person(db, scope, turn)
    return known[turn]


def erase_rows(db: Db, own: Sequence[int], others: Sequence[int], stand_in: str, by: str, now: int) -> int:
    """How many rows were changed."""
    erased = sum(audit.erase_details(db, seq) for seq in others)
    return erased + audit.erase_actors(db, own, stand_in, by, now)
