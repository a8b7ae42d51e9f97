"""Pairing codes: each binds the chat identity that sends it to a person, once, within ten minutes. Only hashes are
kept. Wrong codes are counted by sender."""

import hashlib
import secrets
from enum import StrEnum

from msgspec import Struct

from gatepost.core.clock import DAY, HOUR, MINUTE
from gatepost.store.port import Db, LockKind

ALPHABET = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"  # 32 characters, none of which looks like another
LENGTH = 12  # 60 bits
LASTS = 10 * MINUTE
KEPT = DAY  # a code that is used or too late is known as such for so long
MOST_OPEN = 5  # codes, at once
MOST_GUESSES = 5  # wrong codes of one sender in an hour


class CodeState(StrEnum):
    REDEEMED = "redeemed"  # by this call
    USED = "used"  # before
    EXPIRED = "expired"
    UNKNOWN = "unknown"


class RedeemedCode(Struct, frozen=True):
    state: CodeState
    person: str = ""  # of a code that was redeemed


def issue(db: Db, person: str, by: str, now: int) -> str:
    """A new code, which nobody can read here again; '' if too many are open."""
    db.lock(LockKind.QUOTA, "pairing_codes")
    db.run("DELETE FROM pairing_codes WHERE expires_at <= ?", (now - KEPT,))
    row = db.row("SELECT COUNT(*) FROM pairing_codes WHERE used_at IS NULL AND expires_at > ?", (now,))
    if row is not None and row[0] >= MOST_OPEN:
        return ""
    code = "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
    db.run(
        "INSERT INTO pairing_codes (hash, person, created_by, expires_at) VALUES (?, ?, ?, ?)",
        (_hash(code), person, by, now + LASTS),
    )
    return code


def redeem(db: Db, code: str, sender: str, now: int) -> RedeemedCode:
    """A code is redeemed by one sender, however many send it."""
    row = db.row(
        "UPDATE pairing_codes SET used_at = ?, used_by = ? WHERE hash = ? AND used_at IS NULL AND expires_at > ?"
        " RETURNING person",
        (now, sender, _hash(code), now),
    )
    if row is not None:
        return RedeemedCode(CodeState.REDEEMED, str(row[0]))
    known = db.row("SELECT used_at FROM pairing_codes WHERE hash = ?", (_hash(code),))
    if known is None:
        return RedeemedCode(CodeState.UNKNOWN)
    return RedeemedCode(CodeState.EXPIRED if known[0] is None else CodeState.USED)


def remove_unused(db: Db) -> None:
    db.run("DELETE FROM pairing_codes WHERE used_at IS NULL")


def count_guesses(db: Db, sender: str, now: int) -> int:
    """Wrong codes of a sender within the last hour."""
    row = db.row("SELECT guesses FROM pairing_guesses WHERE sender = ? AND first_at > ?", (sender, now - HOUR))
    return int(row[0]) if row else 0


def add_guess(db: Db, sender: str, now: int) -> int:
    """How many there are then."""
    db.run("DELETE FROM pairing_guesses WHERE first_at <= ?", (now - HOUR,))
    row = db.row(
        "INSERT INTO pairing_guesses (sender, guesses, first_at) VALUES (?, 1, ?)"
        " ON CONFLICT (sender) DO UPDATE SET guesses = pairing_guesses.guesses + 1 RETURNING guesses",
        (sender, now),
    )
    assert row is not None
    return int(row[0])


def _hash(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()
