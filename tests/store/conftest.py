"""A session with a clock in hand, for tests of the ledger."""

from dataclasses import dataclass, field

import pytest

from gatepost.core.clock import SECOND
from gatepost.store.messages import inbox, outbox
from gatepost.store.messages.outbox import NewEffect, OutboxEffect
from gatepost.store.port import Db
from gatepost.store.sessions import groups, sessions, turn_claims, turn_failures, turns
from gatepost.store.sessions.sessions import Session, SessionMode
from gatepost.store.sessions.turn_claims import TurnClaim
from gatepost.store.sessions.turn_failures import FailureCause, TurnFailure, TurnRetryPolicy
from gatepost.store.sessions.turns import Turn
from gatepost_testing.arrivals import add_arrival

NOON = 1_800_000_000_000_000
LEASE = 30 * SECOND
POLICY = TurnRetryPolicy()
ROOM = ("fake", "fake:room/1")


@dataclass
class Desk:
    """One group `acme` with one session in one room; `now` is moved by the test alone."""

    db: Db
    session: Session
    now: int = NOON
    owner: str = "d-1"
    _count: int = field(default=0)

    def accept(self, text: str = "hello", **fields: str) -> int:
        self._count += 1
        usual = {"instance": ROOM[0], "address": ROOM[1], "platform_id": f"p{self._count}", "text": text}
        return add_arrival(self.db, self.now, **{**usual, **fields})

    def hear(self, text: str = "hello", *, rights: str = "member", thread: str = "", address: str = ROOM[1]) -> int:
        """A message queued for the session; its inbox row."""
        message_id = self.accept(text, thread=thread, address=address)
        return inbox.enqueue(self.db, message_id, self.session.id, "acme", rights, self.now)

    def claim(self, most: int = 20) -> TurnClaim | None:
        return turn_claims.claim(self.db, self.session.id, "scripted", self.owner, self.now, LEASE, most)

    def begun(self, *texts: str) -> Turn:
        """A turn whose provider has these messages."""
        for text in texts or ("hello",):
            self.hear(text)
        claim = self.claim()
        assert claim is not None and turns.begin(self.db, claim.turn.id, claim.turn.epoch, claim.rows, self.now)
        return self.turn(claim.turn.id)

    def turn(self, turn_id: str) -> Turn:
        found = turns.get(self.db, turn_id)
        assert found is not None
        return found

    def break_off(
        self, turn: Turn, reason: str = "it crashed", *, final: bool = False, counts_as_failure: bool = True
    ) -> TurnFailure:
        epoch = self.turn(turn.id).epoch
        found = turn_failures.record_failure(
            self.db,
            turn.id,
            epoch,
            FailureCause(reason=reason, final=final, counts_as_failure=counts_as_failure),
            POLICY,
            self.now,
        )
        assert found is not None
        return found

    def finish(self, turn: Turn) -> bool:
        return turns.finish(self.db, turn.id, self.turn(turn.id).epoch, "{}", self.now)

    def say(
        self, key: str, text: str, *, turn: Turn | None = None, origin: str = "result", op: str = "send"
    ) -> OutboxEffect:
        new = NewEffect(
            key=key,
            op=op,
            origin=origin,
            instance=ROOM[0],
            address=ROOM[1],
            text=text,
            payload={"text": text},
            folder="acme",
            session_id=self.session.id,
            turn_id=turn.id if turn else None,
        )
        return outbox.add(self.db, new, self.now)

    def states(self) -> list[str]:
        """Of the session's rows that people sent, in order."""
        rows = self.db.rows(
            "SELECT i.state FROM inbox i JOIN messages m ON m.id = i.message_id WHERE m.kind = 'chat' ORDER BY i.seq"
        )
        return [row[0] for row in rows]

    def entry(self, row_id: int) -> inbox.InboxEntry:
        found = inbox.get(self.db, row_id)
        assert found is not None
        return found

    def effect(self, key: str) -> OutboxEffect:
        found = outbox.find_by_key(self.db, key)
        assert found is not None
        return found


def make_desk(db: Db) -> Desk:
    if groups.get(db, "acme") is None:
        groups.add(db, "acme", "Acme", "", NOON)
    return Desk(db, sessions.find_or_add(db, SessionMode.SHARED, "acme", *ROOM, "", NOON))


@pytest.fixture
def desk(db: Db) -> Desk:
    return make_desk(db)
