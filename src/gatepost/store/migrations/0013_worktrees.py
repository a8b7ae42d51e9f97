"""Managed worktrees, the setups that an operator trusts, and the tokens by which agents are known."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        """CREATE TABLE worktrees (
            project {text} NOT NULL,
            slug {text} NOT NULL,
            folder {text} NOT NULL,
            source {text} NOT NULL,
            branch {text} NOT NULL,
            base {text} NOT NULL,
            base_commit {text} NOT NULL DEFAULT '',
            state {text} NOT NULL,
            setup {text} NOT NULL DEFAULT '[]',
            teardown {text} NOT NULL DEFAULT '[]',
            setup_state {text} NOT NULL DEFAULT 'none',
            setup_output {text} NOT NULL DEFAULT '',
            created_at {int} NOT NULL,
            archived_at {int},
            PRIMARY KEY (project, slug)
        ) {strict}"""
    )
    db.define(
        """CREATE TABLE trusted_setups (
            project {text} NOT NULL,
            digest {text} NOT NULL,
            trusted_by {text} NOT NULL,
            trusted_at {int} NOT NULL,
            PRIMARY KEY (project, digest)
        ) {strict}"""
    )
    db.define(
        """CREATE TABLE session_tokens (
            session_id {text} NOT NULL PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
            digest {text} NOT NULL UNIQUE,
            made_at {int} NOT NULL
        ) {strict}"""
    )
