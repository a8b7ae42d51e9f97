"""Steps 8 to 14. Never edited: stores have them behind them."""

from gatepost.store import search
from gatepost.store.port import Db


def apply_0008(db: Db) -> None:
    """Add rights: rules on groups, rows of the access list, and members of roles."""
    db.define(
        """CREATE TABLE grants (
            id {id},
            folder {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            rule {text} NOT NULL,
            added_by {text} NOT NULL,
            added_at {int} NOT NULL
        ) {strict}"""
    )
    db.define("CREATE INDEX grants_folder ON grants (folder, id)")
    db.define(
        """CREATE TABLE acl (
            id {id},
            principal {text} NOT NULL,
            action {text} NOT NULL,
            scope {text} NOT NULL,
            effect {text} NOT NULL CHECK (effect IN ('allow', 'deny')),
            params {text} NOT NULL DEFAULT '',
            predicate {text} NOT NULL DEFAULT '',
            grant_option {int} NOT NULL DEFAULT 0,
            granted_by {text} NOT NULL,
            granted_at {int} NOT NULL,
            UNIQUE (principal, action, scope, params, predicate, effect)
        ) {strict}"""
    )
    db.define(
        """CREATE TABLE memberships (
            child {text} NOT NULL,
            parent {text} NOT NULL,
            added_by {text} NOT NULL,
            added_at {int} NOT NULL,
            PRIMARY KEY (child, parent),
            CHECK (child <> parent)
        ) {strict}"""
    )
    db.define("CREATE INDEX sessions_address ON sessions (address)")  # whose room is it?


def apply_0009(db: Db) -> None:
    """Add groups that watch others: messages that reach the source are context for the observer.

    The rows of a conversation get an index.
    """
    db.define(
        """CREATE TABLE watchers (
            observer {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            source {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            added_by {text} NOT NULL,
            added_at {int} NOT NULL,
            PRIMARY KEY (source, observer),
            CHECK (observer <> source)
        ) {strict}"""
    )
    db.run("UPDATE groups SET open = 0")  # nobody has opened any: until now nothing could be seen by it
    db.define("CREATE INDEX outbox_session ON outbox (session_id, seq) WHERE seq > 0")
    db.define("CREATE INDEX turns_session ON turns (session_id, started_at)")


def apply_0010(db: Db) -> None:
    """Add full text over the ledger, and indexes: a room's messages by time, and failed rows.

    Triggers note messages that wait to be indexed, so that whoever writes, changes or deletes one need not know. Many
    are indexed at a time (`store/search.py`). The index holds no text of its own.
    """
    db.define("CREATE TABLE unsearched (message_id {int} PRIMARY KEY) {strict}")
    db.define(
        "CREATE VIRTUAL TABLE search USING fts5"
        " (text, marks, content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 2')"
    )
    db.define("INSERT INTO unsearched SELECT id FROM messages WHERE text <> ''")
    while search.index(db, 10_000):
        pass
    db.define(
        "CREATE TRIGGER search_added AFTER INSERT ON messages WHEN NEW.text <> '' BEGIN"
        " INSERT INTO unsearched VALUES (NEW.id); END"
    )
    db.define(
        "CREATE TRIGGER search_changed AFTER UPDATE OF text, instance, address, sender ON messages BEGIN"
        " DELETE FROM search WHERE rowid = OLD.id; INSERT OR IGNORE INTO unsearched VALUES (NEW.id); END"
    )
    db.define(
        "CREATE TRIGGER search_removed AFTER DELETE ON messages BEGIN"
        " DELETE FROM search WHERE rowid = OLD.id; DELETE FROM unsearched WHERE message_id = OLD.id; END"
    )
    db.define("CREATE INDEX messages_said ON messages (instance, address, at, id)")
    db.define("CREATE INDEX inbox_failed ON inbox (folder) WHERE state = 'failed'")


def apply_0010_postgres(db: Db) -> None:
    """Add full text over the ledger: the words of a message, split by us, and marks of its room and its sender.

    They are written with the message. Nothing ever waits to be indexed, so there is no table `unsearched`.
    """
    db.define(
        "CREATE TABLE search (message_id {int} PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,"
        " words TSVECTOR NOT NULL)"
    )
    db.define("CREATE INDEX search_words ON search USING GIN (words) WITH (fastupdate = off)")
    db.define("CREATE INDEX messages_said ON messages (instance, address, at, id)")
    db.define("CREATE INDEX inbox_failed ON inbox (folder) WHERE state = 'failed'")


