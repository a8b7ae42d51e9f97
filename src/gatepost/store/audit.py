"""Audit: a hash chain over who did what with which verdict. Details and the actor can be erased; the chain holds.

Details are chained by their hash, so they can simply go. The actor is chained as it is. A row whose actor was erased
cannot be hashed again: a later row (`ERASED`) vouches for all that is left of it, so no further change goes unseen.
"""

import hashlib
from collections.abc import Collection, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Any

import apsw
import msgspec
from msgspec import Struct

from gatepost.core.clock import SECOND
from gatepost.store.port import Db, LockKind

START = "0" * 64
CUT = "audit.cut"  # the action of the row that vouches for an anchor
ERASED = "audit.erased"  # the action of a row that vouches for those whose actor was erased
FORGOTTEN = "forgotten:"  # what stands for such an actor begins so
_ROWS = 64  # in one statement: calls that are written behind come in heaps, and each statement costs the loop its turn
_TEXTS = ("actor", "action", "verdict", "details", "details_hash", "previous", "hash")
_COLUMNS = ", ".join(("seq", "at", *_TEXTS))
_WHOLE = "integer text text text text text text text"
_ERASED = "integer text text text null text text text"
_READ = 500  # rows at a time
AFTER = 60 * SECOND  # a call that a turn made is written down by then
_encode = msgspec.json.Encoder(order="sorted", enc_hook=str).encode


class _TurnDetails(msgspec.Struct):
    turn: object = None


class _RepeatedDetails(msgspec.Struct):
    repeated: int


class _ErasureVoucher(msgspec.Struct):
    rows: dict[str, str]  # by seq: the digest of what is left


_COUNTS = '{"repeated":'  # what such details begin with: names are sorted
_read_turn = msgspec.json.Decoder(_TurnDetails).decode
_read_voucher = msgspec.json.Decoder(_ErasureVoucher).decode


class AuditRecord(Struct, frozen=True):
    """What is to be written down."""

    at: int
    actor: str
    action: str
    verdict: str
    details: dict[str, Any]


def _hash(*parts: object) -> str:
    return hashlib.sha256(_encode(parts)).hexdigest()


def append(db: Db, *records: AuditRecord) -> str:
    """The chain's head then, as `get_head` gives it."""
    db.alone(LockKind.AUDIT)
    last = db.row("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1")
    seq, previous = (int(last[0]), str(last[1])) if last else (0, START)
    rows = []
    for record in records:
        seq += 1
        details = _encode(record.details)
        details_hash = hashlib.sha256(details).hexdigest()
        about = (seq, record.at, record.actor, record.action, record.verdict)
        chained = _hash(*about, details_hash, previous)
        rows.append((*about, details.decode(), details_hash, previous, chained))
        previous = chained
    waiting = iter(rows)
    while heap := tuple(islice(waiting, _ROWS)):
        values = ", ".join(["(?, ?, ?, ?, ?, ?, ?, ?, ?)"] * len(heap))
        db.run(f"INSERT INTO audit ({_COLUMNS}) VALUES {values}", tuple(chain.from_iterable(heap)))
    return f"{seq}:{previous}"


def erase_details(db: Db, seq: int) -> bool:
    return bool(db.run("UPDATE audit SET details = NULL WHERE seq = ?", (seq,)))


def erase_actors(db: Db, seqs: Sequence[int], stand_in: str, by: str, now: int) -> int:
    """Put `stand_in` in the place of these rows' actors, and erase their details. A row that vouches for them is
    written with it. How many there were."""
    assert not seqs or stand_in.startswith(FORGOTTEN)
    left: dict[str, str] = {}
    for seq in seqs:
        row = db.row(f"SELECT {_COLUMNS} FROM audit WHERE seq = ?", (seq,))
        if row is None or str(row[2]).startswith(FORGOTTEN):
            continue
        _, at, _, action, verdict, _, details_hash, previous, chained = row
        left[str(seq)] = _hash(seq, at, stand_in, action, verdict, details_hash, previous, chained)
        db.run("UPDATE audit SET actor = ?, details = NULL WHERE seq = ?", (stand_in, seq))
    if left:
        append(db, AuditRecord(now, by, ERASED, "done", {"rows": left}))
    return len(left)


def verify(db: Db) -> tuple[int, int | None]:
    """(rows checked, the first row that does not hold or None). Whatever the file holds, it answers. A chain whose old
    rows were removed begins at its anchor, which holds only if a row of the chain vouches for it."""
    start, begins = get_anchor(db)
    previous, checked, vouched = begins, start, start == 0
    unvouched: dict[str, str] = {}  # rows whose actor was erased, until one vouches for them
    wanted = hashlib.sha256(_encode(make_voucher(start, begins))).hexdigest()
    while rows := _read_next(db, checked):
        for row in rows:
            checked += 1
            chained = _check_row(row, checked, previous, unvouched)
            if chained is None:
                return checked - start, checked  # where it should be: what it calls itself may be what was changed
            previous = chained
            vouched = vouched or (row[4], row[-3]) == (CUT.encode(), wanted.encode())
    if rows is None or not vouched:
        return checked - start + 1, checked + 1 if rows is None else start + 1
    return checked - start, min(map(int, unvouched), default=None)


def get_anchor(db: Db) -> tuple[int, str]:
    """(seq, hash) of the row after which the chain begins: rows before it were removed because of their age."""
    row = db.row("SELECT seq, hash FROM audit_anchor WHERE only = 1")
    return (int(row[0]), str(row[1])) if row else (0, START)


