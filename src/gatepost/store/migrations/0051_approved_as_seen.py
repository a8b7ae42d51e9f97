"""Approvals are kept as people saw them. A request keeps what its held call reads besides its arguments. A connector
keeps its tools as they were when the operator accepted them."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define("ALTER TABLE requests ADD COLUMN bound {text} NOT NULL DEFAULT '{{}}'")
    db.define(
        """CREATE TABLE connector_tools (
            connector {text} NOT NULL,
            tool {text} NOT NULL,                   -- as its server names it; '': the connector itself was seen
            digest {text} NOT NULL,                 -- of all that the server tells of it
            listed {text} NOT NULL,                 -- JSON: what it told then
            accepted_by {text} NOT NULL,
            accepted_at {int} NOT NULL,
            PRIMARY KEY (connector, tool)
        ) {strict}"""
    )
