-- A store of 0.2.0, at schema 22, as its own migrations made it.
-- Its messages wait to be indexed. Never edited.

CREATE TABLE schema_version (number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT;
CREATE TABLE groups (
        folder TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        provider TEXT NOT NULL DEFAULT '',      -- '' means: the default of the gateway
        model TEXT NOT NULL DEFAULT '',
        sandbox TEXT NOT NULL DEFAULT '',
        options TEXT NOT NULL DEFAULT '{}',   -- JSON: what the provider or sandbox alone understands
        open INTEGER NOT NULL DEFAULT 1,
        window_messages INTEGER,                    -- NULL: the gateway's default
        window_chars INTEGER,
        created_at INTEGER NOT NULL
    , limits TEXT NOT NULL DEFAULT '{}', mounts TEXT NOT NULL DEFAULT '[]') STRICT;
CREATE TABLE rooms (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        instance TEXT NOT NULL,
        address TEXT NOT NULL,
        name TEXT NOT NULL DEFAULT '',
        direct INTEGER NOT NULL DEFAULT 0,
        policy TEXT NOT NULL DEFAULT 'strict',  -- strict | request_approval | public
        created_at INTEGER NOT NULL,
        UNIQUE (instance, address)
    ) STRICT;
CREATE TABLE users (
        id TEXT PRIMARY KEY,                    -- the sender's address, telegram:user/9
        name TEXT NOT NULL DEFAULT '',
        created_at INTEGER NOT NULL
    ) STRICT;
CREATE TABLE user_roles (
        user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
        role TEXT NOT NULL,                     -- owner | admin
        folder TEXT NOT NULL DEFAULT '',        -- '' means everywhere; never NULL, so a role cannot be given twice
        granted_by TEXT NOT NULL,
        granted_at INTEGER NOT NULL,
        PRIMARY KEY (user_id, role, folder)
    ) STRICT;
CREATE TABLE group_members (
        user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
        folder TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
        added_by TEXT NOT NULL,
        added_at INTEGER NOT NULL,
        PRIMARY KEY (user_id, folder)
    ) STRICT;
CREATE TABLE routes (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        seq INTEGER NOT NULL,
        match TEXT NOT NULL,
        target TEXT NOT NULL,
        folder TEXT REFERENCES groups (folder) ON DELETE CASCADE,  -- NULL: drop, builtin, or a {sender} template
        mode TEXT NOT NULL DEFAULT 'per-thread',                   -- session mode
        also INTEGER NOT NULL DEFAULT 0,
        window_messages INTEGER,
        window_chars INTEGER,
        ttl_s INTEGER,                                                 -- engagement; NULL: the default
        created_by TEXT NOT NULL,
        created_at INTEGER NOT NULL
    ) STRICT;
CREATE TABLE destinations (
        folder TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
        name TEXT NOT NULL,
        kind TEXT NOT NULL,                     -- room | group
        instance TEXT NOT NULL DEFAULT '',
        address TEXT NOT NULL DEFAULT '',
        thread TEXT NOT NULL DEFAULT '',
        target_folder TEXT NOT NULL DEFAULT '',
        created_at INTEGER NOT NULL,
        PRIMARY KEY (folder, name)
    ) STRICT;
CREATE TABLE sessions (
        id TEXT PRIMARY KEY,
        key TEXT NOT NULL,                      -- computed from the session mode
        folder TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
        mode TEXT NOT NULL,
        instance TEXT NOT NULL,
        address TEXT NOT NULL,
        thread TEXT NOT NULL,
        provider TEXT NOT NULL DEFAULT '',      -- '' means: the group's
        title TEXT NOT NULL DEFAULT '',
        state TEXT NOT NULL DEFAULT 'idle',     -- initializing | idle | running | error | interrupted | closed
        next_seq INTEGER NOT NULL DEFAULT 1,
        window_messages INTEGER,                    -- observed context that its route shows; NULL: as its group says
        window_chars INTEGER,
        owner TEXT NOT NULL DEFAULT '',
        lease_until INTEGER NOT NULL DEFAULT 0,
        epoch INTEGER NOT NULL DEFAULT 0,
        created_at INTEGER NOT NULL,
        active_at INTEGER NOT NULL,
        closed_at INTEGER
    , agent INTEGER NOT NULL DEFAULT 0, model TEXT NOT NULL DEFAULT '', permission_mode TEXT NOT NULL DEFAULT '', cwd TEXT NOT NULL DEFAULT '', labels TEXT NOT NULL DEFAULT '{}', parent TEXT NOT NULL DEFAULT '', notify INTEGER NOT NULL DEFAULT 0, archived_at INTEGER) STRICT;
CREATE TABLE conversations (
        session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        provider TEXT NOT NULL,
        conversation TEXT NOT NULL,
        updated_at INTEGER NOT NULL,
        PRIMARY KEY (session_id, provider)
    ) STRICT;
CREATE TABLE turns (
        id TEXT PRIMARY KEY,
        session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        folder TEXT NOT NULL,
        provider TEXT NOT NULL,
        instance TEXT NOT NULL,                 -- where its results go: kept on the host
        address TEXT NOT NULL,
        thread TEXT NOT NULL,
        rights TEXT NOT NULL,
        attempt INTEGER NOT NULL DEFAULT 1,
        spared INTEGER NOT NULL DEFAULT 0,          -- attempts that do not count: ended in good order
        state TEXT NOT NULL,                    -- claimed | begun | interrupted | done | failed
        conversation TEXT NOT NULL DEFAULT '',  -- set once the provider has named it in this turn
        error TEXT NOT NULL DEFAULT '',
        usage TEXT NOT NULL DEFAULT '{}',
        next_at INTEGER NOT NULL,
        owner TEXT NOT NULL,
        lease_until INTEGER NOT NULL,
        epoch INTEGER NOT NULL DEFAULT 1,
        started_at INTEGER NOT NULL,
        begun_at INTEGER,
        ended_at INTEGER
    , said_bytes INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE messages (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        instance TEXT NOT NULL,
        address TEXT NOT NULL,
        thread TEXT NOT NULL DEFAULT '',
        direction TEXT NOT NULL,                -- in | out
        platform_id TEXT,                       -- of an outgoing one: learnt once, when it is sent
        event TEXT NOT NULL DEFAULT 'message',
        kind TEXT NOT NULL,
        verb TEXT NOT NULL DEFAULT 'message',
        sender TEXT NOT NULL,
        sender_name TEXT NOT NULL DEFAULT '',
        text TEXT NOT NULL,
        content TEXT NOT NULL DEFAULT '{}',   -- JSON
        reply_to TEXT NOT NULL DEFAULT '',
        folder TEXT NOT NULL DEFAULT '',        -- whose agent wrote it, for an outgoing one
        at INTEGER NOT NULL,                        -- when the platform says that it happened
        accepted_at INTEGER NOT NULL
    ) STRICT;
CREATE TABLE inbox (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        message_id INTEGER NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
        session_id TEXT REFERENCES sessions (id) ON DELETE SET NULL,  -- NULL: it reached none, or its group is gone
        folder TEXT NOT NULL DEFAULT '',
        seq INTEGER NOT NULL DEFAULT 0,
        mode TEXT NOT NULL DEFAULT 'trigger',   -- trigger | observe
        rights TEXT NOT NULL DEFAULT 'guest',   -- owner | admin | member | guest
        turn_id TEXT REFERENCES turns (id) ON DELETE SET NULL,
        given INTEGER NOT NULL DEFAULT 0,           -- 1: the provider has it
        state TEXT NOT NULL,
        reason TEXT NOT NULL DEFAULT '',
        tries INTEGER NOT NULL DEFAULT 0,
        next_at INTEGER,                            -- NULL only in an end state
        owner TEXT NOT NULL DEFAULT '',
        lease_until INTEGER NOT NULL DEFAULT 0,
        epoch INTEGER NOT NULL DEFAULT 0,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL
    ) STRICT;
CREATE TABLE outbox (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        key TEXT NOT NULL UNIQUE,               -- one effect: results by turn, attempt, part; tools by call
        message_id INTEGER NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
        session_id TEXT REFERENCES sessions (id) ON DELETE SET NULL,
        seq INTEGER NOT NULL DEFAULT 0,
        turn_id TEXT REFERENCES turns (id) ON DELETE SET NULL,
        attempt INTEGER NOT NULL DEFAULT 1,
        origin TEXT NOT NULL,                   -- result | tool | notice | status
        op TEXT NOT NULL,
        instance TEXT NOT NULL,
        address TEXT NOT NULL,
        thread TEXT NOT NULL DEFAULT '',
        target_id INTEGER REFERENCES messages (id), -- the message edited, reacted to, replied to
        payload TEXT NOT NULL,                  -- JSON: text, reaction, files
        state TEXT NOT NULL,
        reason TEXT NOT NULL DEFAULT '',
        tries INTEGER NOT NULL DEFAULT 0,
        next_at INTEGER,
        owner TEXT NOT NULL DEFAULT '',
        lease_until INTEGER NOT NULL DEFAULT 0,
        epoch INTEGER NOT NULL DEFAULT 0,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL
    , digest TEXT NOT NULL DEFAULT '', answers INTEGER) STRICT;
CREATE TABLE steps (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        message_id INTEGER NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
        row_id INTEGER,                             -- the inbox or outbox row that moved
        at INTEGER NOT NULL,
        step TEXT NOT NULL,
        detail TEXT NOT NULL DEFAULT ''
    ) STRICT;
CREATE TABLE audit (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        at INTEGER NOT NULL,
        actor TEXT NOT NULL,
        action TEXT NOT NULL,
        verdict TEXT NOT NULL,
        details TEXT,                           -- JSON; NULL once erased, the chain holds all the same
        details_hash TEXT NOT NULL,
        previous TEXT NOT NULL,
        hash TEXT NOT NULL
    ) STRICT;
CREATE TABLE logins (
        hash TEXT PRIMARY KEY,                  -- of a one-time token or of a browser's session
        kind TEXT NOT NULL,                     -- once | browser
        user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
        expires_at INTEGER NOT NULL,
        created_at INTEGER NOT NULL
    ) STRICT;
CREATE TABLE costs (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        key TEXT NOT NULL UNIQUE,               -- reservation/<id>, or the call of a tool: booked once
        at INTEGER NOT NULL,                        -- when it was let through: the day and month that it counts in
        booked_at INTEGER NOT NULL,
        folder TEXT NOT NULL,
        user_id TEXT NOT NULL,                  -- '': nobody's
        session_id TEXT NOT NULL,
        turn_id TEXT NOT NULL,
        model TEXT NOT NULL,
        source TEXT NOT NULL,                   -- proxy | external
        measured INTEGER NOT NULL,                  -- 0: booked in full, because the usage was never learnt
        input INTEGER NOT NULL,
        output INTEGER NOT NULL,
        cache_read INTEGER NOT NULL,
        cache_write INTEGER NOT NULL,
        micro INTEGER NOT NULL CHECK (micro >= 0)   -- millionths of a USD
    ) STRICT;
CREATE TABLE budgets (
        kind TEXT NOT NULL,                     -- group | user | instance
        name TEXT NOT NULL,                     -- a folder, a user, '' for the instance
        period TEXT NOT NULL,                   -- day | month, UTC
        micro INTEGER NOT NULL CHECK (micro >= 0),
        set_by TEXT NOT NULL,
        set_at INTEGER NOT NULL,
        PRIMARY KEY (kind, name, period)
    ) STRICT;
CREATE TABLE spending (
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        period TEXT NOT NULL,
        starts_at INTEGER NOT NULL,
        spent INTEGER NOT NULL DEFAULT 0,
        reserved INTEGER NOT NULL DEFAULT 0 CHECK (reserved >= 0),
        told_near INTEGER NOT NULL DEFAULT 0,       -- 1: the note at 80 % was given
        told_stop INTEGER NOT NULL DEFAULT 0,       -- 1: the message at the end was given
        PRIMARY KEY (kind, name, period, starts_at)
    ) STRICT;
CREATE TABLE reservations (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        at INTEGER NOT NULL,
        folder TEXT NOT NULL,
        user_id TEXT NOT NULL,
        session_id TEXT NOT NULL,
        turn_id TEXT NOT NULL,
        model TEXT NOT NULL,
        worst INTEGER NOT NULL CHECK (worst >= 0)   -- millionths of a USD
    ) STRICT;
CREATE TABLE secret_uses (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        at INTEGER NOT NULL,
        name TEXT NOT NULL,
        scope TEXT,                             -- whose it was; NULL: nobody above the caller has one
        folder TEXT NOT NULL,                   -- for which group
        user_id TEXT NOT NULL DEFAULT '',
        purpose TEXT NOT NULL DEFAULT '',
        outcome TEXT NOT NULL                   -- used | missing | unreadable
    ) STRICT;
CREATE TABLE egress_rules (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        folder TEXT REFERENCES groups (folder) ON DELETE CASCADE,
        host TEXT NOT NULL,                     -- a name covers its sub-domains; '*.name' these alone; '*' every host
        port INTEGER NOT NULL DEFAULT 0,            -- 0: allowed for 80 and 443, denied for every port
        allow INTEGER NOT NULL,                     -- 0 | 1; a denial wins
        local INTEGER NOT NULL DEFAULT 0,           -- 1: the host may have an address of this machine or network
        created_by TEXT NOT NULL,
        created_at INTEGER NOT NULL
    ) STRICT;
CREATE TABLE egress_log (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        at INTEGER NOT NULL,                        -- the first time
        last_at INTEGER NOT NULL,
        times INTEGER NOT NULL DEFAULT 1,
        folder TEXT NOT NULL,
        session_id TEXT NOT NULL,
        target TEXT NOT NULL,                   -- host:port, or a model endpoint
        verdict TEXT NOT NULL,                  -- allowed | denied | failed
        reason TEXT NOT NULL
    ) STRICT;
CREATE TABLE switches (
        name TEXT PRIMARY KEY,                  -- panic
        reason TEXT NOT NULL,                   -- the operator's own words, '' for none
        turned_by TEXT NOT NULL,
        since INTEGER NOT NULL
    ) STRICT;
CREATE TABLE secret_bindings (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        folder TEXT REFERENCES groups (folder) ON DELETE CASCADE,
        name TEXT NOT NULL,                     -- of the secret; whose holds is decided at each use
        scheme TEXT NOT NULL,                   -- https | http
        host TEXT NOT NULL,                     -- exactly this one, no sub-domain
        port INTEGER NOT NULL,
        header TEXT NOT NULL,                   -- in lower case
        template TEXT NOT NULL,                 -- the header's value; {} stands for the secret
        created_by TEXT NOT NULL,
        created_at INTEGER NOT NULL
    ) STRICT;
CREATE TABLE grants (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            folder TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            rule TEXT NOT NULL,
            added_by TEXT NOT NULL,
            added_at INTEGER NOT NULL
        ) STRICT;
CREATE TABLE acl (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            principal TEXT NOT NULL,
            action TEXT NOT NULL,
            scope TEXT NOT NULL,
            effect TEXT NOT NULL CHECK (effect IN ('allow', 'deny')),
            params TEXT NOT NULL DEFAULT '',
            predicate TEXT NOT NULL DEFAULT '',
            grant_option INTEGER NOT NULL DEFAULT 0,
            granted_by TEXT NOT NULL,
            granted_at INTEGER NOT NULL,
            UNIQUE (principal, action, scope, params, predicate, effect)
        ) STRICT;
CREATE TABLE memberships (
            child TEXT NOT NULL,
            parent TEXT NOT NULL,
            added_by TEXT NOT NULL,
            added_at INTEGER NOT NULL,
            PRIMARY KEY (child, parent),
            CHECK (child <> parent)
        ) STRICT;
CREATE TABLE watchers (
            observer TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            source TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            added_by TEXT NOT NULL,
            added_at INTEGER NOT NULL,
            PRIMARY KEY (source, observer),
            CHECK (observer <> source)
        ) STRICT;
CREATE TABLE unsearched (message_id INTEGER PRIMARY KEY) STRICT;
CREATE VIRTUAL TABLE search USING fts5 (text, marks, content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 2');
CREATE TABLE timeline (
            session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
            seq INTEGER NOT NULL,
            at INTEGER NOT NULL,
            turn_id TEXT NOT NULL DEFAULT '',
            kind TEXT NOT NULL,
            data TEXT NOT NULL,
            PRIMARY KEY (session_id, seq)
        ) STRICT;
CREATE TABLE worktrees (
            project TEXT NOT NULL,
            slug TEXT NOT NULL,
            folder TEXT NOT NULL,
            source TEXT NOT NULL,
            branch TEXT NOT NULL,
            base TEXT NOT NULL,
            base_commit TEXT NOT NULL DEFAULT '',
            state TEXT NOT NULL,
            setup TEXT NOT NULL DEFAULT '[]',
            teardown TEXT NOT NULL DEFAULT '[]',
            setup_state TEXT NOT NULL DEFAULT 'none',
            setup_output TEXT NOT NULL DEFAULT '',
            created_at INTEGER NOT NULL,
            archived_at INTEGER,
            PRIMARY KEY (project, slug)
        ) STRICT;
CREATE TABLE trusted_setups (
            project TEXT NOT NULL,
            digest TEXT NOT NULL,
            trusted_by TEXT NOT NULL,
            trusted_at INTEGER NOT NULL,
            PRIMARY KEY (project, digest)
        ) STRICT;
CREATE TABLE session_tokens (
            session_id TEXT NOT NULL PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
            digest TEXT NOT NULL UNIQUE,
            made_at INTEGER NOT NULL
        ) STRICT;
CREATE TABLE permissions (
            id TEXT NOT NULL PRIMARY KEY,
            session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
            turn_id TEXT NOT NULL,
            request TEXT NOT NULL,                -- as the provider named it
            digest TEXT NOT NULL DEFAULT '',      -- of everything that was asked
            kind TEXT NOT NULL,
            tool TEXT NOT NULL,
            input TEXT NOT NULL,
            cut INTEGER NOT NULL DEFAULT 0,           -- 1: `input` is an excerpt, the provider holds the whole
            answer TEXT NOT NULL DEFAULT '{}',
            follow_up TEXT NOT NULL DEFAULT '',
            next_mode TEXT NOT NULL DEFAULT '',
            state TEXT NOT NULL,
            reason TEXT NOT NULL DEFAULT '',
            asked_at INTEGER NOT NULL,
            answered_at INTEGER,
            answered_by TEXT NOT NULL DEFAULT '',
            UNIQUE (session_id, turn_id, request, digest)
        ) STRICT;
CREATE TABLE secrets (
            scope TEXT NOT NULL,                    -- '' the gateway | folder:acme/eng | user:telegram:user/9
            name TEXT NOT NULL,
            origin TEXT NOT NULL DEFAULT '',        -- of a model's key: https://api.openai.com:443
            folder TEXT REFERENCES groups (folder) ON DELETE CASCADE,
            user_id TEXT REFERENCES users (id) ON DELETE CASCADE,
            key_id TEXT NOT NULL,                   -- which key of the ring
            nonce BLOB NOT NULL,
            sealed BLOB NOT NULL,                   -- AES-GCM; scope, name and key_id are sealed in with the value
            created_at INTEGER NOT NULL,
            updated_at INTEGER NOT NULL,
            used_at INTEGER,
            PRIMARY KEY (scope, name, origin)
        ) STRICT;
CREATE TABLE origins (
            message_id INTEGER NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
            ordinal INTEGER NOT NULL,                     -- 0: who pays
            person TEXT NOT NULL,                 -- '': nobody
            instance TEXT NOT NULL,
            address TEXT NOT NULL,
            thread TEXT NOT NULL,
            depth INTEGER NOT NULL,                       -- the same in all rows of a message
            PRIMARY KEY (message_id, ordinal)
        ) STRICT;
CREATE TABLE given_files (
            key TEXT NOT NULL PRIMARY KEY,        -- of the effect that they belong to
            folder TEXT NOT NULL,
            session_id TEXT NOT NULL,
            turn_id TEXT NOT NULL,                -- '': outside of a turn
            bytes INTEGER NOT NULL,                       -- as they are on the host: holes count
            at INTEGER NOT NULL
        ) STRICT;
CREATE TABLE calls (
            turn_id TEXT NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
            digest TEXT NOT NULL,                 -- of the tool's name and its arguments
            number INTEGER NOT NULL,                  -- 1 for the first such call of the turn
            settled INTEGER NOT NULL DEFAULT 0,       -- 1: the agent went on after its answer, and does not repeat it
            PRIMARY KEY (turn_id, digest, number)
        ) STRICT;
CREATE TABLE uids (
            world TEXT NOT NULL PRIMARY KEY,      -- the first part of a group's folder
            uid INTEGER NOT NULL UNIQUE,
            assigned_at INTEGER NOT NULL
        ) STRICT;
CREATE TABLE audit_anchor (
            only INTEGER NOT NULL PRIMARY KEY CHECK (only = 1),
            seq INTEGER NOT NULL,                     -- of the last row that was removed
            hash TEXT NOT NULL,
            at INTEGER NOT NULL                       -- when it was removed
        ) STRICT;
CREATE TABLE rule_state (only INTEGER NOT NULL PRIMARY KEY CHECK (only = 1), name TEXT NOT NULL) STRICT;
INSERT INTO schema_version VALUES (1, '0001_spine', 1763200000000000);
INSERT INTO schema_version VALUES (2, '0002_money', 1763200000000000);
INSERT INTO schema_version VALUES (3, '0003_secrets', 1763200000000000);
INSERT INTO schema_version VALUES (4, '0004_egress', 1763200000000000);
INSERT INTO schema_version VALUES (5, '0005_limits', 1763200000000000);
INSERT INTO schema_version VALUES (6, '0006_switches', 1763200000000000);
INSERT INTO schema_version VALUES (7, '0007_bindings', 1763200000000000);
INSERT INTO schema_version VALUES (8, '0008_access', 1763200000000000);
INSERT INTO schema_version VALUES (9, '0009_watchers', 1763200000000000);
INSERT INTO schema_version VALUES (10, '0010_search', 1763200000000000);
INSERT INTO schema_version VALUES (11, '0011_agents', 1763200000000000);
INSERT INTO schema_version VALUES (12, '0012_plans', 1763200000000000);
INSERT INTO schema_version VALUES (13, '0013_worktrees', 1763200000000000);
INSERT INTO schema_version VALUES (14, '0014_answers', 1763200000000000);
INSERT INTO schema_version VALUES (15, '0015_secret_origins', 1763200000000000);
INSERT INTO schema_version VALUES (16, '0016_early_stores', 1763200000000000);
INSERT INTO schema_version VALUES (17, '0017_origins', 1763200000000000);
INSERT INTO schema_version VALUES (18, '0018_calls', 1763200000000000);
INSERT INTO schema_version VALUES (19, '0019_uids', 1763200000000000);
INSERT INTO schema_version VALUES (20, '0020_growth', 1763200000000000);
INSERT INTO schema_version VALUES (21, '0021_said', 1763200000000000);
INSERT INTO schema_version VALUES (22, '0022_rule_state', 1763200000000000);
INSERT INTO groups VALUES ('acme', 'Acme', 'demo', '', '', '{}', 1, NULL, NULL, 1763200000000000, '{}', '[]');
INSERT INTO groups VALUES ('acme/sales', 'Sales', '', '', '', '{}', 1, NULL, NULL, 1763200000000000, '{"memory_mb": 512}', '[]');
INSERT INTO rooms VALUES (1, 'web', 'web:home', 'Home', 0, 'strict', 1763200000000000);
INSERT INTO rooms VALUES (2, 'telegram', 'telegram:chat/7', 'Ann', 1, 'public', 1763200000000000);
INSERT INTO users VALUES ('terminal:owner', 'Owner', 1763200000000000);
INSERT INTO users VALUES ('web:user/owner', 'Owner', 1763200000000000);
INSERT INTO users VALUES ('telegram:user/7', 'Ann', 1763200000000000);
INSERT INTO user_roles VALUES ('terminal:owner', 'owner', '', 'gatepost', 1763200000000000);
INSERT INTO user_roles VALUES ('web:user/owner', 'owner', '', 'gatepost', 1763200000000000);
INSERT INTO group_members VALUES ('telegram:user/7', 'acme', 'terminal:owner', 1763200000000000);
INSERT INTO routes VALUES (1, 10, 'room=web:home', 'acme', 'acme', 'per-thread', 0, NULL, NULL, NULL, 'terminal:owner', 1763200000000000);
INSERT INTO destinations VALUES ('acme', 'ann', 'room', 'telegram', 'telegram:chat/7', '', '', 1763200000000000);
INSERT INTO sessions VALUES ('s-1', 'acme|web|web:home|', 'acme', 'per-thread', 'web', 'web:home', '', '', '', 'running', 3, NULL, NULL, '', 0, 0, 1763200000000000, 1763200000000000, NULL, 0, '', '', '', '{}', '', 0, NULL);
INSERT INTO sessions VALUES ('s-2', 'acme|telegram|telegram:chat/7|', 'acme', 'per-thread', 'telegram', 'telegram:chat/7', '', '', '', 'closed', 2, NULL, NULL, '', 0, 0, 1763200000000000, 1763200000000000, 1763200000000000, 0, '', '', '', '{}', '', 0, NULL);
INSERT INTO conversations VALUES ('s-1', 'demo', 'c-1', 1763200000000000);
INSERT INTO turns VALUES ('t-1', 's-1', 'acme', 'demo', 'web', 'web:home', '', 'owner', 1, 0, 'done', '', '', '{}', 1763200000000000, '', 0, 1, 1763200000000000, NULL, 1763200000000000, 0);
INSERT INTO turns VALUES ('t-2', 's-1', 'acme', 'demo', 'web', 'web:home', '', 'owner', 1, 0, 'begun', '', '', '{}', 1763200000000000, 'd', 1763200000000000, 1, 1763200000000001, NULL, NULL, 0);
INSERT INTO messages VALUES (1, 'web', 'web:home', '', 'in', 'm1', 'message', 'chat', 'message', 'web:user/owner', '', 'Where is the tea?', '{}', '', '', 1763200000000000, 1763200000000000);
INSERT INTO messages VALUES (2, 'web', 'web:home', '', 'out', 'm2', 'message', 'chat', 'message', 'agent:acme', '', 'In the kitchen, 会議 room.', '{}', '', 'acme', 1763200000000000, 1763200000000000);
INSERT INTO messages VALUES (3, 'web', 'web:home', '', 'in', 'm3', 'message', 'chat', 'message', 'web:user/owner', '', 'And the milk?', '{}', '', '', 1763200000000000, 1763200000000000);
INSERT INTO messages VALUES (4, 'web', 'web:home', '', 'out', NULL, 'message', 'chat', 'message', 'agent:acme', '', 'I look.', '{}', '', 'acme', 1763200000000000, 1763200000000000);
INSERT INTO messages VALUES (5, 'telegram', 'telegram:chat/7', '', 'in', '55', 'message', 'chat', 'message', 'telegram:user/7', 'Ann', 'Hello', '{}', '', '', 1763200000000000, 1763200000000000);
INSERT INTO inbox VALUES (1, 1, 's-1', 'acme', 1, 'trigger', 'owner', 't-1', 1, 'answered', '', 0, NULL, '', 0, 0, 1763200000000000, 1763200000000000);
INSERT INTO inbox VALUES (2, 3, 's-1', 'acme', 2, 'trigger', 'owner', 't-2', 1, 'working', '', 0, 1763200000000000, '', 0, 0, 1763200000000000, 1763200000000000);
INSERT INTO inbox VALUES (3, 5, 's-2', 'acme', 1, 'trigger', 'guest', NULL, 0, 'refused', 'unknown_sender_strict', 0, NULL, '', 0, 0, 1763200000000000, 1763200000000000);
INSERT INTO outbox VALUES (1, 's-1/t-1/1/0', 2, 's-1', 1, 't-1', 1, 'result', 'send', 'web', 'web:home', '', NULL, '{"text": "In the kitchen, 会議 room."}', 'sent', '', 0, NULL, '', 0, 0, 1763200000000000, 1763200000000000, '', NULL);
INSERT INTO outbox VALUES (2, 's-1/t-2/1/0', 4, 's-1', 2, 't-2', 1, 'tool', 'send', 'web', 'web:home', '', NULL, '{"text": "I look.", "in_reply_to": 2}', 'pending', '', 0, 1763200000000000, '', 0, 0, 1763200000000000, 1763200000000000, 'd', 2);
INSERT INTO steps VALUES (1, 1, 1, 1763200000000000, 'accepted', '');
INSERT INTO audit VALUES (1, 1763200000000000, 'terminal:owner', 'group.add', 'allowed', '{}', 'd1', '', 'h1');
INSERT INTO logins VALUES ('abababababababababababababababababababababababababababababababab', 'browser', 'web:user/owner', 3526400000000000, 1763200000000000);
INSERT INTO logins VALUES ('cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd', 'once', 'web:user/owner', 3526400000000000, 1763200000000000);
INSERT INTO costs VALUES (1, 'reservation/1', 1763200000000000, 1763200000000000, 'acme', 'web:user/owner', 's-1', 't-1', 'demo', 'proxy', 1, 10, 5, 0, 0, 7);
INSERT INTO budgets VALUES ('user', 'web:user/owner', 'day', 5, 'operator', 1763200000000000);
INSERT INTO spending VALUES ('user', 'web:user/owner', 'day', 1763200000000000, 7, 0, 0, 0);
INSERT INTO reservations VALUES (1, 1763200000000000, 'acme', 'web:user/owner', 's-1', 't-2', 'demo', 3);
INSERT INTO secret_uses VALUES (1, 1763200000000000, 'model', '', 'acme', '', '', 'used');
INSERT INTO egress_rules VALUES (1, 'acme', 'example.org', 0, 1, 0, 'operator', 1763200000000000);
INSERT INTO egress_log VALUES (1, 1763200000000000, 1763200000000000, 1, 'acme', 's-1', 'example.org:443', 'allowed', '');
INSERT INTO switches VALUES ('panic', 'a trial', 'operator', 1763200000000000);
INSERT INTO secret_bindings VALUES (1, NULL, 'model', 'https', 'example.org', 443, 'authorization', 'Bearer {}', 'operator', 1763200000000000);
INSERT INTO grants VALUES (1, 'acme', 'send', 'operator', 1763200000000000);
INSERT INTO acl VALUES (1, 'telegram:user/7', 'session.read', 'acme', 'allow', '', '', 0, 'operator', 1763200000000000);
INSERT INTO memberships VALUES ('web:user/owner', 'role:friends', 'operator', 1763200000000000);
INSERT INTO watchers VALUES ('acme', 'acme/sales', 'operator', 1763200000000000);
INSERT INTO unsearched VALUES (1);
INSERT INTO unsearched VALUES (2);
INSERT INTO unsearched VALUES (3);
INSERT INTO unsearched VALUES (4);
INSERT INTO unsearched VALUES (5);
INSERT INTO timeline VALUES ('s-1', 1, 1763200000000000, 't-1', 'text', '{}');
INSERT INTO worktrees VALUES ('site', 'fix', 'acme', '/srv/site', 'fix', 'main', '', 'ready', '[]', '[]', 'none', '', 1763200000000000, NULL);
INSERT INTO trusted_setups VALUES ('site', 'd', 'operator', 1763200000000000);
INSERT INTO session_tokens VALUES ('s-1', 'digest', 1763200000000000);
INSERT INTO permissions VALUES ('p-1', 's-1', 't-2', '0', '', 'tool', 'Bash', '{"command": "ls"}', 0, '{}', '', '', 'pending', '', 1763200000000000, NULL, '');
INSERT INTO permissions VALUES ('p-2', 's-1', 't-1', '0', '', 'tool', 'Bash', '{}', 0, '{}', '', '', 'over', '', 1763200000000000, 1763200000000000, 'terminal:owner');
INSERT INTO secrets VALUES ('', 'model', '', NULL, NULL, 'k1', X'0102', X'0304', 1763200000000000, 1763200000000000, NULL);
INSERT INTO origins VALUES (1, 0, 'web:user/owner', 'web', 'web:home', '', 0);
INSERT INTO given_files VALUES ('s-1/t-1/1/0', 'acme', 's-1', 't-1', 12, 1763200000000000);
INSERT INTO calls VALUES ('t-2', 'd', 1, 0);
INSERT INTO uids VALUES ('acme', 70001, 1763200000000000);
INSERT INTO audit_anchor VALUES (1, 0, 'h0', 1763200000000000);
INSERT INTO rule_state VALUES (1, 'first');
CREATE INDEX routes_order ON routes (seq, id);
CREATE UNIQUE INDEX sessions_live_key ON sessions (key) WHERE closed_at IS NULL;
CREATE INDEX sessions_folder ON sessions (folder, active_at);
CREATE UNIQUE INDEX turns_open ON turns (session_id) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX messages_identity ON messages (instance, address, direction, platform_id, event);
CREATE INDEX messages_room ON messages (instance, address, id);
CREATE UNIQUE INDEX inbox_target ON inbox (message_id, session_id);
CREATE UNIQUE INDEX inbox_seq ON inbox (session_id, seq) WHERE session_id IS NOT NULL;
CREATE INDEX inbox_open ON inbox (next_at) WHERE state NOT IN ('answered', 'silent', 'observed', 'refused', 'cancelled', 'failed');
CREATE INDEX inbox_open_session ON inbox (session_id, seq) WHERE state NOT IN ('answered', 'silent', 'observed', 'refused', 'cancelled', 'failed');
CREATE INDEX inbox_observed ON inbox (session_id, seq) WHERE mode = 'observe' AND given = 0;
CREATE INDEX inbox_turn ON inbox (turn_id) WHERE turn_id IS NOT NULL;
CREATE INDEX outbox_open ON outbox (instance, address, id) WHERE state IN ('pending', 'sending');
CREATE INDEX outbox_turn ON outbox (turn_id) WHERE turn_id IS NOT NULL;
CREATE INDEX outbox_message ON outbox (message_id);
CREATE INDEX steps_message ON steps (message_id, id);
CREATE INDEX costs_at ON costs (at);
CREATE UNIQUE INDEX egress_rules_once ON egress_rules (COALESCE(folder, ''), host, port);
CREATE UNIQUE INDEX egress_log_once ON egress_log (session_id, target, verdict, reason);
CREATE INDEX egress_log_folder ON egress_log (folder, id);
CREATE UNIQUE INDEX secret_bindings_once ON secret_bindings (COALESCE(folder, ''), scheme, host, port, header);
CREATE INDEX grants_folder ON grants (folder, id);
CREATE INDEX sessions_address ON sessions (address);
CREATE INDEX turns_session ON turns (session_id, started_at);
CREATE INDEX messages_said ON messages (instance, address, at, id);
CREATE INDEX inbox_failed ON inbox (folder) WHERE state = 'failed';
CREATE INDEX sessions_agents ON sessions (active_at) WHERE agent = 1;
CREATE INDEX permissions_pending ON permissions (asked_at) WHERE state = 'pending';
CREATE INDEX given_files_group ON given_files (folder, at);
CREATE INDEX given_files_turn ON given_files (session_id, turn_id);
CREATE INDEX outbox_session ON outbox (session_id, seq) WHERE session_id IS NOT NULL;
CREATE INDEX outbox_target ON outbox (target_id) WHERE target_id IS NOT NULL;
CREATE INDEX permissions_pending_session ON permissions (session_id) WHERE state = 'pending';
CREATE INDEX destinations_room ON destinations (folder, instance, address);
CREATE INDEX outbox_said ON outbox (turn_id, digest, answers) WHERE turn_id IS NOT NULL;
INSERT INTO search (search, rank) VALUES ('deletemerge', 0);
CREATE TRIGGER search_added AFTER INSERT ON messages WHEN NEW.text <> '' BEGIN INSERT INTO unsearched VALUES (NEW.id); END;
CREATE TRIGGER search_changed AFTER UPDATE OF text, instance, address, sender ON messages BEGIN DELETE FROM search WHERE rowid = OLD.id; INSERT OR IGNORE INTO unsearched VALUES (NEW.id); END;
CREATE TRIGGER search_removed AFTER DELETE ON messages BEGIN DELETE FROM search WHERE rowid = OLD.id; DELETE FROM unsearched WHERE message_id = OLD.id; END;
