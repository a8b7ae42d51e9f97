"""Steps 1 to 7. Never edited: stores have them behind them."""

from gatepost.store.port import Db

TABLES_0001 = (
    """CREATE TABLE groups (
        folder {text} PRIMARY KEY,
        name {text} NOT NULL,
        provider {text} NOT NULL DEFAULT '',      -- '' means: the default of the gateway
        model {text} NOT NULL DEFAULT '',
        sandbox {text} NOT NULL DEFAULT '',
        options {text} NOT NULL DEFAULT '{{}}',   -- JSON: what the provider or sandbox alone understands
        open {int} NOT NULL DEFAULT 1,
        window_messages {int},                    -- NULL: the gateway's default
        window_chars {int},
        created_at {int} NOT NULL
    ) {strict}""",
    """CREATE TABLE rooms (
        id {id},
        instance {text} NOT NULL,
        address {text} NOT NULL,
        name {text} NOT NULL DEFAULT '',
        direct {int} NOT NULL DEFAULT 0,
        policy {text} NOT NULL DEFAULT 'strict',  -- strict | request_approval | public
        created_at {int} NOT NULL,
        UNIQUE (instance, address)
    ) {strict}""",
    """CREATE TABLE users (
        id {text} PRIMARY KEY,                    -- the sender's address, telegram:user/9
        name {text} NOT NULL DEFAULT '',
        created_at {int} NOT NULL
    ) {strict}""",
    """CREATE TABLE user_roles (
        user_id {text} NOT NULL REFERENCES users (id) ON DELETE CASCADE,
        role {text} NOT NULL,                     -- owner | admin
        folder {text} NOT NULL DEFAULT '',        -- '' means everywhere; never NULL, so a role cannot be given twice
        granted_by {text} NOT NULL,
        granted_at {int} NOT NULL,
        PRIMARY KEY (user_id, role, folder)
    ) {strict}""",
    """CREATE TABLE group_members (
        user_id {text} NOT NULL REFERENCES users (id) ON DELETE CASCADE,
        folder {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
        added_by {text} NOT NULL,
        added_at {int} NOT NULL,
        PRIMARY KEY (user_id, folder)
    ) {strict}""",
    """CREATE TABLE routes (
        id {id},
        seq {int} NOT NULL,
        match {text} NOT NULL,
        target {text} NOT NULL,
        folder {text} REFERENCES groups (folder) ON DELETE CASCADE,  -- NULL: drop, builtin, or a {{sender}} template
        mode {text} NOT NULL DEFAULT 'per-thread',                   -- session mode
        also {int} NOT NULL DEFAULT 0,
        window_messages {int},
        window_chars {int},
        ttl_s {int},                                                 -- engagement; NULL: the default
        created_by {text} NOT NULL,
        created_at {int} NOT NULL
    ) {strict}""",
    "CREATE INDEX routes_order ON routes (seq, id)",
    """CREATE TABLE destinations (
        folder {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
        name {text} NOT NULL,
        kind {text} NOT NULL,                     -- room | group
        instance {text} NOT NULL DEFAULT '',
        address {text} NOT NULL DEFAULT '',
        thread {text} NOT NULL DEFAULT '',
        target_folder {text} NOT NULL DEFAULT '',
        created_at {int} NOT NULL,
        PRIMARY KEY (folder, name)
    ) {strict}""",
    """CREATE TABLE sessions (
        id {text} PRIMARY KEY,
        key {text} NOT NULL,                      -- computed from the session mode
        folder {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
        mode {text} NOT NULL,
        instance {text} NOT NULL,
        address {text} NOT NULL,
        thread {text} NOT NULL,
        provider {text} NOT NULL DEFAULT '',      -- '' means: the group's
        title {text} NOT NULL DEFAULT '',
        state {text} NOT NULL DEFAULT 'idle',     -- initializing | idle | running | error | interrupted | closed
        next_seq {int} NOT NULL DEFAULT 1,
        window_messages {int},                    -- observed context that its route shows; NULL: as its group says
        window_chars {int},
        owner {text} NOT NULL DEFAULT '',
        lease_until {int} NOT NULL DEFAULT 0,
        epoch {int} NOT NULL DEFAULT 0,
        created_at {int} NOT NULL,
        active_at {int} NOT NULL,
        closed_at {int}
    ) {strict}""",
    "CREATE UNIQUE INDEX sessions_live_key ON sessions (key) WHERE closed_at IS NULL",
    "CREATE INDEX sessions_folder ON sessions (folder, active_at)",
    """CREATE TABLE conversations (
        session_id {text} NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        provider {text} NOT NULL,
        conversation {text} NOT NULL,
        updated_at {int} NOT NULL,
        PRIMARY KEY (session_id, provider)
    ) {strict}""",
    """CREATE TABLE turns (
        id {text} PRIMARY KEY,
        session_id {text} NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        folder {text} NOT NULL,
        provider {text} NOT NULL,
        instance {text} NOT NULL,                 -- where its results go: kept on the host
        address {text} NOT NULL,
        thread {text} NOT NULL,
        rights {text} NOT NULL,
        attempt {int} NOT NULL DEFAULT 1,
        spared {int} NOT NULL DEFAULT 0,          -- attempts that do not count: ended in good order
        state {text} NOT NULL,                    -- claimed | begun | interrupted | done | failed
        conversation {text} NOT NULL DEFAULT '',  -- set once the provider has named it in this turn
        error {text} NOT NULL DEFAULT '',
        usage {text} NOT NULL DEFAULT '{{}}',
        next_at {int} NOT NULL,
        owner {text} NOT NULL,
        lease_until {int} NOT NULL,
        epoch {int} NOT NULL DEFAULT 1,
        started_at {int} NOT NULL,
        begun_at {int},
        ended_at {int}
    ) {strict}""",
    "CREATE UNIQUE INDEX turns_open ON turns (session_id) WHERE ended_at IS NULL",
    """CREATE TABLE messages (
        id {id},
        instance {text} NOT NULL,
        address {text} NOT NULL,
        thread {text} NOT NULL DEFAULT '',
        direction {text} NOT NULL,                -- in | out
        platform_id {text},                       -- of an outgoing one: learnt once, when it is sent
        event {text} NOT NULL DEFAULT 'message',
        kind {text} NOT NULL,
        verb {text} NOT NULL DEFAULT 'message',
        sender {text} NOT NULL,
        sender_name {text} NOT NULL DEFAULT '',
        text {text} NOT NULL,
        content {text} NOT NULL DEFAULT '{{}}',   -- JSON
        reply_to {text} NOT NULL DEFAULT '',
        folder {text} NOT NULL DEFAULT '',        -- whose agent wrote it, for an outgoing one
        at {int} NOT NULL,                        -- when the platform says that it happened
        accepted_at {int} NOT NULL
    ) {strict}""",
    "CREATE UNIQUE INDEX messages_identity ON messages (instance, address, direction, platform_id, event)",
    "CREATE INDEX messages_room ON messages (instance, address, id)",
    """CREATE TABLE inbox (
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
    ) {strict}""",
    "CREATE UNIQUE INDEX inbox_target ON inbox (message_id, session_id)",
    "CREATE UNIQUE INDEX inbox_seq ON inbox (session_id, seq) WHERE session_id IS NOT NULL",
    "CREATE INDEX inbox_open ON inbox (next_at)"
    " WHERE state NOT IN ('answered', 'silent', 'observed', 'refused', 'cancelled', 'failed')",
    "CREATE INDEX inbox_open_session ON inbox (session_id, seq)"
    " WHERE state NOT IN ('answered', 'silent', 'observed', 'refused', 'cancelled', 'failed')",
    "CREATE INDEX inbox_observed ON inbox (session_id, seq) WHERE mode = 'observe' AND given = 0",
    "CREATE INDEX inbox_turn ON inbox (turn_id) WHERE turn_id IS NOT NULL",
    """CREATE TABLE outbox (
        id {id},
        key {text} NOT NULL UNIQUE,               -- one effect: results by turn, attempt, part; tools by call
        message_id {int} NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
        session_id {text} REFERENCES sessions (id) ON DELETE SET NULL,
        seq {int} NOT NULL DEFAULT 0,
        turn_id {text} REFERENCES turns (id) ON DELETE SET NULL,
        attempt {int} NOT NULL DEFAULT 1,
        origin {text} NOT NULL,                   -- result | tool | notice | status
        op {text} NOT NULL,
        instance {text} NOT NULL,
        address {text} NOT NULL,
        thread {text} NOT NULL DEFAULT '',
        target_id {int} REFERENCES messages (id), -- the message edited, reacted to, replied to
        payload {text} NOT NULL,                  -- JSON: text, reaction, files
        state {text} NOT NULL,
        reason {text} NOT NULL DEFAULT '',
        tries {int} NOT NULL DEFAULT 0,
        next_at {int},
        owner {text} NOT NULL DEFAULT '',
        lease_until {int} NOT NULL DEFAULT 0,
        epoch {int} NOT NULL DEFAULT 0,
        created_at {int} NOT NULL,
        updated_at {int} NOT NULL
    ) {strict}""",
    "CREATE INDEX outbox_open ON outbox (instance, address, id) WHERE state IN ('pending', 'sending')",
    "CREATE INDEX outbox_turn ON outbox (turn_id) WHERE turn_id IS NOT NULL",
    "CREATE INDEX outbox_message ON outbox (message_id)",
    """CREATE TABLE steps (
        id {id},
        message_id {int} NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
        row_id {int},                             -- the inbox or outbox row that moved
        at {int} NOT NULL,
        step {text} NOT NULL,
        detail {text} NOT NULL DEFAULT ''
    ) {strict}""",
    "CREATE INDEX steps_message ON steps (message_id, id)",
    """CREATE TABLE audit (
        seq {id},
        at {int} NOT NULL,
        actor {text} NOT NULL,
        action {text} NOT NULL,
        verdict {text} NOT NULL,
        details {text},                           -- JSON; NULL once erased, the chain holds all the same
        details_hash {text} NOT NULL,
        previous {text} NOT NULL,
        hash {text} NOT NULL
    ) {strict}""",
    """CREATE TABLE logins (
        hash {text} PRIMARY KEY,                  -- of a one-time token or of a browser's session
        kind {text} NOT NULL,                     -- once | browser
        user_id {text} NOT NULL REFERENCES users (id) ON DELETE CASCADE,
        expires_at {int} NOT NULL,
        created_at {int} NOT NULL
    ) {strict}""",
)


