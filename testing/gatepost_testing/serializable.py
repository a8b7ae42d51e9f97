"""Find units that rely on rows without a lock: run them at SERIALIZABLE, and see which ones PostgreSQL refuses.

    with watch_conflicts() as conflicts:
        store = PostgresStore(make_serializable(url))

A transaction takes its snapshot with its first statement, so one that waits for a lock after that would be refused for
what the lock keeps apart. Each unit is therefore run once and undone, to learn its locks; it takes those before it
begins for good. Units that are refused then are not kept apart by their locks.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from unittest.mock import patch

import psycopg
from psycopg import errors

from gatepost.store.engine.lanes import WriteUnit
from gatepost.store.postgres import postgres_store
from gatepost.store.postgres.advisory_locks import LockName, make_number
from gatepost.store.postgres.postgres_db import PostgresDb
from gatepost.store.postgres.unit_worker import UnitWorker

Conflicts = Counter[str]  # by the name of the unit

# PostgreSQL watches whole pages of small tables, so it also refuses units on rows of different sessions and rooms.
ONE_SESSION = "one gateway runs a session, in one lane; its statements name the epoch or the state that they saw"
ONE_SENDER = "one gateway sends on a channel, one lane at a time; its statements name the state that they saw"
ONE_STATEMENT = "it is one statement, which looks at the row as it is when it has it"
EXPLAINED = {
    "gatepost.flow.delivery.delivery_loop.DeliveryLoop.write.<locals>.both": ONE_SENDER,
    "gatepost.flow.delivery.outbox_claims.settle_and_claim": ONE_SENDER,
    "gatepost.flow.gateways.session_claims._claim": ONE_STATEMENT,
    "gatepost.flow.intake.message_acceptance.accept": "it has its room; the number in the session is one statement",
    "gatepost.flow.sessions.runner.runner_protocol.RunnerProtocol._claim_batch": ONE_SESSION,
    "gatepost.flow.sessions.runner.results.record_results": ONE_SESSION,
    "gatepost.flow.sessions.session_supervisor._defer": ONE_STATEMENT,
    "gatepost.store.gateways.gateways.claim_duties": ONE_STATEMENT,
    "gatepost.store.gateways.gateways.release_session": ONE_STATEMENT,
    "gatepost.store.sessions.turns.begin": ONE_SESSION,
    "gatepost.store.sessions.turns.finish": ONE_SESSION,
    "gatepost.store.sessions.turns.set_conversation": ONE_SESSION,
}


def make_serializable(url: str) -> str:
    """The same database; its transactions are SERIALIZABLE unless they say otherwise."""
    return f"{url}{'&' if '?' in url else '?'}options=-c%20default_transaction_isolation%3Dserializable"


def list_unexplained(conflicts: Conflicts) -> list[str]:
    """Units that decide by what they do not have to themselves, and are not in the list."""
    return sorted(conflicts.keys() - EXPLAINED.keys())


@contextmanager
def watch_conflicts() -> Iterator[Conflicts]:
    """Count the conflicts of all stores that are opened within the block."""
    found: Conflicts = Counter()

    class Watched(_SerializableWorker):
        conflicts = found

    with patch.object(postgres_store, "UnitWorker", Watched):
        yield found


class _SerializableWorker(UnitWorker):
    conflicts: Conflicts

    def _try(self, unit: WriteUnit, first: frozenset[LockName] = frozenset()) -> Any:
        db = self._connect()
        names = first | self._learn(db, unit, first)
        for name in sorted(names):
            db.rows("SELECT pg_advisory_lock(?)", (make_number(name),))
        try:
            return super()._try(unit, names)
        except errors.SerializationFailure:
            self.conflicts[unit.name] += 1
            raise
        finally:
            with suppress(psycopg.Error):
                self._connect().rows("SELECT pg_advisory_unlock_all()")

    def _learn(self, db: PostgresDb, unit: WriteUnit, first: frozenset[LockName]) -> frozenset[LockName]:
        self._rehearse_unit(db, unit, first)
        return frozenset(db._locks._held)
