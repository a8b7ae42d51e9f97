"""Passkeys: public keys of authenticators by which people sign in to the web page."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        """CREATE TABLE passkeys (
            id {text} NOT NULL PRIMARY KEY,
            credential_id {blob} NOT NULL UNIQUE,   -- the authenticator's own name for it
            credential {blob} NOT NULL,             -- attested credential data: with the public key
            user_id {text} NOT NULL,                -- the identity that it signs in
            user_handle {blob} NOT NULL,            -- what the authenticator knows her by: random
            host {text} NOT NULL,                   -- where it works
            sign_count {int} NOT NULL,              -- how often it has signed; 0: it does not count
            label {text} NOT NULL,
            created_at {int} NOT NULL,
            last_used_at {int}
        ) {strict}"""
    )
    db.define("CREATE INDEX passkeys_by_user ON passkeys (user_id, id)")
