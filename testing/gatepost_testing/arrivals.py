"""Messages that have come in, for tests that begin after that: accepted, and if wished in a turn."""

from typing import Any

from gatepost.messages.inbound import Direction
from gatepost.store.messages import inbox, messages
from gatepost.store.messages.messages import NewMessage
from gatepost.store.port import Db
from gatepost.store.sessions import turn_claims
from gatepost.store.sessions.sessions import Session
from gatepost.store.sessions.turn_claims import TurnClaim

MINUTE = 60_000_000


def make_arrival(now: int, **fields: Any) -> NewMessage:
    """`fields`: what shall be otherwise than a short text of user 1 in room 1."""
    usual = {"instance": "fake", "address": "fake:room/1", "sender": "fake:user/1", "text": "hello", "at": now}
    return NewMessage(**{**usual, "direction": Direction.IN, **fields})


def add_arrival(db: Db, now: int, **fields: Any) -> int:
    """The number of a message that was not there yet."""
    message_id = messages.accept(db, make_arrival(now, **fields), now)
    assert message_id is not None
    return message_id


def begin_turn(db: Db, session: Session, now: int, **fields: Any) -> TurnClaim:
    """A turn of a session with one new message in it."""
    message_id = add_arrival(db, now, instance=session.instance, address=session.address, **fields)
    inbox.enqueue(db, message_id, session.id, session.folder, "member", now)
    claim = turn_claims.claim(db, session.id, "scripted", "test", now, MINUTE, 10)
    assert claim is not None
    return claim