def make_voucher(through: int, chained: str) -> dict[str, Any]:
    """The details of the row that vouches for an anchor. They can be erased: their hash is compared."""
    return {"through": through, "hash": chained}


def _read_next(db: Db, after: int) -> list[tuple[Any, ...]] | None:
    """The following rows; None: there is one that cannot be read. Texts come as bytes, which need not be UTF-8."""
    kept = ", ".join(f"CAST({column} AS BLOB)" for column in _TEXTS)
    kinds = " || ' ' || ".join(f"typeof({column})" for column in ("at", *_TEXTS))
    sql = f"SELECT seq, at, {kinds}, {kept} FROM audit WHERE seq > ? ORDER BY seq LIMIT ?"
    for limit in (_READ, 1):  # one by one where something is damaged: those before it still hold
        try:
            return db.rows(sql, (after, limit))
        except apsw.CorruptError:
            continue
    return None


def _check_row(row: tuple[Any, ...], expected: int, previous: str, unvouched: dict[str, str]) -> str | None:
    """The row's hash, if it holds. `unvouched` gets a row whose actor was erased, and loses those that this one vouches
    for."""
    seq, at, kinds, *kept = row
    if kinds not in (_WHOLE, _ERASED):
        return None
    try:
        actor, action, verdict, details, details_hash, before, chained = (each and each.decode() for each in kept)
    except UnicodeDecodeError:
        return None
    if details is not None and hashlib.sha256(details.encode()).hexdigest() != details_hash:
        return None
    if seq != expected or before != previous:
        return None
    if actor.startswith(FORGOTTEN) and details is None:
        unvouched[str(seq)] = _hash(seq, at, actor, action, verdict, details_hash, previous, chained)
        return str(chained)
    if action == ERASED and details is not None:
        _vouch(details, unvouched)
    return chained if _hash(seq, at, actor, action, verdict, details_hash, previous) == chained else None


def _vouch(details: str, unvouched: dict[str, str]) -> None:
    with suppress(msgspec.MsgspecError):
        for seq, digest in _read_voucher(details).rows.items():
            if unvouched.get(seq) == digest:
                del unvouched[seq]


def count_repeated(db: Db) -> int:
    """How many further events the rows stand for that only tell a number (see `gate/dispatch.py`)."""
    found = 0
    for (details,) in db.rows(
        "SELECT details FROM audit WHERE substr(details, 1, CAST(? AS INTEGER)) = ?", (len(_COUNTS), _COUNTS)
    ):
        found += msgspec.json.decode(details, type=_RepeatedDetails).repeated
    return found


def find_damage(db: Db) -> str:
    """What is wrong with the pages that keep the rows, though each may still be read; '' if nothing."""
    return db.upkeep.find_damage("audit")


def get_head(db: Db) -> str:
    """`SEQ:HASH` of the newest row. Kept elsewhere, it shows later whether the chain is still the same that far."""
    row = db.row("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1")
    return f"{row[0]}:{row[1]}" if row else f"0:{START}"


def continues_from(db: Db, seq: int, chained: str) -> bool:
    """Whether the chain has that row, or begins after it."""
    if seq == 0:
        return chained == START
    if (seq, chained) == get_anchor(db):
        return True
    row = db.row("SELECT hash FROM audit WHERE seq = ?", (seq,))
    return row is not None and row[0] == chained


def get(db: Db, seq: int) -> dict[str, Any] | None:
    """A row without its hashes."""
    columns = ("seq", "at", "actor", "action", "verdict", "details")
    row = db.row(f"SELECT {', '.join(columns)} FROM audit WHERE seq = ?", (seq,))
    return dict(zip(columns, row, strict=True)) if row else None


def list_latest(db: Db, limit: int) -> list[tuple[Any, ...]]:
    return db.rows("SELECT seq, at, actor, action, verdict, details FROM audit ORDER BY seq DESC LIMIT ?", (limit,))


def list_for_turns(
    db: Db, turns: Collection[str], since: int, until: int | None, most: int = 20_000
) -> dict[str, list[tuple[int, str, str, str]]]:
    """(at, actor, action, verdict) of the calls made in each of these turns, which lie between two moments. All in one
    look, at the newest `most` rows of that time."""
    end = find_first_since(db, until + AFTER) if until is not None else 2**62
    newest = db.row("SELECT COALESCE(MAX(seq), 0) FROM audit WHERE seq < ?", (end,))
    start = max(find_first_since(db, since - AFTER), (int(newest[0]) if newest else 0) - most + 1)
    found: dict[str, list[tuple[int, str, str, str]]] = {turn: [] for turn in turns}
    for at, actor, action, verdict, details in db.rows(
        "SELECT at, actor, action, verdict, details FROM audit WHERE seq >= ? AND seq < ? AND details IS NOT NULL"
        " ORDER BY seq",
        (start, end),
    ):
        turn = _read_turn(details).turn
        if isinstance(turn, str) and turn in found and at >= since:
            found[turn].append((at, actor, action, verdict))
    return found


def find_first_since(db: Db, moment: int) -> int:
    """The first row from that moment on, by halves: rows stand in the order in which they were written, and one that
    was written behind is not much behind."""
    low, high = 0, int((db.row("SELECT COALESCE(MAX(seq), 0) + 1 FROM audit") or (1,))[0])
    while low < high:
        middle = (low + high) // 2
        row = db.row("SELECT at FROM audit WHERE seq >= ? ORDER BY seq LIMIT 1", (middle,))
        if row is None or row[0] >= moment:
            high = middle
        else:
            low = middle + 1
    return low
