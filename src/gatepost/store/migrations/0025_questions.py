"""Who waits for the answer to a request, and which question of a request a card asks. An agent's own question is none
of its provider's: the provider waits in the turn, the agent is told later."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define("ALTER TABLE requests ADD COLUMN asker {text} NOT NULL DEFAULT 'person'")
    db.define("ALTER TABLE request_cards ADD COLUMN part {int} NOT NULL DEFAULT 0")
    db.run("UPDATE requests SET asker = 'agent' WHERE kind = 'call'")
    db.run("UPDATE requests SET asker = 'provider' WHERE kind IN ('tool', 'plan', 'question', 'mode', 'other')")
