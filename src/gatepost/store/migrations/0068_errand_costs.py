"""What is spent on an errand counts for the turn that gave it out, too."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    # Calls that are set aside for other turns, too: those that asked for the work.
    db.define(
        "CREATE TABLE reservation_charges ("
        " reservation_id {int} NOT NULL REFERENCES reservations (id) ON DELETE CASCADE,"
        " step {int} NOT NULL,"  # from errand to errand: 0 is the turn that gave out this one
        " session_id {text} NOT NULL,"
        " turn_id {text} NOT NULL,"
        " PRIMARY KEY (reservation_id, step)"
        ") {strict}"
    )
    db.define("CREATE INDEX reservation_charges_turn ON reservation_charges (turn_id)")
    db.define("CREATE INDEX reservation_charges_session ON reservation_charges (session_id)")