def apply_0001(db: Db) -> None:
    """Add the spine: groups and rooms, people, routes, sessions and turns, the ledger (messages, inbox, outbox),
    audit."""
    for table in TABLES_0001:
        db.define(table)


TABLES_0002 = (
    """CREATE TABLE costs (
        id {id},
        key {text} NOT NULL UNIQUE,               -- reservation/<id>, or the call of a tool: booked once
        at {int} NOT NULL,                        -- when it was let through: the day and month that it counts in
        booked_at {int} NOT NULL,
        folder {text} NOT NULL,
        user_id {text} NOT NULL,                  -- '': nobody's
        session_id {text} NOT NULL,
        turn_id {text} NOT NULL,
        model {text} NOT NULL,
        source {text} NOT NULL,                   -- proxy | external
        measured {int} NOT NULL,                  -- 0: booked in full, because the usage was never learnt
        input {int} NOT NULL,
        output {int} NOT NULL,
        cache_read {int} NOT NULL,
        cache_write {int} NOT NULL,
        micro {int} NOT NULL CHECK (micro >= 0)   -- millionths of a USD
    ) {strict}""",
    "CREATE INDEX costs_at ON costs (at)",
    """CREATE TABLE budgets (
        kind {text} NOT NULL,                     -- group | user | instance
        name {text} NOT NULL,                     -- a folder, a user, '' for the instance
        period {text} NOT NULL,                   -- day | month, UTC
        micro {int} NOT NULL CHECK (micro >= 0),
        set_by {text} NOT NULL,
        set_at {int} NOT NULL,
        PRIMARY KEY (kind, name, period)
    ) {strict}""",
    """CREATE TABLE spending (
        kind {text} NOT NULL,
        name {text} NOT NULL,
        period {text} NOT NULL,
        starts_at {int} NOT NULL,
        spent {int} NOT NULL DEFAULT 0,
        reserved {int} NOT NULL DEFAULT 0 CHECK (reserved >= 0),
        told_near {int} NOT NULL DEFAULT 0,       -- 1: the note at 80 % was given
        told_stop {int} NOT NULL DEFAULT 0,       -- 1: the message at the end was given
        PRIMARY KEY (kind, name, period, starts_at)
    ) {strict}""",
    """CREATE TABLE reservations (
        id {id},
        at {int} NOT NULL,
        folder {text} NOT NULL,
        user_id {text} NOT NULL,
        session_id {text} NOT NULL,
        turn_id {text} NOT NULL,
        model {text} NOT NULL,
        worst {int} NOT NULL CHECK (worst >= 0)   -- millionths of a USD
    ) {strict}""",
)


