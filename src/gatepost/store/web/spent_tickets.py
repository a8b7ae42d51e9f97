"""Tickets of sign-ins that were used. Nothing is kept of those that nobody came back with."""

from gatepost.store.port import Db

MOST = 10_000  # within the few minutes that a ticket lasts


def add(db: Db, ticket_id: str, expires_at: int, now: int) -> bool:
    """False if it was used before, or if too many were of late. Those that have expired are forgotten."""
    db.run("DELETE FROM spent_tickets WHERE expires_at <= ?", (now,))
    full = db.row("SELECT 1 FROM spent_tickets LIMIT 1 OFFSET ?", (MOST - 1,))
    if full is not None:
        return False
    row = db.row(
        "INSERT INTO spent_tickets (id, expires_at) VALUES (?, ?) ON CONFLICT (id) DO NOTHING RETURNING id",
        (ticket_id, expires_at),
    )
    return row is not None


def is_there(db: Db, ticket_id: str) -> bool:
    return db.row("SELECT 1 FROM spent_tickets WHERE id = ?", (ticket_id,)) is not None
