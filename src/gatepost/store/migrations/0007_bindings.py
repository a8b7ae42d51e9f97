"""Secrets that are bound to a host: the gateway puts them into requests to it. `folder` NULL is the whole instance."""

from gatepost.store.port import Db

TABLES = (
    """CREATE TABLE secret_bindings (
        id {id},
        folder {text} REFERENCES groups (folder) ON DELETE CASCADE,
        name {text} NOT NULL,                     -- of the secret; whose holds is decided at each use
        scheme {text} NOT NULL,                   -- https | http
        host {text} NOT NULL,                     -- exactly this one, no sub-domain
        port {int} NOT NULL,
        header {text} NOT NULL,                   -- in lower case
        template {text} NOT NULL,                 -- the header's value; {{}} stands for the secret
        created_by {text} NOT NULL,
        created_at {int} NOT NULL
    ) {strict}""",
    "CREATE UNIQUE INDEX secret_bindings_once ON secret_bindings (COALESCE(folder, ''), scheme, host, port, header)",
)


def apply(db: Db) -> None:
    for table in TABLES:
        db.define(table)
