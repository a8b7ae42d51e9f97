"""Tokens by which programs run operations over HTTP."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        """CREATE TABLE api_tokens (
            id {text} NOT NULL PRIMARY KEY,
            hash {text} NOT NULL UNIQUE,
            label {text} NOT NULL DEFAULT '',
            maker {text} NOT NULL,                  -- whose rights bound it: a person, or 'operator'
            scopes {text} NOT NULL,                 -- JSON list of rights, with * for any part
            created_at {int} NOT NULL,
            expires_at {int},                       -- NULL: never
            revoked_at {int},
            last_used_at {int}
        ) {strict}"""
    )
