-- A new store, as the folded steps (0058_failed_calls is the last) leave it on an empty one; later steps follow.
-- Printed by scripts/print_baseline.py, but for the section of PostgreSQL. Types are those of `Db.define`.

-- [both]
CREATE TABLE groups (
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
    , limits {text} NOT NULL DEFAULT '{{}}', mounts {text} NOT NULL DEFAULT '[]') {strict};
CREATE TABLE rooms (
        id {id},
        instance {text} NOT NULL,
        address {text} NOT NULL,
        name {text} NOT NULL DEFAULT '',
        direct {int} NOT NULL DEFAULT 0,
        policy {text} NOT NULL DEFAULT 'strict',  -- strict | request_approval | public
        created_at {int} NOT NULL,
        UNIQUE (instance, address)
    ) {strict};
CREATE TABLE users (
        id {text} PRIMARY KEY,                    -- the sender's address, telegram:user/9
        name {text} NOT NULL DEFAULT '',
        created_at {int} NOT NULL
    ) {strict};
CREATE TABLE user_roles (
        user_id {text} NOT NULL REFERENCES users (id) ON DELETE CASCADE,
        role {text} NOT NULL,                     -- owner | admin
        folder {text} NOT NULL DEFAULT '',        -- '' means everywhere; never NULL, so a role cannot be given twice
        granted_by {text} NOT NULL,
        granted_at {int} NOT NULL,
        PRIMARY KEY (user_id, role, folder)
    ) {strict};