def apply_0002(db: Db) -> None:
    """Add money: costs (spent), budgets (the limits), reservations (for calls in flight).

    `spending` adds costs and reservations up by scope and period, so that a reservation is judged by a few rows.
    Nothing here refers to a group or a session by key: spent money stays spent when they are gone.
    """
    for table in TABLES_0002:
        db.define(table)


TABLES_0003 = (
    """CREATE TABLE secrets (
        scope {text} NOT NULL,                    -- '' the gateway | folder:acme/eng | user:telegram:user/9
        name {text} NOT NULL,
        folder {text} REFERENCES groups (folder) ON DELETE CASCADE,
        user_id {text} REFERENCES users (id) ON DELETE CASCADE,
        key_id {text} NOT NULL,                   -- which key of the ring
        nonce {blob} NOT NULL,
        sealed {blob} NOT NULL,                   -- AES-GCM; scope, name and key_id are sealed in with the value
        created_at {int} NOT NULL,
        updated_at {int} NOT NULL,
        used_at {int},
        PRIMARY KEY (scope, name)
    ) {strict}""",
    """CREATE TABLE secret_uses (
        id {id},
        at {int} NOT NULL,
        name {text} NOT NULL,
        scope {text},                             -- whose it was; NULL: nobody above the caller has one
        folder {text} NOT NULL,                   -- for which group
        user_id {text} NOT NULL DEFAULT '',
        purpose {text} NOT NULL DEFAULT '',
        outcome {text} NOT NULL                   -- used | missing | unreadable
    ) {strict}""",
)


