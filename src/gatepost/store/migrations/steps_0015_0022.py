"""Steps 15 to 22. Never edited: stores have them behind them."""

import hashlib
import json
import re

from gatepost.store.port import Db

KEPT_0015 = "scope, name, folder, user_id, key_id, nonce, sealed, created_at, updated_at, used_at"


def apply_0015(db: Db) -> None:
    """Bind a model's key to the endpoint that it was given for.

    A place may hold several keys of one name, one for each endpoint.
    """
    db.define("ALTER TABLE secrets RENAME TO secrets_before")
    db.define(
        """CREATE TABLE secrets (
            scope {text} NOT NULL,                    -- '' the gateway | folder:acme/eng | user:telegram:user/9
            name {text} NOT NULL,
            origin {text} NOT NULL DEFAULT '',        -- of a model's key: https://api.openai.com:443
            folder {text} REFERENCES groups (folder) ON DELETE CASCADE,
            user_id {text} REFERENCES users (id) ON DELETE CASCADE,
            key_id {text} NOT NULL,                   -- which key of the ring
            nonce {blob} NOT NULL,
            sealed {blob} NOT NULL,                   -- AES-GCM; scope, name and key_id are sealed in with the value
            created_at {int} NOT NULL,
            updated_at {int} NOT NULL,
            used_at {int},
            PRIMARY KEY (scope, name, origin)
        ) {strict}"""
    )
    # '' for what was set before: taken for the gateway's own endpoint, and written down at the next start.
    db.define(f"INSERT INTO secrets ({KEPT_0015}) SELECT {KEPT_0015} FROM secrets_before")
    db.define("DROP TABLE secrets_before")


INBOX_0016 = """CREATE TABLE inbox (
        id {id},
        message_id {int} NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
        session_id {text} REFERENCES sessions (id) ON DELETE SET NULL,  -- NULL: it reached none, or its group is gone
        folder {text} NOT NULL DEFAULT '',
        seq {int} NOT NULL DEFAULT 0,
        mode {text} NOT NULL DEFAULT 'trigger',   -- trigger | observe
        rights {text} NOT NULL DEFAULT 'guest',   -- owner | admin | member | guest
        turn_id {text} REFERENCES turns (id) ON DELETE SET NULL,
        given {int} NOT NULL DEFAULT 0,           -- 1: the provider has it
        state {text} NOT NULL,
        reason {text} NOT NULL DEFAULT '',
        tries {int} NOT NULL DEFAULT 0,
        next_at {int},                            -- NULL only in an end state
        owner {text} NOT NULL DEFAULT '',
        lease_until {int} NOT NULL DEFAULT 0,
        epoch {int} NOT NULL DEFAULT 0,
        created_at {int} NOT NULL,
        updated_at {int} NOT NULL
    ) {strict}"""


COLUMNS_0016 = (
    "id, message_id, session_id, folder, seq, mode, rights, turn_id, given, state, reason, tries, next_at, owner,"
    " lease_until, epoch, created_at, updated_at"
)


OBSERVED_0016 = "CREATE INDEX inbox_observed ON inbox (session_id, seq) WHERE mode = 'observe' AND given = 0"


def apply_0016(db: Db) -> None:
    """Repair stores that were made before the last edits of step 1.

    Step 1 was edited four times after it was first used, so a store's number did not say what it had. A store that has
    everything is left as it is.
    """
    sessions, turns = db.definition("sessions"), db.definition("turns")
    for column in ("window_messages", "window_chars"):
        if sessions and column not in sessions:
            db.define(f"ALTER TABLE sessions ADD COLUMN {column} {{int}}")
    if turns and "spared" not in turns:
        db.define("ALTER TABLE turns ADD COLUMN spared {int} NOT NULL DEFAULT 0")
    if turns and "UNIQUE" not in db.definition("turns_open"):
        _one_open_turn(db)
    if re.search(r"session_id TEXT REFERENCES sessions \(id\) ON DELETE CASCADE", db.definition("inbox")):
        _keep_rows_of_removed_groups(db)
    if turns and not db.definition("inbox_observed"):
        db.define(OBSERVED_0016)


