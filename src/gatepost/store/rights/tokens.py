"""Tokens that whoever holds them may use: invitations, chat links, webhooks, pairing links, adapters. Each is shown
once. Only its hash is kept, and it is found by that alone."""

import hashlib
from enum import StrEnum
from typing import Annotated

from msgspec import Struct

from gatepost.core import ids
from gatepost.core.clock import DAY
from gatepost.core.record_fields import ShownAs, shown
from gatepost.store.engine.table import Table
from gatepost.store.port import Db, Row, inline_read

PREFIX = "tk"  # how ids begin
KEPT = 30 * DAY  # one that is over is shown as such for so long
MOST_IN_WORLD = 500  # tokens for the groups of one world
MOST_LINKS = 100  # pairing links that are open at once


class TokenKind(StrEnum):
    INVITE = "invite"
    CHAT_LINK = "chat_link"
    WEBHOOK = "webhook"
    PAIRING_LINK = "pairing_link"
    ADAPTER = "adapter"  # of the program that is the adapter of the channel `instance`


class TokenState(StrEnum):
    VALID = "valid"
    USED_UP = "used_up"
    EXPIRED = "expired"
    REVOKED = "revoked"


class InvitedRights(StrEnum):
    """The rights that an invitation gives for its group. Each has those before it."""

    TALK = "talk"
    COSTS = "costs"  # see what it costs
    MANAGE = "manage"


INVITED = {
    InvitedRights.TALK: "talk to {}",
    InvitedRights.COSTS: "talk to {} and see its costs",
    InvitedRights.MANAGE: "manage {}",
}


def render_invited(rights: InvitedRights, group: str = "it") -> str:
    """Return what somebody who is invited may do, to follow "may"."""
    return INVITED[rights].format(group)


class SignatureScheme(StrEnum):
    """How a webhook's sender proves what it posts, in the way of the service that made it known."""

    NONE = "none"
    GITHUB = "github"
    SLACK = "slack"
    STRIPE = "stripe"


TIMED_SCHEMES = frozenset((SignatureScheme.SLACK, SignatureScheme.STRIPE))  # they sign a moment, GitHub signs none


class NewToken(Struct, frozen=True, kw_only=True):
    kind: TokenKind
    created_by: str
    folder: str | None = None
    own_group: bool = False
    instance: str = ""
    address: str = ""
    identity: str = ""
    label: str = ""
    uses_left: int | None = None
    expires_at: int | None = None
    instructions: str = ""
    signature: SignatureScheme = SignatureScheme.NONE
    signing_key: str = ""
    origins: str = ""  # of a chat link: pages that may show it in a frame, between blanks
    rights: InvitedRights = InvitedRights.TALK
    page: bool = False


class Token(Struct, frozen=True, kw_only=True):
    """`instructions`: of a webhook, what the agent is told with what comes by it. `signing_key`: the name of the secret
    that proves it. `rights`: the gift of an invitation. `page`: it signs somebody new in to the web page."""

    id: Annotated[str, shown("Id", ShownAs.ID)]
    label: Annotated[str, shown("Label")]
    kind: Annotated[TokenKind, shown("Kind", ShownAs.BADGE)]
    folder: Annotated[str | None, shown("Group", head="group")]
    own_group: Annotated[bool, shown("For", ShownAs.FLAG, head="own group", word="own groups below it")]
    instance: str
    address: Annotated[str, shown("Room", ShownAs.CODE, head="room")]
    identity: str
    signature: Annotated[
        SignatureScheme,
        shown("Signed", ShownAs.BADGE, render=lambda scheme: "" if scheme == SignatureScheme.NONE else scheme),
    ] = SignatureScheme.NONE
    signing_key: str = ""
    origins: Annotated[str, shown("Sites", head="sites")] = ""
    instructions: Annotated[str, shown("Instructions")] = ""
    rights: Annotated[InvitedRights, shown("Gives", head="gives", render=render_invited)] = InvitedRights.TALK
    page: Annotated[bool, shown("On the page", ShownAs.FLAG, head="page", word="signs in somebody new")] = False
    uses_left: Annotated[int | None, shown("Uses left", ShownAs.NUMBER, head="uses left", empty="any")]
    created_at: Annotated[int, shown("Since", ShownAs.MOMENT, head="since")]
    expires_at: Annotated[int | None, shown("Ends", ShownAs.MOMENT, head="until")]
    revoked_at: int | None
    last_used_at: Annotated[int | None, shown("Last used", ShownAs.MOMENT, head="last used")]
    created_by: Annotated[str, shown("Made by", head="by")]

    def get_state(self, now: int) -> TokenState:
        if self.revoked_at is not None:
            return TokenState.REVOKED
        if self.uses_left is not None and self.uses_left <= 0:
            return TokenState.USED_UP
        return TokenState.EXPIRED if self.expires_at is not None and self.expires_at <= now else TokenState.VALID


TOKENS = Table("tokens", Token)
_VALID = "revoked_at IS NULL AND (uses_left IS NULL OR uses_left > 0) AND (expires_at IS NULL OR expires_at > ?)"  # now


def add(db: Db, new: NewToken, token: str, now: int) -> Token | None:
    """Keep a token by its hash. None if there are too many."""
    _remove_old(db, now)
    if new.folder is not None and not _has_room(db, new.folder, now):
        return None
    if new.kind is TokenKind.PAIRING_LINK and not _replace_link(db, new.identity, now):
        return None
    return TOKENS.put(db, "", new, id=ids.new(PREFIX), hash=hash_token(token), created_at=now)


