"""A store that has been used for long: rooms full of answered messages, written at once, as the gateway leaves them."""

import itertools
from collections.abc import Iterator
from typing import Any

import apsw

from gatepost.store import search
from gatepost.store.engine.sqlite_db import SqliteDb
from gatepost.store.rights import audit
from gatepost.store.sessions.sessions import Session

PORTION = 5_000
STEPS = (
    ("in", "queued"),
    ("in", "given"),
    ("in", "answered"),
    ("out", "pending"),
    ("out", "sending"),
    ("out", "sent"),
)


def age(connection: apsw.Connection, session: Session, pairs: int, start: int, every: int = 1_000_000) -> None:
    """Give a session that many messages, each with its turn and its answer, from the moment `start` on."""
    db = SqliteDb(connection)
    row = db.row("SELECT COALESCE(MAX(id), 0) FROM messages")
    assert row is not None
    for first in range(0, pairs, PORTION):
        numbers = range(first, min(first + PORTION, pairs))
        connection.execute("BEGIN IMMEDIATE")
        for table, rows in _rows(session, int(row[0]), numbers, start, every).items():
            names = ", ".join(rows[0])
            values = ", ".join("?" for _ in rows[0])
            connection.executemany(
                f"INSERT INTO {table} ({names}) VALUES ({values})", [tuple(each.values()) for each in rows]
            )
        audit.append(db, *_records(session, numbers, start, every))
        while search.index(db, PORTION):
            pass
        connection.execute("COMMIT")
    connection.execute("UPDATE sessions SET next_seq = ? WHERE id = ?", (2 * pairs + 1, session.id))


def _rows(session: Session, before: int, numbers: range, start: int, every: int) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {"turns": [], "messages": [], "inbox": [], "outbox": [], "steps": []}
    where = {"instance": session.instance, "address": session.address, "thread": session.thread}
    for number in numbers:
        at, turn = start + number * every, f"t-aged-{session.id}-{number:08}"
        came, went = before + 2 * number + 1, before + 2 * number + 2
        common = {"session_id": session.id, "created_at": at, "updated_at": at}
        found["turns"].append(
            {
                **where,
                "id": turn,
                "session_id": session.id,
                "folder": session.folder,
                "provider": "scripted",
                "rights": "member",
                "state": "done",
                "next_at": at,
                "owner": "",
                "lease_until": at,
                "started_at": at,
                "begun_at": at,
                "ended_at": at,
            }
        )
        for message_id, direction in ((came, "in"), (went, "out")):
            found["messages"].append(
                {
                    **where,
                    "id": message_id,
                    "direction": direction,
                    "platform_id": f"aged-{message_id}",
                    "kind": "chat",
                    "sender": "fake:user/1" if direction == "in" else f"agent:{session.folder}",
                    "text": f"message {number}",
                    "folder": "" if direction == "in" else session.folder,
                    "at": at,
                    "accepted_at": at,
                }
            )
        ended = {"message_id": came, "folder": session.folder, "seq": 2 * number + 1, "turn_id": turn, "given": 1}
        found["inbox"].append({**common, **ended, "state": "answered"})
        sent = {"key": turn, "message_id": went, "seq": 2 * number + 2, "turn_id": turn, "origin": "result"}
        found["outbox"].append({**common, **where, **sent, "op": "send", "payload": "{}", "state": "sent"})
        found["steps"] += [
            {"message_id": came if direction == "in" else went, "at": at, "step": step} for direction, step in STEPS
        ]
    return found


def _records(session: Session, numbers: range, start: int, every: int) -> Iterator[audit.AuditRecord]:
    for number in itertools.islice(numbers, None):
        turn = f"t-aged-{session.id}-{number:08}"
        yield audit.AuditRecord(start + number * every, session.folder, "reply", "allowed", {"turn": turn})
