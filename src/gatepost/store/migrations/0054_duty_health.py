"""The health of a duty, for all gateways: how it goes on the one that has it, and who has given it up. How many
connections each gateway uses, so that the one for which there are none left is refused before it starts. And the lives
of the server behind the store: a failover may lose the last moments."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define("ALTER TABLE duties ADD COLUMN health {text} NOT NULL DEFAULT ''")
    db.define("ALTER TABLE duties ADD COLUMN paused {text} NOT NULL DEFAULT ''")
    db.define("ALTER TABLE gateways ADD COLUMN connections {int} NOT NULL DEFAULT 0")
    db.define(
        """CREATE TABLE database_lives (
            name {text} NOT NULL PRIMARY KEY,       -- the server's own id and its timeline
            gateway {text} NOT NULL,                -- that noticed it
            synchronous {int} NOT NULL,             -- 1: commits waited for a standby, when a gateway last looked
            held {int} NOT NULL,                    -- effects that were open when it began; -1: nothing was lost
            since {int} NOT NULL,
            request_id {text} NOT NULL DEFAULT ''   -- by which somebody decides about what is held
        ) {strict}"""
    )