def use(db: Db, kind: TokenKind, token: str, now: int) -> Token | None:
    """Count one use. However many use the last one, it is given to one. None if it is not valid."""
    row = db.row(
        "UPDATE tokens SET uses_left = uses_left - 1, last_used_at = ? WHERE hash = ? AND kind = ?"
        f" AND {_VALID} RETURNING {TOKENS.columns}",
        (now, hash_token(token), kind, now),
    )
    return TOKENS.parse(row) if row else None


@inline_read
def find_valid(db: Db, kind: TokenKind, token: str, now: int) -> Token | None:
    """Without using it. Unknown, revoked, used up and too old look alike."""
    return TOKENS.get(db, f"WHERE hash = ? AND kind = ? AND {_VALID}", hash_token(token), kind, now)


@inline_read
def find(db: Db, kind: TokenKind, token: str) -> Token | None:
    """Return a token, valid or not. Only for somebody who has used it: to others an invalid one must look unknown."""
    return TOKENS.get(db, "WHERE hash = ? AND kind = ?", hash_token(token), kind)


@inline_read
def get(db: Db, token_id: str) -> Token | None:
    return TOKENS.get(db, "WHERE id = ?", token_id)


def list_all(db: Db) -> list[Token]:
    """Those for groups, the newest first."""
    return TOKENS.list(db, "WHERE folder IS NOT NULL ORDER BY id DESC")


def list_page(db: Db, before: str, limit: int) -> list[Token]:
    """The same, behind an id."""
    older = "AND id < ? " if before else ""
    given = (before, limit) if before else (limit,)
    return TOKENS.list(db, f"WHERE folder IS NOT NULL {older}ORDER BY id DESC LIMIT ?", *given)


def list_at(db: Db, address: str) -> list[Token]:
    """Those that lead to a room and are not revoked."""
    return TOKENS.list(db, "WHERE address = ? AND folder IS NOT NULL AND revoked_at IS NULL ORDER BY id", address)


def count_group_uses(db: Db, folder: str, now: int) -> int:
    """How many groups below one its valid invitations may still make."""
    row = db.row(
        f"SELECT COALESCE(SUM(uses_left), 0) FROM tokens WHERE folder = ? AND own_group = 1 AND {_VALID}", (folder, now)
    )
    return int(row[0]) if row else 0


def revoke(db: Db, token_id: str, now: int) -> bool:
    """False if it was so before, or there is none."""
    rows = db.rows(
        "UPDATE tokens SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL RETURNING signing_key", (now, token_id)
    )
    _remove_secrets(db, rows)
    return bool(rows)


def revoke_counted(db: Db, now: int) -> None:
    """Revoke what is good for so many uses: invitations and pairing links."""
    db.run("UPDATE tokens SET revoked_at = ? WHERE uses_left IS NOT NULL AND revoked_at IS NULL", (now,))


def set_signature(db: Db, token_id: str, scheme: SignatureScheme, key: str) -> None:
    """From now on a webhook's posts are proved by that secret, and by no other."""
    old = db.rows("SELECT signing_key FROM tokens WHERE id = ?", (token_id,))
    db.run("UPDATE tokens SET signature = ?, signing_key = ? WHERE id = ?", (scheme, key, token_id))
    _remove_secrets(db, old)


def revoke_adapters(db: Db, instance: str, now: int) -> int:
    """Every token of this channel's programs; how many there were."""
    return db.run(
        "UPDATE tokens SET revoked_at = ? WHERE kind = 'adapter' AND instance = ? AND revoked_at IS NULL",
        (now, instance),
    )


def hash_token(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _remove_old(db: Db, now: int) -> None:
    before = now - KEPT
    ended = "DELETE FROM tokens WHERE expires_at <= ? OR revoked_at <= ? RETURNING signing_key"
    _remove_secrets(db, db.rows(ended, (before, before)))
    db.run("DELETE FROM tokens WHERE uses_left <= 0 AND last_used_at <= ?", (before,))
    db.run("DELETE FROM tokens WHERE kind = 'pairing_link' AND expires_at <= ?", (now,))


def _remove_secrets(db: Db, rows: list[Row]) -> None:
    """Remove the secrets of removed links. Their names are ours, and no two links share one."""
    for (name,) in rows:
        if name:
            db.run("DELETE FROM secrets WHERE name = ?", (name,))


def _has_room(db: Db, folder: str, now: int) -> bool:
    """Those that are over make way."""
    if _count_in_world(db, folder) < MOST_IN_WORLD:
        return True
    world = _get_world_range(folder)
    where = f"(folder = ? OR (folder > ? AND folder < ?)) AND NOT ({_VALID})"
    _remove_secrets(db, db.rows(f"DELETE FROM tokens WHERE {where} RETURNING signing_key", (*world, now)))
    return _count_in_world(db, folder) < MOST_IN_WORLD


def _count_in_world(db: Db, folder: str) -> int:
    where = "folder = ? OR (folder > ? AND folder < ?)"
    row = db.row(f"SELECT COUNT(*) FROM tokens WHERE {where}", _get_world_range(folder))
    return int(row[0]) if row else 0


def _get_world_range(folder: str) -> tuple[str, str, str]:
    """A world, and the bounds between which its groups lie: `0` is the character behind `/`."""
    world = folder.partition("/")[0]
    return world, f"{world}/", f"{world}0"


def _replace_link(db: Db, identity: str, now: int) -> bool:
    """An identity has one pairing link at a time. False if others have too many."""
    db.run("DELETE FROM tokens WHERE kind = 'pairing_link' AND identity = ?", (identity,))
    row = db.row(f"SELECT COUNT(*) FROM tokens WHERE kind = 'pairing_link' AND {_VALID}", (now,))
    return row is None or int(row[0]) < MOST_LINKS