CREATE TABLE group_members (
        user_id {text} NOT NULL REFERENCES users (id) ON DELETE CASCADE,
        folder {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
        added_by {text} NOT NULL,
        added_at {int} NOT NULL,
        PRIMARY KEY (user_id, folder)
    ) {strict};
CREATE TABLE routes (
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
    ) {strict};
CREATE INDEX routes_order ON routes (seq, id);
CREATE TABLE destinations (
        folder {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
        name {text} NOT NULL,
        kind {text} NOT NULL,                     -- room | group
        instance {text} NOT NULL DEFAULT '',
        address {text} NOT NULL DEFAULT '',
        thread {text} NOT NULL DEFAULT '',
        target_folder {text} NOT NULL DEFAULT '',
        created_at {int} NOT NULL,
        PRIMARY KEY (folder, name)
    ) {strict};
CREATE TABLE sessions (
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
    , agent {int} NOT NULL DEFAULT 0, model {text} NOT NULL DEFAULT '', permission_mode {text} NOT NULL DEFAULT '', cwd {text} NOT NULL DEFAULT '', labels {text} NOT NULL DEFAULT '{{}}', parent {text} NOT NULL DEFAULT '', notify {int} NOT NULL DEFAULT 0, archived_at {int}, reset_at {int}) {strict};
CREATE UNIQUE INDEX sessions_live_key ON sessions (key) WHERE closed_at IS NULL;
CREATE INDEX sessions_folder ON sessions (folder, active_at);
CREATE TABLE conversations (
        session_id {text} NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        provider {text} NOT NULL,
        conversation {text} NOT NULL,
        updated_at {int} NOT NULL,
        PRIMARY KEY (session_id, provider)
    ) {strict};
CREATE TABLE turns (
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
    , said_bytes {int} NOT NULL DEFAULT 0, topic {text} NOT NULL DEFAULT '') {strict};
CREATE UNIQUE INDEX turns_open ON turns (session_id) WHERE ended_at IS NULL;
CREATE TABLE messages (
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
    , topic {text} NOT NULL DEFAULT '', revision {text} NOT NULL DEFAULT '', forward_from {text}) {strict};
CREATE UNIQUE INDEX messages_identity ON messages (instance, address, direction, platform_id, event);
CREATE INDEX messages_room ON messages (instance, address, id);
CREATE TABLE inbox (
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
    , continues {text} NOT NULL DEFAULT '') {strict};
CREATE UNIQUE INDEX inbox_target ON inbox (message_id, session_id);
CREATE UNIQUE INDEX inbox_seq ON inbox (session_id, seq) WHERE session_id IS NOT NULL;
CREATE INDEX inbox_observed ON inbox (session_id, seq) WHERE mode = 'observe' AND given = 0;
CREATE INDEX inbox_turn ON inbox (turn_id) WHERE turn_id IS NOT NULL;
CREATE TABLE outbox (
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
    , digest {text} NOT NULL DEFAULT '', answers {int}, urgent {int} NOT NULL DEFAULT 0) {strict};
CREATE INDEX outbox_turn ON outbox (turn_id) WHERE turn_id IS NOT NULL;
CREATE INDEX outbox_message ON outbox (message_id);
CREATE TABLE steps (
        id {id},
        message_id {int} NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
        row_id {int},                             -- the inbox or outbox row that moved
        at {int} NOT NULL,
        step {text} NOT NULL,
        detail {text} NOT NULL DEFAULT ''
    ) {strict};
CREATE INDEX steps_message ON steps (message_id, id);
CREATE TABLE audit (
        seq {id},
        at {int} NOT NULL,
        actor {text} NOT NULL,
        action {text} NOT NULL,
        verdict {text} NOT NULL,
        details {text},                           -- JSON; NULL once erased, the chain holds all the same
        details_hash {text} NOT NULL,
        previous {text} NOT NULL,
        hash {text} NOT NULL
    , gateway {text} NOT NULL DEFAULT '', number {int}) {strict};
CREATE TABLE logins (
        hash {text} PRIMARY KEY,                  -- of a one-time token or of a browser's session
        kind {text} NOT NULL,                     -- once | browser
        user_id {text} NOT NULL REFERENCES users (id) ON DELETE CASCADE,
        expires_at {int} NOT NULL,
        created_at {int} NOT NULL
    , id {text}, way {text} NOT NULL DEFAULT 'one_time_link', device {text} NOT NULL DEFAULT '', peer {text} NOT NULL DEFAULT '', last_seen_at {int} NOT NULL DEFAULT 0) {strict};
CREATE TABLE costs (
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
    ) {strict};
CREATE INDEX costs_at ON costs (at);
CREATE TABLE budgets (
        kind {text} NOT NULL,                     -- group | user | instance
        name {text} NOT NULL,                     -- a folder, a user, '' for the instance
        period {text} NOT NULL,                   -- day | month, UTC
        micro {int} NOT NULL CHECK (micro >= 0),
        set_by {text} NOT NULL,
        set_at {int} NOT NULL,
        PRIMARY KEY (kind, name, period)
    ) {strict};
CREATE TABLE spending (
        kind {text} NOT NULL,
        name {text} NOT NULL,
        period {text} NOT NULL,
        starts_at {int} NOT NULL,
        spent {int} NOT NULL DEFAULT 0,
        reserved {int} NOT NULL DEFAULT 0 CHECK (reserved >= 0),
        told_near {int} NOT NULL DEFAULT 0,       -- 1: the note at 80 % was given
        told_stop {int} NOT NULL DEFAULT 0, refuses {int} NOT NULL DEFAULT 0,       -- 1: the message at the end was given
        PRIMARY KEY (kind, name, period, starts_at)
    ) {strict};
CREATE TABLE reservations (
        id {id},
        at {int} NOT NULL,
        folder {text} NOT NULL,
        user_id {text} NOT NULL,
        session_id {text} NOT NULL,
        turn_id {text} NOT NULL,
        model {text} NOT NULL,
        worst {int} NOT NULL CHECK (worst >= 0)   -- millionths of a USD
    , gateway {text} NOT NULL DEFAULT '', input {int} NOT NULL DEFAULT 0, output {int} NOT NULL DEFAULT 0) {strict};
CREATE TABLE secret_uses (
        id {id},
        at {int} NOT NULL,
        name {text} NOT NULL,
        scope {text},                             -- whose it was; NULL: nobody above the caller has one
        folder {text} NOT NULL,                   -- for which group
        user_id {text} NOT NULL DEFAULT '',
        purpose {text} NOT NULL DEFAULT '',
        outcome {text} NOT NULL                   -- used | missing | unreadable
    ) {strict};
CREATE TABLE egress_rules (
        id {id},
        folder {text} REFERENCES groups (folder) ON DELETE CASCADE,
        host {text} NOT NULL,                     -- a name covers its sub-domains; '*.name' these alone; '*' every host
        port {int} NOT NULL DEFAULT 0,            -- 0: allowed for 80 and 443, denied for every port
        allow {int} NOT NULL,                     -- 0 | 1; a denial wins
        local {int} NOT NULL DEFAULT 0,           -- 1: the host may have an address of this machine or network
        created_by {text} NOT NULL,
        created_at {int} NOT NULL
    ) {strict};
CREATE UNIQUE INDEX egress_rules_once ON egress_rules (COALESCE(folder, ''), host, port);
CREATE TABLE egress_log (
        id {id},
        at {int} NOT NULL,                        -- the first time
        last_at {int} NOT NULL,
        times {int} NOT NULL DEFAULT 1,
        folder {text} NOT NULL,
        session_id {text} NOT NULL,
        target {text} NOT NULL,                   -- host:port, or a model endpoint
        verdict {text} NOT NULL,                  -- allowed | denied | failed
        reason {text} NOT NULL
    ) {strict};
CREATE UNIQUE INDEX egress_log_once ON egress_log (session_id, target, verdict, reason);
CREATE INDEX egress_log_folder ON egress_log (folder, id);
CREATE TABLE switches (
        name {text} PRIMARY KEY,                  -- panic
        reason {text} NOT NULL,                   -- the operator's own words, '' for none
        turned_by {text} NOT NULL,
        since {int} NOT NULL
    ) {strict};
CREATE TABLE secret_bindings (
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
    ) {strict};
CREATE UNIQUE INDEX secret_bindings_once ON secret_bindings (COALESCE(folder, ''), scheme, host, port, header);
CREATE TABLE grants (
            id {id},
            folder {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            rule {text} NOT NULL,
            added_by {text} NOT NULL,
            added_at {int} NOT NULL
        ) {strict};
CREATE INDEX grants_folder ON grants (folder, id);
CREATE TABLE acl (
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
        ) {strict};
CREATE TABLE memberships (
            child {text} NOT NULL,
            parent {text} NOT NULL,
            added_by {text} NOT NULL,
            added_at {int} NOT NULL,
            PRIMARY KEY (child, parent),
            CHECK (child <> parent)
        ) {strict};
CREATE INDEX sessions_address ON sessions (address);
CREATE TABLE watchers (
            observer {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            source {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            added_by {text} NOT NULL,
            added_at {int} NOT NULL,
            PRIMARY KEY (source, observer),
            CHECK (observer <> source)
        ) {strict};
CREATE INDEX turns_session ON turns (session_id, started_at);
CREATE INDEX messages_said ON messages (instance, address, at, id);
CREATE INDEX inbox_failed ON inbox (folder) WHERE state = 'failed';
CREATE INDEX sessions_agents ON sessions (active_at) WHERE agent = 1;
CREATE TABLE timeline (
            session_id {text} NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
            seq {int} NOT NULL,
            at {int} NOT NULL,
            turn_id {text} NOT NULL DEFAULT '',
            kind {text} NOT NULL,
            data {text} NOT NULL,
            PRIMARY KEY (session_id, seq)
        ) {strict};
CREATE TABLE worktrees (
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
        ) {strict};
CREATE TABLE trusted_setups (
            project {text} NOT NULL,
            digest {text} NOT NULL,
            trusted_by {text} NOT NULL,
            trusted_at {int} NOT NULL,
            PRIMARY KEY (project, digest)
        ) {strict};
CREATE TABLE session_tokens (
            session_id {text} NOT NULL PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
            digest {text} NOT NULL UNIQUE,
            made_at {int} NOT NULL
        ) {strict};
CREATE TABLE secrets (
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
        ) {strict};
CREATE TABLE origins (
            message_id {int} NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
            ordinal {int} NOT NULL,                     -- 0: who pays
            person {text} NOT NULL,                 -- '': nobody
            instance {text} NOT NULL,
            address {text} NOT NULL,
            thread {text} NOT NULL,
            depth {int} NOT NULL,                       -- the same in all rows of a message
            PRIMARY KEY (message_id, ordinal)
        ) {strict};
CREATE TABLE given_files (
            key {text} NOT NULL PRIMARY KEY,        -- of the effect that they belong to
            folder {text} NOT NULL,
            session_id {text} NOT NULL,
            turn_id {text} NOT NULL,                -- '': outside of a turn
            bytes {int} NOT NULL,                       -- as they are on the host: holes count
            at {int} NOT NULL
        ) {strict};
CREATE INDEX given_files_group ON given_files (folder, at);
CREATE INDEX given_files_turn ON given_files (session_id, turn_id);
CREATE TABLE calls (
            turn_id {text} NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
            digest {text} NOT NULL,                 -- of the tool's name and its arguments
            number {int} NOT NULL,                  -- 1 for the first such call of the turn
            settled {int} NOT NULL DEFAULT 0,       -- 1: the agent went on after its answer, and does not repeat it
            PRIMARY KEY (turn_id, digest, number)
        ) {strict};
CREATE TABLE uids (
            world {text} NOT NULL PRIMARY KEY,      -- the first part of a group's folder
            uid {int} NOT NULL UNIQUE,
            assigned_at {int} NOT NULL
        ) {strict};
CREATE INDEX outbox_session ON outbox (session_id, seq) WHERE session_id IS NOT NULL;
CREATE INDEX outbox_target ON outbox (target_id) WHERE target_id IS NOT NULL;
CREATE INDEX destinations_room ON destinations (folder, instance, address);
CREATE INDEX outbox_said ON outbox (turn_id, digest, answers) WHERE turn_id IS NOT NULL;
CREATE TABLE rule_state (only {int} NOT NULL PRIMARY KEY CHECK (only = 1), name {text} NOT NULL, places {text} NOT NULL DEFAULT 'first') {strict};
CREATE TABLE requests (
    id {text} NOT NULL PRIMARY KEY,
    kind {text} NOT NULL,
    folder {text} NOT NULL DEFAULT '',           -- the group that it is about
    session_id {text} REFERENCES sessions (id) ON DELETE CASCADE,
    turn_id {text} NOT NULL DEFAULT '',
    name {text} NOT NULL,                        -- by which whoever asks knows it again
    digest {text} NOT NULL DEFAULT '',           -- of everything that was asked
    about {text} NOT NULL DEFAULT '',            -- what an answer that lasts speaks of
    tool {text} NOT NULL DEFAULT '',
    input {text} NOT NULL DEFAULT '{{}}',
    cut {int} NOT NULL DEFAULT 0,                -- 1: `input` is an excerpt, the asker holds the whole
    follow_up {text} NOT NULL DEFAULT '',
    next_mode {text} NOT NULL DEFAULT '',
    instance {text} NOT NULL DEFAULT '',         -- the room that it came from
    address {text} NOT NULL DEFAULT '',
    thread {text} NOT NULL DEFAULT '',
    rights {text} NOT NULL DEFAULT '',           -- of the turn that asks
    why {text} NOT NULL DEFAULT '',              -- a person must decide
    rule {text} NOT NULL DEFAULT '',             -- that "always" writes
    state {text} NOT NULL,
    answer {text} NOT NULL DEFAULT '{{}}',
    lasts {text} NOT NULL DEFAULT 'once',
    reason {text} NOT NULL DEFAULT '',
    quorum {int} NOT NULL DEFAULT 1,
    asked_at {int} NOT NULL,
    expires_at {int},
    next_at {int},                               -- when somebody else is asked, or it expires
    answered_at {int},
    answered_by {text} NOT NULL DEFAULT '',
    settled_at {int},                            -- when what follows from the answer was done
    notified_at {int}                                -- when whoever asked was told
, asker {text} NOT NULL DEFAULT 'person', editable {int} NOT NULL DEFAULT 0, rooms {text} NOT NULL DEFAULT '{{}}', preview {text} NOT NULL DEFAULT '', bound {text} NOT NULL DEFAULT '{{}}', failure {text} NOT NULL DEFAULT '') {strict};
CREATE UNIQUE INDEX requests_of_session ON requests (session_id, turn_id, name, digest) WHERE session_id IS NOT NULL;
CREATE UNIQUE INDEX requests_of_people ON requests (kind, folder, name) WHERE session_id IS NULL AND state = 'pending';
CREATE INDEX requests_by_name ON requests (name, folder, asked_at) WHERE session_id IS NULL;
CREATE INDEX inbox_held ON inbox (folder, id) WHERE state = 'held';
CREATE INDEX requests_pending ON requests (asked_at) WHERE state = 'pending';
CREATE INDEX requests_pending_session ON requests (session_id) WHERE state = 'pending';
CREATE INDEX requests_due ON requests (next_at) WHERE state = 'pending';
CREATE INDEX requests_unnotified ON requests (answered_at) WHERE state <> 'pending' AND notified_at IS NULL;
CREATE INDEX requests_lasting ON requests (session_id, about) WHERE state = 'allowed' AND lasts = 'session';
CREATE TABLE request_cards (
            token {text} NOT NULL PRIMARY KEY,           -- what the buttons of a card carry, and nothing else
            request_id {text} NOT NULL REFERENCES requests (id) ON DELETE CASCADE,
            person {text} NOT NULL,
            instance {text} NOT NULL,
            address {text} NOT NULL,
            message_id {int} NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
            shown_at {int} NOT NULL,
            open {int} NOT NULL DEFAULT 1                -- 0: the card says what was decided
        , part {int} NOT NULL DEFAULT 0, whole {int} NOT NULL DEFAULT 0) {strict};
CREATE INDEX request_cards_request ON request_cards (request_id);
CREATE INDEX request_cards_open ON request_cards (instance, address) WHERE open = 1;
CREATE INDEX request_cards_message ON request_cards (message_id);
CREATE TABLE request_votes (
            request_id {text} NOT NULL REFERENCES requests (id) ON DELETE CASCADE,
            person {text} NOT NULL,
            voted_at {int} NOT NULL,
            PRIMARY KEY (request_id, person)
        ) {strict};
CREATE TABLE direct_rooms (
            user_id {text} NOT NULL,
            instance {text} NOT NULL,
            address {text} NOT NULL,
            seen_at {int} NOT NULL,
            PRIMARY KEY (user_id, instance)
        ) {strict};
CREATE TABLE identities (
            identity {text} NOT NULL PRIMARY KEY,
            person {text} NOT NULL REFERENCES users (id) ON DELETE CASCADE,  -- the first identity of the same person
            paired_at {int} NOT NULL,
            paired_by {text} NOT NULL
        ) {strict};
CREATE INDEX identities_person ON identities (person);
CREATE TABLE pairing_codes (
            hash {text} NOT NULL PRIMARY KEY,
            person {text} NOT NULL REFERENCES users (id) ON DELETE CASCADE,
            created_by {text} NOT NULL,
            expires_at {int} NOT NULL,
            used_at {int},
            used_by {text} NOT NULL DEFAULT ''
        ) {strict};
CREATE TABLE pairing_guesses (
            sender {text} NOT NULL PRIMARY KEY,
            guesses {int} NOT NULL,
            first_at {int} NOT NULL
        ) {strict};
CREATE INDEX requests_open_session ON requests (session_id, turn_id) WHERE notified_at IS NULL;
CREATE INDEX requests_pending_folder ON requests (folder) WHERE state = 'pending';
CREATE TABLE session_notes (
            session_id {text} NOT NULL PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
            pinned {text} NOT NULL DEFAULT '',          -- shown to the agent with each turn
            pinned_by {text} NOT NULL DEFAULT '',       -- an identity
            summary {text} NOT NULL DEFAULT ''          -- of what was said before; shown to a new conversation
        , transcript {text} NOT NULL DEFAULT '') {strict};
CREATE INDEX costs_session ON costs (session_id, at, micro);
CREATE TABLE tokens (
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
        , instructions {text} NOT NULL DEFAULT '', signature {text} NOT NULL DEFAULT 'none', signing_key {text} NOT NULL DEFAULT '', origins {text} NOT NULL DEFAULT '') {strict};
CREATE INDEX tokens_folder ON tokens (folder);
CREATE INDEX tokens_identity ON tokens (identity) WHERE identity <> '';
CREATE TABLE entrances (
            id {id},
            instance {text} NOT NULL,
            senders {text} NOT NULL,  -- a glob: who may come in here
            folder {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,  -- their groups are made below it
            per_day {int} NOT NULL,  -- how many come in without anybody's word
            created_by {text} NOT NULL,
            created_at {int} NOT NULL,
            UNIQUE (instance, senders)
        ) {strict};
CREATE TABLE newcomers (
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
        ) {strict};
CREATE INDEX newcomers_state ON newcomers (state, asked_at);
CREATE INDEX newcomers_admitted ON newcomers (entrance_id, admitted_at);
CREATE INDEX requests_by_kind ON requests (kind, folder, asked_at);
CREATE INDEX requests_by_kind_and_name ON requests (kind, folder, name, asked_at);
CREATE TABLE channel_instances (
            instance {text} NOT NULL PRIMARY KEY,
            kind {text} NOT NULL,
            settings {text} NOT NULL,  -- JSON, by the last names of the settings; secrets are in `secrets`
            is_on {int} NOT NULL,
            created_at {int} NOT NULL,
            created_by {text} NOT NULL
        ) {strict};
CREATE TABLE channel_cursors (
            instance {text} NOT NULL,
            name {text} NOT NULL,  -- '' for a channel that reads one stream
            received {text} NOT NULL,  -- all up to here is durable
            acknowledged {text} NOT NULL,  -- and the platform was told so up to here
            updated_at {int} NOT NULL,
            PRIMARY KEY (instance, name)
        ) {strict};
CREATE TABLE tasks (
            id {text} NOT NULL PRIMARY KEY,
            folder {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            instance {text} NOT NULL,                   -- the room where it runs and speaks
            address {text} NOT NULL,
            thread {text} NOT NULL,
            prompt {text} NOT NULL,                     -- wakes the agent; '': there is a text
            text {text} NOT NULL,                       -- is delivered as it is, and wakes nobody
            script {text} NOT NULL,                     -- runs in the sandbox before the prompt; '': none
            kind {text} NOT NULL,                       -- cron | every | once
            schedule {text} NOT NULL,                   -- as it was written
            every {int} NOT NULL,                       -- microseconds between two times; 0: of another kind
            zone {text} NOT NULL,
            context {text} NOT NULL,                    -- group | isolated
            missed {text} NOT NULL,                     -- skip | once | all
            state {text} NOT NULL,                      -- active | paused | completed | cancelled
            reason {text} NOT NULL,                     -- why it is not active
            next_at {int},                              -- NULL: it does not fire
            max_runs {int},
            expires_at {int},
            runs {int} NOT NULL,                        -- firings so far, skipped ones not counted
            failures {int} NOT NULL,                    -- in a row
            created_by {text} NOT NULL,                 -- a person, agent:FOLDER, or gatepost
            depth {int} NOT NULL,                       -- steps from agent to agent behind it
            created_at {int} NOT NULL,
            updated_at {int} NOT NULL
        , title {text} NOT NULL DEFAULT '') {strict};
CREATE INDEX tasks_due ON tasks (state, next_at);
CREATE INDEX tasks_folder ON tasks (folder, state);
CREATE TABLE task_origins (
            task_id {text} NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
            ordinal {int} NOT NULL,                     -- 0: who pays
            person {text} NOT NULL,                     -- '': nobody
            instance {text} NOT NULL,
            address {text} NOT NULL,
            thread {text} NOT NULL,
            PRIMARY KEY (task_id, ordinal)
        ) {strict};
CREATE TABLE firings (
            id {id},
            task_id {text} NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
            due_at {int} NOT NULL,
            fired_at {int} NOT NULL,
            state {text} NOT NULL,  -- queued | sent | answered | silent | failed | skipped | cancelled
            reason {text} NOT NULL,
            times {int} NOT NULL,                       -- how many due times this row stands for: 1, or more if skipped
            message_id {int},                           -- what it put into the ledger; NULL: nothing
            session_id {text} NOT NULL,                 -- that works on it; '': none
            turn_id {text} NOT NULL,                    -- '': none yet
            ended_at {int}
        ) {strict};
CREATE UNIQUE INDEX firings_once ON firings (task_id, due_at);
CREATE UNIQUE INDEX firings_message ON firings (message_id);
CREATE INDEX firings_open ON firings (task_id) WHERE state = 'queued';
CREATE INDEX firings_age ON firings (fired_at);
CREATE TABLE engagements (
            instance {text} NOT NULL,
            address {text} NOT NULL,
            thread {text} NOT NULL,
            folder {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            route_id {int} REFERENCES routes (id) ON DELETE CASCADE,  -- NULL: by a call of the group itself
            until {int},  -- NULL: it never ends
            ttl {int} NOT NULL,  -- microseconds that a reply extends it by
            engaged_at {int} NOT NULL,
            PRIMARY KEY (instance, address, thread, folder)
        ) {strict};
CREATE INDEX engagements_group ON engagements (folder);
CREATE INDEX engagements_route ON engagements (route_id);
CREATE INDEX engagements_until ON engagements (until);
CREATE TABLE sticky_choices (
            instance {text} NOT NULL,
            address {text} NOT NULL,
            thread {text} NOT NULL,
            sender {text} NOT NULL,
            folder {text} NOT NULL,  -- '': as routes say
            topic {text} NOT NULL,  -- '': as routes say
            chosen_at {int} NOT NULL,
            PRIMARY KEY (instance, address, thread, sender)
        ) {strict};
CREATE TABLE errands (
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
        ) {strict};
CREATE INDEX errands_open ON errands (id) WHERE ended_at IS NULL;
CREATE INDEX errands_open_caller ON errands (caller_session) WHERE ended_at IS NULL;
CREATE INDEX errands_open_folder ON errands (folder) WHERE ended_at IS NULL;
CREATE INDEX errands_open_room ON errands (room) WHERE ended_at IS NULL;
CREATE INDEX errands_open_parent ON errands (parent) WHERE ended_at IS NULL;
CREATE INDEX errands_message ON errands (message_id);
CREATE TABLE forks (
            child_id {text} NOT NULL PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
            parent_id {text} NOT NULL,        -- a session, which may be gone
            folder {text} NOT NULL,
            provider {text} NOT NULL,
            conversation {text} NOT NULL,     -- the parent's, which the child goes on with; '': none was copied
            how {text} NOT NULL,              -- copied | transcript
            bytes {int} NOT NULL,             -- of the copied state
            created_at {int} NOT NULL
        ) {strict};
CREATE INDEX forks_parent ON forks (parent_id);
CREATE INDEX forks_folder ON forks (folder, created_at);
CREATE TABLE pinned_rules (
            id {id},
            folder {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            address {text} NOT NULL DEFAULT '',   -- a room; '': in all rooms of the group
            text {text} NOT NULL,
            added_by {text} NOT NULL,
            added_at {int} NOT NULL
        ) {strict};
CREATE INDEX pinned_rules_folder ON pinned_rules (folder, id);
CREATE TABLE replays (
            session_id {text} NOT NULL PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
            source_id {text} NOT NULL,            -- a session, which may be gone
            folder {text} NOT NULL,
            changes {text} NOT NULL,              -- JSON: by its name, what is not as it was
            created_by {text} NOT NULL,
            created_at {int} NOT NULL
        ) {strict};
CREATE INDEX replays_folder ON replays (folder, created_at);
CREATE INDEX replays_source ON replays (source_id);
CREATE TABLE replay_turns (
            session_id {text} NOT NULL REFERENCES replays (session_id) ON DELETE CASCADE,
            number {int} NOT NULL,                -- and the thread of its messages
            source_turn {text} NOT NULL,
            PRIMARY KEY (session_id, number)
        ) {strict};
CREATE TABLE wanted_forks (
            message_id {int} NOT NULL PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,  -- that asks for it
            parent_id {text} NOT NULL,        -- a session, which may be gone
            topic {text} NOT NULL,
            tries {int} NOT NULL DEFAULT 0    -- how often a gateway has begun with it
        ) {strict};
CREATE INDEX errands_parent ON errands (parent, id) WHERE parent <> '';
CREATE INDEX sessions_open_errands ON sessions (active_at, address) WHERE instance = 'errands' AND closed_at IS NULL;
CREATE INDEX sessions_live_room ON sessions (address, folder, instance) WHERE closed_at IS NULL AND mode <> 'isolated';
CREATE TABLE task_holds (
            task_id {text} NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
            folder {text} NOT NULL,                     -- whose rule it is
            rule {text} NOT NULL,                       -- that holds `send`, and that somebody agreed to
            PRIMARY KEY (task_id, folder, rule)
        ) {strict};
CREATE INDEX outbox_unclear ON outbox (updated_at) WHERE state IN ('uncertain', 'failed');
CREATE TABLE api_tokens (
            id {text} NOT NULL PRIMARY KEY,
            hash {text} NOT NULL UNIQUE,
            label {text} NOT NULL DEFAULT '',
            maker {text} NOT NULL,                  -- whose rights bound it: a person, or 'operator'
            scopes {text} NOT NULL,                 -- JSON list of rights, with * for any part
            created_at {int} NOT NULL,
            expires_at {int},                       -- NULL: never
            revoked_at {int},
            last_used_at {int}
        ) {strict};
CREATE UNIQUE INDEX logins_id ON logins (id);
CREATE INDEX logins_user ON logins (user_id, kind);
CREATE TABLE passwords (
            user_id {text} NOT NULL PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,  -- an identity of the page
            hash {text} NOT NULL,                   -- argon2id, with its salt and its cost
            changed_at {int} NOT NULL
        ) {strict};
CREATE TABLE known_browsers (
            hash {text} NOT NULL PRIMARY KEY,       -- of a cookie that signs nobody in
            user_id {text} NOT NULL REFERENCES users (id) ON DELETE CASCADE,
            created_at {int} NOT NULL
        ) {strict};
CREATE INDEX known_browsers_user ON known_browsers (user_id, created_at);
CREATE TABLE passkeys (
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
        ) {strict};
CREATE INDEX passkeys_by_user ON passkeys (user_id, id);
CREATE TABLE link_signatures (
            token_id {text} NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
            hash {text} NOT NULL,                   -- of a signature that was accepted: it counts once
            seen_at {int} NOT NULL,
            PRIMARY KEY (token_id, hash)
        ) {strict};
CREATE INDEX link_signatures_age ON link_signatures (token_id, seen_at);
CREATE TABLE web_routes (
            path {text} NOT NULL PRIMARY KEY,       -- /pub/FOLDER/… or /priv/FOLDER/…, without a slash at its end
            folder {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,  -- in whose part the path lies
            access {text} NOT NULL,                 -- public, auth, deny, redirect
            redirect_to {text} NOT NULL DEFAULT '',
            owner {text} NOT NULL DEFAULT '',       -- the group whose agent made it; '': a person
            created_by {text} NOT NULL,
            created_at {int} NOT NULL
        ) {strict};
CREATE INDEX web_routes_by_folder ON web_routes (folder);
CREATE TABLE web_hosts (
            hostname {text} NOT NULL PRIMARY KEY,
            folder {text} NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            owner {text} NOT NULL DEFAULT '',       -- the group whose agent bound it; '': a person
            created_by {text} NOT NULL,
            created_at {int} NOT NULL
        ) {strict};
CREATE INDEX web_hosts_by_folder ON web_hosts (folder);
CREATE TABLE link_visitors (
            id {text} NOT NULL PRIMARY KEY,
            hash {text} NOT NULL UNIQUE,
            token_id {text} NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
            identity {text} NOT NULL,  -- as which she writes
            address {text} NOT NULL,  -- her own room, below the link's
            created_at {int} NOT NULL,
            seen_at {int} NOT NULL  -- when she wrote last
        ) {strict};
CREATE INDEX link_visitors_seen ON link_visitors (token_id, seen_at);
CREATE INDEX link_visitors_identity ON link_visitors (identity);
CREATE TABLE room_pins (
            message_id {int} NOT NULL PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
            instance {text} NOT NULL,
            address {text} NOT NULL,
            pinned_by {text} NOT NULL,
            pinned_at {int} NOT NULL
        ) {strict};
CREATE INDEX room_pins_room ON room_pins (instance, address, pinned_at);
CREATE TABLE spent_tickets (
            id {text} NOT NULL PRIMARY KEY,
            expires_at {int} NOT NULL  -- it is good for nothing from then on, and forgotten
        ) {strict};
CREATE INDEX spent_tickets_expiry ON spent_tickets (expires_at);
CREATE INDEX inbox_open ON inbox (next_at) WHERE state <> 'answered' AND state <> 'silent' AND state <> 'observed' AND state <> 'refused' AND state <> 'cancelled' AND state <> 'failed';
CREATE INDEX inbox_open_session ON inbox (session_id, seq) WHERE state <> 'answered' AND state <> 'silent' AND state <> 'observed' AND state <> 'refused' AND state <> 'cancelled' AND state <> 'failed';
CREATE INDEX inbox_open_tasks ON inbox (session_id, seq) WHERE mode = 'task' AND state <> 'answered' AND state <> 'silent' AND state <> 'observed' AND state <> 'refused' AND state <> 'cancelled' AND state <> 'failed';
CREATE TABLE gateways (
            name {text} NOT NULL PRIMARY KEY,
            epoch {int} NOT NULL,                   -- rises with each life of it: what an earlier one writes is refused
            state {text} NOT NULL,                  -- running | draining | gone
            until {int} NOT NULL,                   -- by the clock of the database: after that it is judged dead
            home {text} NOT NULL,                   -- which home it runs on
            host {text} NOT NULL,
            version {text} NOT NULL,
            schema_number {int} NOT NULL,
            listen {text} NOT NULL,
            capacity {int} NOT NULL,                -- sandboxes that may be awake there at once
            config_digest {text} NOT NULL,
            plugin_digest {text} NOT NULL,
            key_ids {text} NOT NULL,
            started_at {int} NOT NULL
        , connections {int} NOT NULL DEFAULT 0) {strict};
CREATE TABLE duties (
            name {text} NOT NULL PRIMARY KEY,       -- what one gateway at a time does: schedule, channel/NAME
            gateway {text} NOT NULL,                -- that does it; '': nobody
            since {int} NOT NULL
        , health {text} NOT NULL DEFAULT '', paused {text} NOT NULL DEFAULT '') {strict};
CREATE INDEX sessions_owned ON sessions (owner) WHERE owner <> '';
CREATE TABLE commands (
            id {text} NOT NULL PRIMARY KEY,
            gateway {text} NOT NULL,                -- that is to do it
            asker {text} NOT NULL,                  -- the gateway that waits for the answer
            kind {text} NOT NULL,                   -- stop | end | renew | obey
            session_id {text} NOT NULL,             -- '': of no session
            arguments {text} NOT NULL,              -- JSON
            state {text} NOT NULL,                  -- waiting | running | done | lost
            answer {text} NOT NULL,                 -- JSON
            created_at {int} NOT NULL,
            done_at {int}
        ) {strict};
CREATE INDEX commands_by_gateway ON commands (gateway, state);
CREATE INDEX commands_by_asker ON commands (asker, state);
CREATE TABLE group_places (
            world {text} NOT NULL PRIMARY KEY,      -- a group at the top, with all below it
            gateway {text} NOT NULL,                -- that has its folders, where they are not shared
            since {int} NOT NULL,
            moving {int} NOT NULL DEFAULT 0         -- 1: nothing of it is woken, because its files are on their way
        ) {strict};
CREATE TABLE shared_folders (
            name {text} NOT NULL PRIMARY KEY,
            mark {text} NOT NULL,                   -- lies in the folder: who does not see it there sees another folder
            gateway {text} NOT NULL,                -- that put it there
            since {int} NOT NULL
        ) {strict};
CREATE TABLE passed_files (
            name {text} NOT NULL,                   -- where it lies on the gateway that has it
            number {int} NOT NULL,                  -- of this piece
            data {blob} NOT NULL,
            message_id {int},                       -- that it came with; NULL: it is sent, or not known yet
            at {int} NOT NULL,
            PRIMARY KEY (name, number)
        ) {strict};
CREATE INDEX passed_files_message ON passed_files (message_id) WHERE message_id IS NOT NULL;
CREATE TABLE group_moves (
            id {text} NOT NULL PRIMARY KEY,
            world {text} NOT NULL,
            source {text} NOT NULL,                 -- the gateway that has its files
            target {text} NOT NULL,                 -- the one that is to have them
            state {text} NOT NULL,                  -- wanted | packed | arrived | done | failed
            sessions {text} NOT NULL,               -- JSON: the ids of those that go with it
            files {int} NOT NULL,
            bytes {int} NOT NULL,
            digest {text} NOT NULL,                 -- of every name, mode and content, by the source
            note {text} NOT NULL,                   -- why it failed, or what somebody should know
            created_at {int} NOT NULL,
            ended_at {int}
        ) {strict};
CREATE UNIQUE INDEX group_moves_open ON group_moves (world) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX audit_chains ON audit (gateway, number) WHERE gateway <> '';
CREATE TABLE audit_anchors (
            gateway {text} NOT NULL PRIMARY KEY,    -- whose chain begins later
            seq {int} NOT NULL,                     -- of the last row that was removed, of whichever chain
            number {int} NOT NULL,                  -- of the last row that was removed of this one
            hash {text} NOT NULL,
            at {int} NOT NULL                       -- when it was removed
        ) {strict};
CREATE TABLE prompt_sizes (
            digest {text} NOT NULL PRIMARY KEY,  -- of the endpoint, the model and the beginning of a prompt
            tokens {int} NOT NULL,               -- of the shortest prompt that began so
            counted_at {int} NOT NULL
        ) {strict};
CREATE TABLE connector_tools (
            connector {text} NOT NULL,
            tool {text} NOT NULL,                   -- as its server names it; '': the connector itself was seen
            digest {text} NOT NULL,                 -- of all that the server tells of it
            listed {text} NOT NULL,                 -- JSON: what it told then
            accepted_by {text} NOT NULL,
            accepted_at {int} NOT NULL,
            PRIMARY KEY (connector, tool)
        ) {strict};
CREATE TABLE incarnations (
            number {id},
            id {text} NOT NULL,
            reason {text} NOT NULL,                 -- restored | copied | rolled_back; '' for the first
            source {text} NOT NULL,                 -- what it was made from, as far as is known, for people
            request_id {text} NOT NULL,             -- that asks the owner about what is held; '': nothing is
            begun_at {int} NOT NULL,
            file {text} NOT NULL,                   -- of the store, when it was last started
            home {text} NOT NULL,
            machine {text} NOT NULL,
            lives {text} NOT NULL                   -- JSON: the last starts
        ) {strict};
CREATE TABLE restored_rows (
            request_id {text} NOT NULL,             -- by which the owner decides about them
            kind {text} NOT NULL,                   -- effect | call
            row_id {text} NOT NULL,
            PRIMARY KEY (request_id, kind, row_id)
        ) {strict};
CREATE INDEX outbox_open ON outbox (instance, address, urgent DESC, id) WHERE state IN ('pending', 'sending');
CREATE TABLE database_lives (
            name {text} NOT NULL PRIMARY KEY,       -- the server's own id and its timeline
            gateway {text} NOT NULL,                -- that noticed it
            synchronous {int} NOT NULL,             -- 1: commits waited for a standby, when a gateway last looked
            held {int} NOT NULL,                    -- effects that were open when it began; -1: nothing was lost
            since {int} NOT NULL,
            request_id {text} NOT NULL DEFAULT ''   -- by which somebody decides about what is held
        ) {strict};
CREATE INDEX turns_room ON turns (instance, address, ended_at);
CREATE TABLE session_files (
            session_id {text} NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
            row_id {int} NOT NULL,                -- of the inbox: what its folder is called
            message_id {int} NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
            files {text} NOT NULL,                -- JSON: names, and where they lie below the media folder
            bytes {int} NOT NULL,
            dropped_for {int},                    -- the later row whose files needed its space
            PRIMARY KEY (session_id, row_id)
        ) {strict};
CREATE INDEX session_files_message ON session_files (message_id);
CREATE TABLE awaited_files (
            message_id {int} NOT NULL PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
            names {text} NOT NULL,                -- JSON
            until {int} NOT NULL                  -- when nobody fetches them any more
        ) {strict};
INSERT INTO rule_state (only, name, places) VALUES (1, 'first', 'first');

-- [sqlite]
CREATE TABLE unsearched (message_id {int} PRIMARY KEY) {strict};
CREATE VIRTUAL TABLE search USING fts5 (text, marks, content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 2');
CREATE TRIGGER search_added AFTER INSERT ON messages WHEN NEW.text <> '' BEGIN INSERT INTO unsearched VALUES (NEW.id); END;
CREATE TRIGGER search_changed AFTER UPDATE OF text, instance, address, sender ON messages BEGIN DELETE FROM search WHERE rowid = OLD.id; INSERT OR IGNORE INTO unsearched VALUES (NEW.id); END;
CREATE TRIGGER search_removed AFTER DELETE ON messages BEGIN DELETE FROM search WHERE rowid = OLD.id; DELETE FROM unsearched WHERE message_id = OLD.id; END;
INSERT INTO search (search, rank) VALUES ('deletemerge', 0);

-- [postgres]
CREATE TABLE search (message_id {int} PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE, words TSVECTOR NOT NULL);
CREATE INDEX search_words ON search USING GIN (words) WITH (fastupdate = off);
-- Step 15 made the table beside its older form, which had these names.
ALTER TABLE secrets RENAME CONSTRAINT secrets_pkey TO secrets_pkey1;
ALTER TABLE secrets RENAME CONSTRAINT secrets_folder_fkey TO secrets_folder_fkey1;
ALTER TABLE secrets RENAME CONSTRAINT secrets_user_id_fkey TO secrets_user_id_fkey1;
