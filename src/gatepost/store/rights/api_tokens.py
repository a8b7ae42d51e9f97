"""Tokens by which programs run operations over HTTP. Each is shown once; only its hash is kept."""

import json
from typing import Annotated

from msgspec import Struct

from gatepost.core import ids
from gatepost.core.clock import DAY, MINUTE
from gatepost.core.record_fields import ShownAs, shown
from gatepost.store.engine.table import Table
from gatepost.store.port import Db, LockKind, inline_read
from gatepost.store.rights.tokens import TokenState, hash_token

PREFIX = "at"  # how ids begin
KEPT = 30 * DAY  # one that is over is shown as such for so long
MOST = 200
USED_EVERY = MINUTE  # the last use is written down so often at most


class ApiToken(Struct, frozen=True):
    id: Annotated[str, shown("Token", ShownAs.CODE)]
    label: Annotated[str, shown("Label")]
    maker: Annotated[str, shown("As", head="as")]
    scopes: Annotated[tuple[str, ...], shown("Scopes", ShownAs.CODE, render=" ".join)]
    created_at: Annotated[int, shown("Since", ShownAs.MOMENT, head="since")]
    expires_at: Annotated[int | None, shown("Ends", ShownAs.MOMENT, head="until")]
    revoked_at: int | None
    last_used_at: Annotated[int | None, shown("Last used", ShownAs.MOMENT, head="last used")]

    def get_state(self, now: int) -> TokenState:
        if self.revoked_at is not None:
            return TokenState.REVOKED
        return TokenState.EXPIRED if self.expires_at is not None and self.expires_at <= now else TokenState.VALID


class NewApiToken(Struct, frozen=True, kw_only=True):
    label: str
    maker: str
    scopes: tuple[str, ...]
    expires_at: int | None


API_TOKENS = Table("api_tokens", ApiToken)
_VALID = "revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)"  # now


def add(db: Db, new: NewApiToken, token: str, now: int) -> ApiToken | None:
    """Keep a token by its hash. None if there are too many."""
    db.lock(LockKind.QUOTA, "api_tokens")
    before = now - KEPT
    db.run("DELETE FROM api_tokens WHERE expires_at <= ? OR revoked_at <= ?", (before, before))
    row = db.row(f"SELECT COUNT(*) FROM api_tokens WHERE {_VALID}", (now,))
    if row is not None and row[0] >= MOST:
        return None
    return API_TOKENS.put(
        db,
        id=ids.new(PREFIX),
        hash=hash_token(token),
        label=new.label,
        maker=new.maker,
        scopes=json.dumps(new.scopes),
        created_at=now,
        expires_at=new.expires_at,
    )


@inline_read
def find_valid(db: Db, token: str, now: int) -> ApiToken | None:
    """Unknown, revoked and too old look alike."""
    return API_TOKENS.get(db, f"WHERE hash = ? AND {_VALID}", hash_token(token), now)


@inline_read
def get(db: Db, token_id: str) -> ApiToken | None:
    return API_TOKENS.get(db, "WHERE id = ?", token_id)


def list_all(db: Db) -> list[ApiToken]:
    """The newest first."""
    return API_TOKENS.list(db, "ORDER BY id DESC")


def list_of(db: Db, maker: str) -> list[ApiToken]:
    return API_TOKENS.list(db, "WHERE maker = ? ORDER BY id DESC", maker)


def revoke(db: Db, token_id: str, now: int) -> bool:
    """False if it was so before, or there is none."""
    return bool(db.run("UPDATE api_tokens SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL", (now, token_id)))


def record_use(db: Db, token_id: str, now: int) -> None:
    db.run("UPDATE api_tokens SET last_used_at = ? WHERE id = ?", (now, token_id))
