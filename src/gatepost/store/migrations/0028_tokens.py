"""Tokens that let somebody in: invitations, chat links, webhooks, pairing links. Entrances by which newcomers get a
group of their own, and the newcomers."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    _add_tokens(db)
    _add_entrances(db)
    _add_newcomers(db)


def _add_tokens(db: Db) -> None:
    db.define(
        """CREATE TABLE tokens (
            id {text} NOT NULL PRIMARY KEY,
            hash {text} NOT NULL UNIQUE,
            kind {text} NOT NULL,  -- invite, chat_link, webhook, pairing_link
            folder {text} REFERENCES groups (folder) ON DELETE CASCADE,  -- whom it is for; NULL: no group
            own_group {int} NOT NULL DEFAULT 0,  -- of an invitation: a group below `folder` for each who accepts
            instance {text} NOT NULL DEFAULT '',  -- of a pairing link: where it was asked for
            address {text} NOT NULL DEFAULT '',  -- the room that it leads to, or was asked for in
            identity {text} NOT NULL DEFAULT '',  -- of a pairing link: what is bound to whoever confirms
            label {text} NOT NULL DEFAULT '',
            uses_left {int},  -- NULL: any number
            expires_at {int},  -- NULL: never
            created_by {text} NOT NULL,
            created_at {int} NOT NULL,
            revoked_at {int},
            last_used_at {int}
        ) {strict}"""
    )
    db.define("CREATE INDEX tokens_folder ON tokens (folder)")
    db.define("CREATE INDEX tokens_identity ON tokens (identity) WHERE identity <> ''")


def _add_entrances(db: Db) -> None:
    db.define(
        """CREATE TABLE entrances (
            id {id},
            instance {text} NOT NULL,
            senders {text} NOT NULL,  -- a glob: who may come in here
            folder {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,  -- their groups are made below it
            per_day {int} NOT NULL,  -- how many come in without anybody's word
            created_by {text} NOT NULL,
            created_at {int} NOT NULL,
            UNIQUE (instance, senders)
        ) {strict}"""
    )


def _add_newcomers(db: Db) -> None:
    db.define(
        """CREATE TABLE newcomers (
            id {text} NOT NULL PRIMARY KEY,
            sender {text} NOT NULL,
            name {text} NOT NULL,
            instance {text} NOT NULL,
            address {text} NOT NULL,
            parent {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            entrance_id {int},  -- NULL: by an invitation
            invited_by {text} NOT NULL DEFAULT '',  -- who made the invitation
            state {text} NOT NULL,  -- queued, admitted, settled, denied, failed
            folder {text} NOT NULL DEFAULT '',  -- her group, as soon as its name is chosen
            reason {text} NOT NULL DEFAULT '',
            asked_at {int} NOT NULL,
            admitted_at {int},
            decided_by {text} NOT NULL DEFAULT '',
            UNIQUE (sender, parent)
        ) {strict}"""
    )
    db.define("CREATE INDEX newcomers_state ON newcomers (state, asked_at)")
    db.define("CREATE INDEX newcomers_admitted ON newcomers (entrance_id, admitted_at)")