def _one_open_turn(db: Db) -> None:
    """Of several open turns the newest is the one that a runner has."""
    db.run(
        "UPDATE turns SET state = 'failed', error = 'a newer turn was open', ended_at = next_at WHERE ended_at IS NULL"
        " AND EXISTS (SELECT 1 FROM turns o WHERE o.session_id = turns.session_id AND o.ended_at IS NULL"
        " AND (o.started_at > turns.started_at OR (o.started_at = turns.started_at AND o.id > turns.id)))"
    )
    db.define("DROP INDEX IF EXISTS turns_open")
    db.define("CREATE UNIQUE INDEX turns_open ON turns (session_id) WHERE ended_at IS NULL")


def _keep_rows_of_removed_groups(db: Db) -> None:
    """A reference's action cannot be changed in place. Nothing refers to the inbox, so it can be replaced."""
    around = db.rows(
        "SELECT sql FROM sqlite_schema WHERE tbl_name = 'inbox' AND type IN ('index', 'trigger') AND sql IS NOT NULL"
        " ORDER BY type, name"
    )
    db.define("ALTER TABLE inbox RENAME TO inbox_before")
    for (name,) in db.rows("SELECT name FROM sqlite_schema WHERE tbl_name = 'inbox_before' AND type = 'index'"):
        if not name.startswith("sqlite_"):
            db.define(f"DROP INDEX {name}")
    db.define(INBOX_0016)
    db.run(f"INSERT INTO inbox ({COLUMNS_0016}) SELECT {COLUMNS_0016} FROM inbox_before")
    db.define("DROP TABLE inbox_before")
    for (sql,) in around:
        db.run(sql)


def apply_0017(db: Db) -> None:
    """Add origins of messages that no person wrote: on whose behalf, from which rooms, and how many steps lie
    behind.

    Files that agents gave away are kept by turn and group: they count against budgets.
    """
    db.define(
        """CREATE TABLE origins (
            message_id {int} NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
            ordinal {int} NOT NULL,                     -- 0: who pays
            person {text} NOT NULL,                 -- '': nobody
            instance {text} NOT NULL,
            address {text} NOT NULL,
            thread {text} NOT NULL,
            depth {int} NOT NULL,                       -- the same in all rows of a message
            PRIMARY KEY (message_id, ordinal)
        ) {strict}"""
    )
    db.define(
        """CREATE TABLE given_files (
            key {text} NOT NULL PRIMARY KEY,        -- of the effect that they belong to
            folder {text} NOT NULL,
            session_id {text} NOT NULL,
            turn_id {text} NOT NULL,                -- '': outside of a turn
            bytes {int} NOT NULL,                       -- as they are on the host: holes count
            at {int} NOT NULL
        ) {strict}"""
    )
    db.define("CREATE INDEX given_files_group ON given_files (folder, at)")
    db.define("CREATE INDEX given_files_turn ON given_files (session_id, turn_id)")


def apply_0018(db: Db) -> None:
    """Add calls of tools by their arguments: a turn that is continued gives the same call the same key again."""
    db.define(
        """CREATE TABLE calls (
            turn_id {text} NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
            digest {text} NOT NULL,                 -- of the tool's name and its arguments
            number {int} NOT NULL,                  -- 1 for the first such call of the turn
            settled {int} NOT NULL DEFAULT 0,       -- 1: the agent went on after its answer, and does not repeat it
            PRIMARY KEY (turn_id, digest, number)
        ) {strict}"""
    )


def apply_0019(db: Db) -> None:
    """Add a host uid for each world, for a gateway that runs as root.

    A row stays when its groups go. The number is not given to anybody else, because files of it may be left.
    """
    db.define(
        """CREATE TABLE uids (
            world {text} NOT NULL PRIMARY KEY,      -- the first part of a group's folder
            uid {int} NOT NULL UNIQUE,
            assigned_at {int} NOT NULL
        ) {strict}"""
    )


