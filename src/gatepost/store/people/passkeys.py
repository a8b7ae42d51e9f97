"""Passkeys of the web page: one row for each authenticator that a person added. Only public keys are kept."""

from typing import Annotated

from msgspec import Struct

from gatepost.core import ids
from gatepost.core.record_fields import ShownAs, shown
from gatepost.store.engine.table import Table
from gatepost.store.port import Db, LockKind, inline_read

PREFIX = "pk"  # how ids begin
MOST = 20  # of one identity


class Passkey(Struct, frozen=True):
    """The part of a passkey that people see."""

    id: Annotated[str, shown("Id", ShownAs.ID)]
    user_id: str
    label: Annotated[str, shown("Passkey")]
    host: Annotated[str, shown("Works on", ShownAs.CODE)]
    last_used_at: Annotated[int | None, shown("Last used", ShownAs.MOMENT, head="last used")]
    created_at: Annotated[int, shown("Added", ShownAs.MOMENT, head="added")]


class NewPasskey(Struct, frozen=True, kw_only=True):
    credential_id: bytes
    credential: bytes
    user_id: str
    user_handle: bytes
    host: str
    sign_count: int
    label: str


class PasskeyCredential(Struct, frozen=True):
    """The key that a signature is checked by."""

    id: str
    credential: bytes
    user_id: str
    user_handle: bytes
    host: str
    sign_count: int


PASSKEYS = Table("passkeys", Passkey)
CREDENTIALS = Table("passkeys", PasskeyCredential)


def add(db: Db, new: NewPasskey, now: int) -> Passkey | None:
    """Return None if this authenticator is known already, or if the person has too many."""
    db.lock(LockKind.QUOTA, "passkeys", new.user_id)
    row = db.row("SELECT COUNT(*) FROM passkeys WHERE user_id = ?", (new.user_id,))
    if row is not None and row[0] >= MOST:
        return None
    made = PASSKEYS.insert(
        db,
        f"ON CONFLICT (credential_id) DO NOTHING RETURNING {PASSKEYS.columns}",
        new,
        id=ids.new(PREFIX),
        created_at=now,
    )
    return PASSKEYS.parse(made) if made is not None else None


@inline_read
def find_credential(db: Db, credential_id: bytes) -> PasskeyCredential | None:
    return CREDENTIALS.get(db, "WHERE credential_id = ?", credential_id)


@inline_read
def get_handle(db: Db, user_id: str) -> bytes | None:
    """Return what the person's authenticators know them by, None if they have none."""
    row = db.row("SELECT user_handle FROM passkeys WHERE user_id = ? ORDER BY id LIMIT 1", (user_id,))
    return bytes(row[0]) if row else None


def list_credential_ids(db: Db, user_id: str, host: str) -> list[bytes]:
    sql = "SELECT credential_id FROM passkeys WHERE user_id = ? AND host = ? ORDER BY id"
    return [bytes(row[0]) for row in db.rows(sql, (user_id, host))]


def record_use(db: Db, passkey_id: str, sign_count: int, now: int) -> bool:
    """False if its counter has not risen, so that there are two of it, or if it was removed. Those that do not count
    stay at 0."""
    return bool(
        db.run(
            "UPDATE passkeys SET sign_count = ?, last_used_at = ? WHERE id = ?"
            " AND (sign_count < ? OR (sign_count = 0 AND ? = 0))",
            (sign_count, now, passkey_id, sign_count, sign_count),
        )
    )


def get(db: Db, passkey_id: str) -> Passkey | None:
    return PASSKEYS.get(db, "WHERE id = ?", passkey_id)


def list_all(db: Db, limit: int) -> list[Passkey]:
    return PASSKEYS.list(db, "ORDER BY user_id, id LIMIT ?", limit)


def list_of(db: Db, user_id: str) -> list[Passkey]:
    """The oldest first."""
    return PASSKEYS.list(db, "WHERE user_id = ? ORDER BY id", user_id)


def remove(db: Db, passkey_id: str) -> bool:
    return bool(db.run("DELETE FROM passkeys WHERE id = ?", (passkey_id,)))


def remove_user(db: Db, user_id: str) -> int:
    """All of an identity; how many there were."""
    return db.run("DELETE FROM passkeys WHERE user_id = ?", (user_id,))
