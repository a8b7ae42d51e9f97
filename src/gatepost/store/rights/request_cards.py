"""Cards: to whom a request was shown, where, and the token that its buttons carry. A token says nothing by itself: it
leads to its request here, or nowhere. Votes: who agreed to a request, if several must, or answered a part of it."""

from collections.abc import Sequence

from msgspec import Struct

from gatepost.core import ids
from gatepost.store.engine.table import Table
from gatepost.store.port import Db

_AND = ", "  # between those who agreed together: no identity has a space


class RequestCard(Struct, frozen=True):
    token: str
    request_id: str
    person: str
    instance: str
    address: str
    message_id: int  # the card in the ledger
    shown_at: int
    open: bool  # False: it says what was decided
    part: int  # which question of the request it asks
    whole: bool = False  # it shows everything that is asked, with what was sent before it


CARDS = Table("request_cards", RequestCard)


def make_token() -> str:
    return ids.token(12)


def add(
    db: Db,
    token: str,
    request_id: str,
    person: str,
    instance: str,
    address: str,
    message_id: int,
    now: int,
    part: int = 0,
    *,
    whole: bool = True,
) -> None:
    CARDS.insert(
        db,
        token=token,
        request_id=request_id,
        person=person,
        instance=instance,
        address=address,
        message_id=message_id,
        shown_at=now,
        part=part,
        whole=int(whole),
    )


def get(db: Db, token: str) -> RequestCard | None:
    return CARDS.get(db, "WHERE token = ?", token)


def list_for_request(db: Db, request_id: str) -> list[RequestCard]:
    return CARDS.list(db, "WHERE request_id = ? ORDER BY message_id", request_id)


def has_open(db: Db) -> bool:
    return db.row("SELECT 1 FROM request_cards WHERE open = 1 LIMIT 1") is not None


def list_open_in_room(db: Db, instance: str, address: str) -> tuple[RequestCard, ...]:
    """The oldest first."""
    return tuple(
        CARDS.list(db, "WHERE instance = ? AND address = ? AND open = 1 ORDER BY message_id", instance, address)
    )


def list_outdated(db: Db, most: int) -> list[str]:
    """Requests that do not wait any more and have a card that says nothing of it."""
    rows = db.rows(
        "SELECT DISTINCT c.request_id FROM request_cards c JOIN requests r ON r.id = c.request_id"
        " WHERE c.open = 1 AND r.state <> 'pending' ORDER BY c.request_id LIMIT ?",
        (most,),
    )
    return [row[0] for row in rows]


def close_in_room(db: Db, person: str, instance: str, address: str) -> list[str]:
    """Somebody's open cards there say nothing any more, whatever is decided. Their requests."""
    rows = db.rows(
        "UPDATE request_cards SET open = 0 WHERE instance = ? AND address = ? AND open = 1 AND person = ?"
        " RETURNING request_id",
        (instance, address, person),
    )
    return sorted({str(row[0]) for row in rows})


def close_one(db: Db, token: str) -> None:
    """It was not delivered."""
    db.run("UPDATE request_cards SET open = 0 WHERE token = ? AND open = 1", (token,))


def close(db: Db, request_id: str) -> list[RequestCard]:
    """They were decided. Those that were open."""
    rows = db.rows(
        f"UPDATE request_cards SET open = 0 WHERE request_id = ? AND open = 1 RETURNING {CARDS.columns}", (request_id,)
    )
    return [CARDS.parse(row) for row in rows]


def add_vote(db: Db, request_id: str, person: str, now: int) -> int:
    """Somebody agrees, or answers one of several questions. How many did so."""
    db.run(
        "INSERT INTO request_votes (request_id, person, voted_at) VALUES (?, ?, ?)"
        " ON CONFLICT (request_id, person) DO NOTHING",
        (request_id, person, now),
    )
    row = db.row("SELECT COUNT(*) FROM request_votes WHERE request_id = ?", (request_id,))
    return int(row[0]) if row else 0


def join_voters(people: Sequence[str]) -> str:
    """As `answered_by` has those who agreed together."""
    return _AND.join(people)


def split_voters(listed: str) -> list[str]:
    return listed.split(_AND)


def list_voters(db: Db, request_id: str) -> list[str]:
    rows = db.rows("SELECT person FROM request_votes WHERE request_id = ? ORDER BY voted_at, person", (request_id,))
    return [row[0] for row in rows]
