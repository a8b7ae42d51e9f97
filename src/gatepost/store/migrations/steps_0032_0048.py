"""Steps 32 to 48. Never edited: stores have them behind them."""

from gatepost.store.port import Db


def apply_0032(db: Db) -> None:
    """Add groups that are in a conversation of a room, and choices that people made there for themselves.

    The state of both has a name of its own: they change while people talk, and the rules do not.
    """
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


def apply_0033(db: Db) -> None:
    """Add errands: pieces of work that one agent gave to another. Requests show what a call would change."""
    db.define(
        """CREATE TABLE errands (
            id {text} PRIMARY KEY,
            call_key {text} NOT NULL UNIQUE,        -- of the call that gave it out: made again, it is one errand
            parent {text} NOT NULL,                 -- the errand in whose work it was given out; '': none
            caller_folder {text} NOT NULL,
            caller_session {text} NOT NULL,
            caller_turn {text} NOT NULL,            -- '': between two turns
            rights {text} NOT NULL,                 -- of that turn
            instance {text} NOT NULL,               -- where that turn speaks, and its result returns
            address {text} NOT NULL,
            thread {text} NOT NULL,
            folder {text} NOT NULL,                 -- who does it
            session_id {text} NOT NULL,             -- in which conversation …
            room {text} NOT NULL,                   -- … and room, whose threads are errands
            message_id {int} NOT NULL REFERENCES messages (id) ON DELETE CASCADE,  -- that asks for it
            state {text} NOT NULL,                  -- open | stopping | done | failed | cancelled
            reason {text} NOT NULL DEFAULT '',
            result_id {int},                        -- the message by which its result returned
            created_at {int} NOT NULL,
            ended_at {int}                          -- NULL: it is not over
        ) {strict}"""
    )
    db.define("CREATE INDEX errands_open ON errands (id) WHERE ended_at IS NULL")
    db.define("CREATE INDEX errands_open_caller ON errands (caller_session) WHERE ended_at IS NULL")
    db.define("CREATE INDEX errands_open_folder ON errands (folder) WHERE ended_at IS NULL")
    db.define("CREATE INDEX errands_open_room ON errands (room) WHERE ended_at IS NULL")
    db.define("CREATE INDEX errands_open_parent ON errands (parent) WHERE ended_at IS NULL")
    db.define("CREATE INDEX errands_message ON errands (message_id)")
    db.define("ALTER TABLE requests ADD COLUMN preview {text} NOT NULL DEFAULT ''")


def apply_0034(db: Db) -> None:
    """Add forks: sessions that began with a copy of another one's conversation, or with its transcript.

    A session also says when its conversation was last begun anew.
    """
    db.define(
        """CREATE TABLE forks (
            child_id {text} NOT NULL PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
            parent_id {text} NOT NULL,        -- a session, which may be gone
            folder {text} NOT NULL,
            provider {text} NOT NULL,
            conversation {text} NOT NULL,     -- the parent's, which the child goes on with; '': none was copied
            how {text} NOT NULL,              -- copied | transcript
            bytes {int} NOT NULL,             -- of the copied state
            created_at {int} NOT NULL
        ) {strict}"""
    )
    db.define("CREATE INDEX forks_parent ON forks (parent_id)")
    db.define("CREATE INDEX forks_folder ON forks (folder, created_at)")
    db.define("ALTER TABLE sessions ADD COLUMN reset_at {int}")
    # Words of the parent, shown to a conversation that begins without them.
    db.define("ALTER TABLE session_notes ADD COLUMN transcript {text} NOT NULL DEFAULT ''")


def apply_0035(db: Db) -> None:
    """Add pinned rules, which the gateway tells an agent again after each compaction, for a group or one of its
    rooms.

    Replays are sessions that are given the messages of another one again. Each of their turns names the one it repeats.
    """
    db.define(
        """CREATE TABLE pinned_rules (
            id {id},
            folder {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            address {text} NOT NULL DEFAULT '',   -- a room; '': in all rooms of the group
            text {text} NOT NULL,
            added_by {text} NOT NULL,
            added_at {int} NOT NULL
        ) {strict}"""
    )
    db.define("CREATE INDEX pinned_rules_folder ON pinned_rules (folder, id)")
    db.define(
        """CREATE TABLE replays (
            session_id {text} NOT NULL PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
            source_id {text} NOT NULL,            -- a session, which may be gone
            folder {text} NOT NULL,
            changes {text} NOT NULL,              -- JSON: by its name, what is not as it was
            created_by {text} NOT NULL,
            created_at {int} NOT NULL
        ) {strict}"""
    )
    db.define("CREATE INDEX replays_folder ON replays (folder, created_at)")
    db.define("CREATE INDEX replays_source ON replays (source_id)")
    db.define(
        """CREATE TABLE replay_turns (
            session_id {text} NOT NULL REFERENCES replays (session_id) ON DELETE CASCADE,
            number {int} NOT NULL,                -- and the thread of its messages
            source_turn {text} NOT NULL,
            PRIMARY KEY (session_id, number)
        ) {strict}"""
    )