def apply_0003(db: Db) -> None:
    """Add secrets, sealed with a key that is not in the store, and the record of their uses, which holds no value."""
    for table in TABLES_0003:
        db.define(table)


TABLES_0004 = (
    """CREATE TABLE egress_rules (
        id {id},
        folder {text} REFERENCES groups (folder) ON DELETE CASCADE,
        host {text} NOT NULL,                     -- a name covers its sub-domains; '*.name' these alone; '*' every host
        port {int} NOT NULL DEFAULT 0,            -- 0: allowed for 80 and 443, denied for every port
        allow {int} NOT NULL,                     -- 0 | 1; a denial wins
        local {int} NOT NULL DEFAULT 0,           -- 1: the host may have an address of this machine or network
        created_by {text} NOT NULL,
        created_at {int} NOT NULL
    ) {strict}""",
    "CREATE UNIQUE INDEX egress_rules_once ON egress_rules (COALESCE(folder, ''), host, port)",
    """CREATE TABLE egress_log (
        id {id},
        at {int} NOT NULL,                        -- the first time
        last_at {int} NOT NULL,
        times {int} NOT NULL DEFAULT 1,
        folder {text} NOT NULL,
        session_id {text} NOT NULL,
        target {text} NOT NULL,                   -- host:port, or a model endpoint
        verdict {text} NOT NULL,                  -- allowed | denied | failed
        reason {text} NOT NULL
    ) {strict}""",
    "CREATE UNIQUE INDEX egress_log_once ON egress_log (session_id, target, verdict, reason)",
    "CREATE INDEX egress_log_folder ON egress_log (folder, id)",
)


def apply_0004(db: Db) -> None:
    """Add egress: the hosts that a group's sandboxes may reach, and their tries. `folder` NULL is the whole
    instance."""
    for table in TABLES_0004:
        db.define(table)


def apply_0005(db: Db) -> None:
    """Give a group limits of its sandboxes, and host folders that they may see."""
    db.define("ALTER TABLE groups ADD COLUMN limits {text} NOT NULL DEFAULT '{{}}'")  # JSON: name → number
    db.define("ALTER TABLE groups ADD COLUMN mounts {text} NOT NULL DEFAULT '[]'")  # JSON: source:target[:rw] …


def apply_0006(db: Db) -> None:
    """Add switches of the whole instance. A row is a switch that is on, over restarts, until it is turned off."""
    db.define(
        """CREATE TABLE switches (
        name {text} PRIMARY KEY,                  -- panic
        reason {text} NOT NULL,                   -- the operator's own words, '' for none
        turned_by {text} NOT NULL,
        since {int} NOT NULL
    ) {strict}"""
    )


TABLES_0007 = (
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


def apply_0007(db: Db) -> None:
    """Add secrets that are bound to a host: the gateway puts them into requests to it.

    `folder` NULL is the whole instance.
    """
    for table in TABLES_0007:
        db.define(table)
