"""Audit: a hash chain over who did what with which verdict. Details can be erased; the chain holds."""

import hashlib
import json
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import msgspec

from gatepost.store.port import Db

START = "0" * 64
_ROWS = 64  # in one statement: calls that are written behind come in heaps, and each statement costs the loop its turn
_COLUMNS = "seq, at, actor, action, verdict, details, details_hash, previous, hash"
_encode = msgspec.json.Encoder(order="sorted", enc_hook=str).encode


@dataclass(frozen=True, slots=True)
class Record:
    """What is to be written down."""

    at: int
    actor: str
    action: str
    verdict: str
    details: dict[str, Any]


def _hash(*parts: object) -> str:
    return hashlib.sha256(_encode(parts)).hexdigest()


def append(db: Db, *records: Record) -> None:
    last = db.row("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1")
    seq, previous = (int(last[0]), str(last[1])) if last else (0, START)
    rows = []
    for record in records:
        seq += 1
        details = _encode(record.details)
        details_hash = hashlib.sha256(details).hexdigest()
        chained = _hash(seq, record.at, record.actor, record.action, record.verdict, details_hash, previous)
        rows.append(
            (
                seq,
                record.at,
                record.actor,
                record.action,
                record.verdict,
                details.decode(),
                details_hash,
                previous,
                chained,
            )
        )
        previous = chained
    waiting = iter(rows)
    while heap := tuple(islice(waiting, _ROWS)):
        values = ", ".join(["(?, ?, ?, ?, ?, ?, ?, ?, ?)"] * len(heap))
        db.run(f"INSERT INTO audit ({_COLUMNS}) VALUES {values}", tuple(chain.from_iterable(heap)))


def erase_details(db: Db, seq: int) -> bool:
    return bool(db.run("UPDATE audit SET details = NULL WHERE seq = ?", (seq,)))


def verify(db: Db) -> tuple[int, int | None]:
    """(rows checked, the first row that does not hold or None)."""
    previous, expected = START, 0
    for seq, at, actor, action, verdict, details, details_hash, before, chained in db.rows(
        "SELECT seq, at, actor, action, verdict, details, details_hash, previous, hash FROM audit ORDER BY seq"
    ):
        expected += 1
        whole = details is None or hashlib.sha256(details.encode()).hexdigest() == details_hash
        if seq != expected or not whole or before != previous:
            return expected, seq
        if _hash(seq, at, actor, action, verdict, details_hash, previous) != chained:
            return expected, seq
        previous = chained
    return expected, None


def latest(db: Db, limit: int) -> list[tuple[Any, ...]]:
    return db.rows("SELECT seq, at, actor, action, verdict, details FROM audit ORDER BY seq DESC LIMIT ?", (limit,))


def of_turn(db: Db, turn_id: str, since: int) -> list[tuple[int, str, str, str]]:
    """(at, actor, action, verdict) of the calls made in a turn, for its trace."""
    found = []
    for at, actor, action, verdict, details in db.rows(
        "SELECT at, actor, action, verdict, details FROM audit WHERE at >= ? AND details IS NOT NULL ORDER BY seq",
        (since,),
    ):
        if json.loads(details).get("turn") == turn_id:
            found.append((at, actor, action, verdict))
    return found