COLUMNS_0011 = (
    "agent {int} NOT NULL DEFAULT 0",
    "model {text} NOT NULL DEFAULT ''",
    "permission_mode {text} NOT NULL DEFAULT ''",
    "cwd {text} NOT NULL DEFAULT ''",
    "labels {text} NOT NULL DEFAULT '{{}}'",
    "parent {text} NOT NULL DEFAULT ''",
    "notify {int} NOT NULL DEFAULT 0",
    "archived_at {int}",
)


def apply_0011(db: Db) -> None:
    """Add agents as a service: their columns of a session, their timeline, and requests of their providers."""
    for column in COLUMNS_0011:
        db.define(f"ALTER TABLE sessions ADD COLUMN {column}")
    db.define("CREATE INDEX sessions_agents ON sessions (active_at) WHERE agent = 1")
    db.define(
        """CREATE TABLE timeline (
            session_id {text} NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
            seq {int} NOT NULL,
            at {int} NOT NULL,
            turn_id {text} NOT NULL DEFAULT '',
            kind {text} NOT NULL,
            data {text} NOT NULL,
            PRIMARY KEY (session_id, seq)
        ) {strict}"""
    )
    db.define(
        """CREATE TABLE permissions (
            id {text} NOT NULL PRIMARY KEY,
            session_id {text} NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
            turn_id {text} NOT NULL,
            request {text} NOT NULL,
            kind {text} NOT NULL,
            tool {text} NOT NULL,
            input {text} NOT NULL,
            state {text} NOT NULL,
            reason {text} NOT NULL DEFAULT '',
            asked_at {int} NOT NULL,
            answered_at {int},
            answered_by {text} NOT NULL DEFAULT '',
            UNIQUE (session_id, turn_id, request)
        ) {strict}"""
    )
    db.define("CREATE INDEX permissions_pending ON permissions (asked_at) WHERE state = 'pending'")


COLUMNS_0012 = (
    "answer {text} NOT NULL DEFAULT '{{}}'",
    "follow_up {text} NOT NULL DEFAULT ''",
    "next_mode {text} NOT NULL DEFAULT ''",
)


def apply_0012(db: Db) -> None:
    """Keep what an approved plan brings about, and with what a request was answered."""
    for column in COLUMNS_0012:
        db.define(f"ALTER TABLE permissions ADD COLUMN {column}")


def apply_0013(db: Db) -> None:
    """Add managed worktrees, the setups that an operator trusts, and the tokens by which agents are known."""
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


KEPT_0014 = (
    "id, session_id, turn_id, request, kind, tool, input, answer, follow_up, next_mode, state, reason, asked_at,"
    " answered_at, answered_by"
)


def apply_0014(db: Db) -> None:
    """Tell requests apart by everything they ask, not only by a name that a provider may give twice.

    Earlier answers cannot be compared, so these requests are asked again.
    """
    db.define("ALTER TABLE permissions RENAME TO permissions_before")
    db.define("DROP INDEX permissions_pending")
    db.define(
        """CREATE TABLE permissions (
            id {text} NOT NULL PRIMARY KEY,
            session_id {text} NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
            turn_id {text} NOT NULL,
            request {text} NOT NULL,                -- as the provider named it
            digest {text} NOT NULL DEFAULT '',      -- of everything that was asked
            kind {text} NOT NULL,
            tool {text} NOT NULL,
            input {text} NOT NULL,
            cut {int} NOT NULL DEFAULT 0,           -- 1: `input` is an excerpt, the provider holds the whole
            answer {text} NOT NULL DEFAULT '{{}}',
            follow_up {text} NOT NULL DEFAULT '',
            next_mode {text} NOT NULL DEFAULT '',
            state {text} NOT NULL,
            reason {text} NOT NULL DEFAULT '',
            asked_at {int} NOT NULL,
            answered_at {int},
            answered_by {text} NOT NULL DEFAULT '',
            UNIQUE (session_id, turn_id, request, digest)
        ) {strict}"""
    )
    db.define(f"INSERT INTO permissions ({KEPT_0014}) SELECT {KEPT_0014} FROM permissions_before")
    db.define("DROP TABLE permissions_before")
    db.define("CREATE INDEX permissions_pending ON permissions (asked_at) WHERE state = 'pending'")