def apply_0036(db: Db) -> None:
    """Add forks that people asked for in a chat and that have no answer yet. Errand sessions are found by last use."""
    db.define(
        """CREATE TABLE wanted_forks (
            message_id {int} NOT NULL PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,  -- that asks for it
            parent_id {text} NOT NULL,        -- a session, which may be gone
            topic {text} NOT NULL,
            tries {int} NOT NULL DEFAULT 0    -- how often a gateway has begun with it
        ) {strict}"""
    )
    db.define("CREATE INDEX errands_parent ON errands (parent, id) WHERE parent <> ''")
    db.define(
        "CREATE INDEX sessions_open_errands ON sessions (active_at, address)"
        " WHERE instance = 'errands' AND closed_at IS NULL"
    )


def apply_0037(db: Db) -> None:
    """Add an index of the live conversations of a room.

    Isolated runs of a task leave a closed one each. The index over all of them is read through once for each of these.
    """
    db.define(
        "CREATE INDEX sessions_live_room ON sessions (address, folder, instance)"
        " WHERE closed_at IS NULL AND mode <> 'isolated'"
    )


def apply_0038(db: Db) -> None:
    """Add titles of tasks, and the holds that people have agreed to for the texts of a task."""
    db.define("ALTER TABLE tasks ADD COLUMN title {text} NOT NULL DEFAULT ''")  # for people; '': none
    db.define(
        """CREATE TABLE task_holds (
            task_id {text} NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
            folder {text} NOT NULL,                     -- whose rule it is
            rule {text} NOT NULL,                       -- that holds `send`, and that somebody agreed to
            PRIMARY KEY (task_id, folder, rule)
        ) {strict}"""
    )


def apply_0039(db: Db) -> None:
    """Add an index of effects that did not surely go out."""
    db.define("CREATE INDEX outbox_unclear ON outbox (updated_at) WHERE state IN ('uncertain', 'failed')")


def apply_0040(db: Db) -> None:
    """Add tokens by which programs run operations over HTTP."""
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


def apply_0041(db: Db) -> None:
    """Show people their browsers: how each signed in, from where, and when it was last here."""
    db.define("ALTER TABLE logins ADD COLUMN id {text}")  # by which a browser is named; NULL: a one-time address
    db.define("ALTER TABLE logins ADD COLUMN way {text} NOT NULL DEFAULT 'one_time_link'")
    db.define("ALTER TABLE logins ADD COLUMN device {text} NOT NULL DEFAULT ''")
    db.define("ALTER TABLE logins ADD COLUMN peer {text} NOT NULL DEFAULT ''")  # address; '': a socket file
    db.define("ALTER TABLE logins ADD COLUMN last_seen_at {int} NOT NULL DEFAULT 0")
    for (known,) in db.rows("SELECT hash FROM logins WHERE kind = 'browser'"):
        db.run("UPDATE logins SET id = ?, last_seen_at = created_at WHERE hash = ?", (f"lg-{known[:16]}", known))
    db.define("CREATE UNIQUE INDEX logins_id ON logins (id)")
    db.define("CREATE INDEX logins_user ON logins (user_id, kind)")


def apply_0042(db: Db) -> None:
    """Add passwords of the web page, and the browsers in which a person has signed in before."""
    db.define(
        """CREATE TABLE passwords (
            user_id {text} NOT NULL PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,  -- an identity of the page
            hash {text} NOT NULL,                   -- argon2id, with its salt and its cost
            changed_at {int} NOT NULL
        ) {strict}"""
    )
    db.define(
        """CREATE TABLE known_browsers (
            hash {text} NOT NULL PRIMARY KEY,       -- of a cookie that signs nobody in
            user_id {text} NOT NULL REFERENCES users (id) ON DELETE CASCADE,
            created_at {int} NOT NULL
        ) {strict}"""
    )
    db.define("CREATE INDEX known_browsers_user ON known_browsers (user_id, created_at)")


def apply_0043(db: Db) -> None:
    """Add passkeys: public keys of authenticators by which people sign in to the web page."""
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


