"""Groups that are in a conversation of a room, and what people chose there for themselves. A name of its own for the
state of both: they change while people talk, and the rules do not."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        """CREATE TABLE engagements (
            instance {text} NOT NULL,
            address {text} NOT NULL,
            thread {text} NOT NULL,
            folder {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            route_id {int} REFERENCES routes (id) ON DELETE CASCADE,  -- NULL: by a call of the group itself
            until {int},  -- NULL: it never ends
            ttl {int} NOT NULL,  -- microseconds that a reply extends it by
            engaged_at {int} NOT NULL,
            PRIMARY KEY (instance, address, thread, folder)
        ) {strict}"""
    )
    db.define("CREATE INDEX engagements_group ON engagements (folder)")
    db.define("CREATE INDEX engagements_route ON engagements (route_id)")
    db.define("CREATE INDEX engagements_until ON engagements (until)")
    db.define(
        """CREATE TABLE sticky_choices (
            instance {text} NOT NULL,
            address {text} NOT NULL,
            thread {text} NOT NULL,
            sender {text} NOT NULL,
            folder {text} NOT NULL,  -- '': as routes say
            topic {text} NOT NULL,  -- '': as routes say
            chosen_at {int} NOT NULL,
            PRIMARY KEY (instance, address, thread, sender)
        ) {strict}"""
    )
    db.define("ALTER TABLE rule_state ADD COLUMN places {text} NOT NULL DEFAULT 'first'")
