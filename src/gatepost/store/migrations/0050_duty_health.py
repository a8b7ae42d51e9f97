"""What all gateways see of a duty: how it goes on the gateway that has it, and who has given it up. And how many
connections each gateway uses, so that the one for which there are none left is refused before it starts."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define("ALTER TABLE duties ADD COLUMN health {text} NOT NULL DEFAULT ''")
    db.define("ALTER TABLE duties ADD COLUMN paused {text} NOT NULL DEFAULT ''")
    db.define("ALTER TABLE gateways ADD COLUMN connections {int} NOT NULL DEFAULT 0")