def apply_0044(db: Db) -> None:
    """Give webhook links instructions for the agent, and signatures by which their senders prove themselves."""
    db.define("ALTER TABLE tokens ADD COLUMN instructions {text} NOT NULL DEFAULT ''")  # of whoever made the link
    db.define("ALTER TABLE tokens ADD COLUMN signature {text} NOT NULL DEFAULT 'none'")  # none, github, slack, stripe
    db.define("ALTER TABLE tokens ADD COLUMN signing_key {text} NOT NULL DEFAULT ''")  # the name of its secret
    db.define(
        """CREATE TABLE link_signatures (
            token_id {text} NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
            hash {text} NOT NULL,                   -- of a signature that was accepted: it counts once
            seen_at {int} NOT NULL,
            PRIMARY KEY (token_id, hash)
        ) {strict}"""
    )
    db.define("CREATE INDEX link_signatures_age ON link_signatures (token_id, seen_at)")


def apply_0045(db: Db) -> None:
    """Add pages of groups: who sees which path, and which host names lead to a group's pages."""
    db.define(
        """CREATE TABLE web_routes (
            path {text} NOT NULL PRIMARY KEY,       -- /pub/FOLDER/… or /priv/FOLDER/…, without a slash at its end
            folder {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,  -- in whose part the path lies
            access {text} NOT NULL,                 -- public, auth, deny, redirect
            redirect_to {text} NOT NULL DEFAULT '',
            owner {text} NOT NULL DEFAULT '',       -- the group whose agent made it; '': a person
            created_by {text} NOT NULL,
            created_at {int} NOT NULL
        ) {strict}"""
    )
    db.define("CREATE INDEX web_routes_by_folder ON web_routes (folder)")
    db.define(
        """CREATE TABLE web_hosts (
            hostname {text} NOT NULL PRIMARY KEY,
            folder {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            owner {text} NOT NULL DEFAULT '',       -- the group whose agent bound it; '': a person
            created_by {text} NOT NULL,
            created_at {int} NOT NULL
        ) {strict}"""
    )
    db.define("CREATE INDEX web_hosts_by_folder ON web_hosts (folder)")


def apply_0046(db: Db) -> None:
    """Add pages that may show a chat link in a frame, the visitors of such links, and messages that people pinned."""
    db.define("ALTER TABLE tokens ADD COLUMN origins {text} NOT NULL DEFAULT ''")  # of a chat link: between blanks
    db.define(
        """CREATE TABLE link_visitors (
            id {text} NOT NULL PRIMARY KEY,
            hash {text} NOT NULL UNIQUE,
            token_id {text} NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
            identity {text} NOT NULL,  -- as which she writes
            address {text} NOT NULL,  -- her own room, below the link's
            created_at {int} NOT NULL,
            seen_at {int} NOT NULL  -- when she wrote last
        ) {strict}"""
    )
    db.define("CREATE INDEX link_visitors_seen ON link_visitors (token_id, seen_at)")
    db.define("CREATE INDEX link_visitors_identity ON link_visitors (identity)")
    db.define(
        """CREATE TABLE room_pins (
            message_id {int} NOT NULL PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
            instance {text} NOT NULL,
            address {text} NOT NULL,
            pinned_by {text} NOT NULL,
            pinned_at {int} NOT NULL
        ) {strict}"""
    )
    db.define("CREATE INDEX room_pins_room ON room_pins (instance, address, pinned_at)")


def apply_0047(db: Db) -> None:
    """Add tickets of sign-ins that were used: each is good once, at whichever gateway its browser comes back."""
    db.define(
        """CREATE TABLE spent_tickets (
            id {text} NOT NULL PRIMARY KEY,
            expires_at {int} NOT NULL  -- it is good for nothing from then on, and forgotten
        ) {strict}"""
    )
    db.define("CREATE INDEX spent_tickets_expiry ON spent_tickets (expires_at)")


ENDS_0048 = ("answered", "silent", "observed", "refused", "cancelled", "failed")


def apply_0048(db: Db) -> None:
    """Write the indexes of open inbox rows with comparisons.

    For a list of more than two values SQLite fills a table, for each of these indexes, in every statement that writes
    an inbox row. Measured, that was half of its time.
    """
    is_open = " AND ".join(f"state <> '{each}'" for each in ENDS_0048)
    for name in ("inbox_open", "inbox_open_session", "inbox_open_tasks"):
        db.define(f"DROP INDEX {name}")
    db.define(f"CREATE INDEX inbox_open ON inbox (next_at) WHERE {is_open}")
    db.define(f"CREATE INDEX inbox_open_session ON inbox (session_id, seq) WHERE {is_open}")
    db.define(f"CREATE INDEX inbox_open_tasks ON inbox (session_id, seq) WHERE mode = 'task' AND {is_open}")
