"""One turn, one run of a task and one conversation can have a limit of their own."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    # The turn whose limit a call counts for: of a call between turns, the turn before it.
    db.define("ALTER TABLE reservations ADD COLUMN charged_turn {text} NOT NULL DEFAULT ''")
    db.define("CREATE INDEX reservations_session ON reservations (session_id)")
    # Millionths of a USD that one run may cost; NULL: as its group says.
    db.define("ALTER TABLE tasks ADD COLUMN max_cost {int}")
    # What conversations that go on have spent. Turns begin with nothing: the next one is counted from its start.
    db.define(
        "INSERT INTO spending (kind, name, period, starts_at, spent)"
        " SELECT 'session', s.id, 'session', COALESCE(s.reset_at, 0), SUM(c.micro)"
        " FROM sessions s JOIN costs c ON c.session_id = s.id AND c.at >= COALESCE(s.reset_at, 0)"
        " WHERE s.closed_at IS NULL GROUP BY s.id, s.reset_at"
    )