def apply_0020(db: Db) -> None:
    """Add indexes for reads that would grow with every message, and the anchor of a shortened audit chain.

    Outgoing rows of a conversation, a session or a message are found without reading the outbox. A session's pending
    permissions are found without reading its answered ones. Whoever removes messages tidies the search index a little.
    """
    db.define("DROP INDEX outbox_session")
    db.define("CREATE INDEX outbox_session ON outbox (session_id, seq) WHERE session_id IS NOT NULL")
    db.define("CREATE INDEX outbox_target ON outbox (target_id) WHERE target_id IS NOT NULL")
    db.define("CREATE INDEX permissions_pending_session ON permissions (session_id) WHERE state = 'pending'")
    # By itself the index merges a whole segment as soon as a tenth of it is deleted: 140 ms at 100,000 messages.
    db.define("INSERT INTO search (search, rank) VALUES ('deletemerge', 0)")
    db.define("CREATE INDEX destinations_room ON destinations (folder, instance, address)")
    db.define(
        """CREATE TABLE audit_anchor (
            only {int} NOT NULL PRIMARY KEY CHECK (only = 1),
            seq {int} NOT NULL,                     -- of the last row that was removed
            hash {text} NOT NULL,
            at {int} NOT NULL                       -- when it was removed
        ) {strict}"""
    )


def apply_0020_postgres(db: Db) -> None:
    """Add the same indexes, and the anchor of a shortened audit chain."""
    db.define("DROP INDEX outbox_session")
    db.define("CREATE INDEX outbox_session ON outbox (session_id, seq) WHERE session_id IS NOT NULL")
    db.define("CREATE INDEX outbox_target ON outbox (target_id) WHERE target_id IS NOT NULL")
    db.define("CREATE INDEX permissions_pending_session ON permissions (session_id) WHERE state = 'pending'")
    db.define("CREATE INDEX destinations_room ON destinations (folder, instance, address)")
    db.define(
        """CREATE TABLE audit_anchor (
            only {int} NOT NULL PRIMARY KEY CHECK (only = 1),
            seq {int} NOT NULL,                     -- of the last row that was removed
            hash {text} NOT NULL,
            at {int} NOT NULL                       -- when it was removed
        ) {strict}"""
    )


def apply_0021(db: Db) -> None:
    """Find what a turn has said without reading it, and count the bytes of its results.

    A row has a digest of its text and the message that it answers. Only open turns are asked for these, so only their
    rows are filled in.
    """
    db.define("ALTER TABLE turns ADD COLUMN said_bytes {int} NOT NULL DEFAULT 0")
    db.define("ALTER TABLE outbox ADD COLUMN digest {text} NOT NULL DEFAULT ''")
    db.define("ALTER TABLE outbox ADD COLUMN answers {int}")  # the seq of a message in the session
    rows = db.rows(
        "SELECT o.id, o.instance, o.address, m.text, o.payload, o.origin, o.op FROM outbox o"
        " JOIN messages m ON m.id = o.message_id JOIN turns t ON t.id = o.turn_id WHERE t.ended_at IS NULL"
    )
    for row_id, instance, address, text, payload, origin, op in rows:
        answers = json.loads(payload).get("in_reply_to")
        said = "\0".join((instance, address, text)).encode("utf-8", "surrogatepass")
        digest = hashlib.sha256(said).hexdigest() if op == "send" and origin != "status" else ""
        known = answers if isinstance(answers, int) else None
        db.run("UPDATE outbox SET digest = ?, answers = ? WHERE id = ?", (digest, known, row_id))
    db.define("CREATE INDEX outbox_said ON outbox (turn_id, digest, answers) WHERE turn_id IS NOT NULL")


def apply_0022(db: Db) -> None:
    """Add one row that names the state of the rules, so that rules that were read can be kept until they change."""
    db.define(
        "CREATE TABLE rule_state (only {int} NOT NULL PRIMARY KEY CHECK (only = 1), name {text} NOT NULL) {strict}"
    )
    db.run("INSERT INTO rule_state (only, name) VALUES (1, ?)", ("first",))
