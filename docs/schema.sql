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
CREATE TABLE alerts (
            id TEXT PRIMARY KEY,
            condition TEXT NOT NULL,
            subject TEXT NOT NULL,              -- a channel, a group …; '': there is one alone
            gateway TEXT NOT NULL,              -- whose machine it is about; '': the store's
            detail TEXT NOT NULL,               -- a number or a day, as it was last seen
            since INTEGER NOT NULL,
            cleared_at INTEGER,                     -- since when it is not seen any more
            told_at INTEGER,
            told_key TEXT NOT NULL,             -- of the message; several may share one
            told_instance TEXT NOT NULL,
            tries INTEGER NOT NULL,                 -- messages that were made to tell of it
            next_at INTEGER,                        -- before then nobody is told: it could not be delivered
            muted_until INTEGER,
            over_at INTEGER,
            over_key TEXT NOT NULL
        ) STRICT;
CREATE TABLE api_tokens (
            id TEXT NOT NULL PRIMARY KEY,
            hash TEXT NOT NULL UNIQUE,
            label TEXT NOT NULL DEFAULT '',
            maker TEXT NOT NULL,                  -- whose rights bound it: a person, or 'operator'
            scopes TEXT NOT NULL,                 -- JSON list of rights, with * for any part
            created_at INTEGER NOT NULL,
            expires_at INTEGER,                       -- NULL: never
            revoked_at INTEGER,
            last_used_at INTEGER
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
    , gateway TEXT NOT NULL DEFAULT '', number INTEGER) STRICT;
CREATE TABLE audit_anchors (
            gateway TEXT NOT NULL PRIMARY KEY,    -- whose chain begins later
            seq INTEGER NOT NULL,                     -- of the last row that was removed, of whichever chain
            number INTEGER NOT NULL,                  -- of the last row that was removed of this one
            hash TEXT NOT NULL,
            at INTEGER NOT NULL                       -- when it was removed
        ) STRICT;
CREATE TABLE awaited_files (
            message_id INTEGER NOT NULL PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
            names TEXT NOT NULL,                -- JSON
            until INTEGER NOT NULL                  -- when nobody fetches them any more
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
CREATE TABLE calls (
            turn_id TEXT NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
            digest TEXT NOT NULL,                 -- of the tool's name and its arguments
            number INTEGER NOT NULL,                  -- 1 for the first such call of the turn
            settled INTEGER NOT NULL DEFAULT 0,       -- 1: the agent went on after its answer, and does not repeat it
            PRIMARY KEY (turn_id, digest, number)
        ) STRICT;
CREATE TABLE channel_cursors (
            instance TEXT NOT NULL,
            name TEXT NOT NULL,  -- '' for a channel that reads one stream
            received TEXT NOT NULL,  -- all up to here is durable
            acknowledged TEXT NOT NULL,  -- and the platform was told so up to here
            updated_at INTEGER NOT NULL,
            PRIMARY KEY (instance, name)
        ) STRICT;
CREATE TABLE channel_instances (
            instance TEXT NOT NULL PRIMARY KEY,
            kind TEXT NOT NULL,
            settings TEXT NOT NULL,  -- JSON, by the last names of the settings; secrets are in `secrets`
            is_on INTEGER NOT NULL,
            created_at INTEGER NOT NULL,
            created_by TEXT NOT NULL
        ) STRICT;
CREATE TABLE commands (
            id TEXT NOT NULL PRIMARY KEY,
            gateway TEXT NOT NULL,                -- that is to do it
            asker TEXT NOT NULL,                  -- the gateway that waits for the answer
            kind TEXT NOT NULL,                   -- stop | end | renew | obey
            session_id TEXT NOT NULL,             -- '': of no session
            arguments TEXT NOT NULL,              -- JSON
            state TEXT NOT NULL,                  -- waiting | running | done | lost
            answer TEXT NOT NULL,                 -- JSON
            created_at INTEGER NOT NULL,
            done_at INTEGER
        ) STRICT;
CREATE TABLE connector_tools (
            connector TEXT NOT NULL,
            tool TEXT NOT NULL,                   -- as its server names it; '': the connector itself was seen
            digest TEXT NOT NULL,                 -- of all that the server tells of it
            listed TEXT NOT NULL,                 -- JSON: what it told then
            accepted_by TEXT NOT NULL,
            accepted_at INTEGER NOT NULL,
            PRIMARY KEY (connector, tool)
        ) STRICT;
CREATE TABLE conversations (
        session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        provider TEXT NOT NULL,
        conversation TEXT NOT NULL,
        updated_at INTEGER NOT NULL,
        PRIMARY KEY (session_id, provider)
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
CREATE TABLE database_lives (
            name TEXT NOT NULL PRIMARY KEY,       -- the server's own id and its timeline
            gateway TEXT NOT NULL,                -- that noticed it
            synchronous INTEGER NOT NULL,             -- 1: commits waited for a standby, when a gateway last looked
            held INTEGER NOT NULL,                    -- effects that were open when it began; -1: nothing was lost
            since INTEGER NOT NULL,
            request_id TEXT NOT NULL DEFAULT ''   -- by which somebody decides about what is held
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
CREATE TABLE direct_room_readers (
            instance TEXT NOT NULL,
            address TEXT NOT NULL,
            identity TEXT NOT NULL,
            PRIMARY KEY (instance, address, identity)
        ) STRICT;
CREATE TABLE direct_rooms (
            user_id TEXT NOT NULL,
            instance TEXT NOT NULL,
            address TEXT NOT NULL,
            seen_at INTEGER NOT NULL,
            PRIMARY KEY (user_id, instance)
        ) STRICT;
CREATE TABLE duties (
            name TEXT NOT NULL PRIMARY KEY,       -- what one gateway at a time does: schedule, channel/NAME
            gateway TEXT NOT NULL,                -- that does it; '': nobody
            since INTEGER NOT NULL
        , health TEXT NOT NULL DEFAULT '', paused TEXT NOT NULL DEFAULT '') STRICT;
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
CREATE TABLE engagements (
            instance TEXT NOT NULL,
            address TEXT NOT NULL,
            thread TEXT NOT NULL,
            folder TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            route_id INTEGER REFERENCES routes (id) ON DELETE CASCADE,  -- NULL: by a call of the group itself
            until INTEGER,  -- NULL: it never ends
            ttl INTEGER NOT NULL,  -- microseconds that a reply extends it by
            engaged_at INTEGER NOT NULL,
            PRIMARY KEY (instance, address, thread, folder)
        ) STRICT;
CREATE TABLE entrances (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            instance TEXT NOT NULL,
            senders TEXT NOT NULL,  -- a glob: who may come in here
            folder TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,  -- their groups are made below it
            per_day INTEGER NOT NULL,  -- how many come in without anybody's word
            created_by TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            UNIQUE (instance, senders)
        ) STRICT;
CREATE TABLE errands (
            id TEXT PRIMARY KEY,
            call_key TEXT NOT NULL UNIQUE,        -- of the call that gave it out: made again, it is one errand
            parent TEXT NOT NULL,                 -- the errand in whose work it was given out; '': none
            caller_folder TEXT NOT NULL,
            caller_session TEXT NOT NULL,
            caller_turn TEXT NOT NULL,            -- '': between two turns
            rights TEXT NOT NULL,                 -- of that turn
            instance TEXT NOT NULL,               -- where that turn speaks, and its result returns
            address TEXT NOT NULL,
            thread TEXT NOT NULL,
            folder TEXT NOT NULL,                 -- who does it
            session_id TEXT NOT NULL,             -- in which conversation …
            room TEXT NOT NULL,                   -- … and room, whose threads are errands
            message_id INTEGER NOT NULL REFERENCES messages (id) ON DELETE CASCADE,  -- that asks for it
            state TEXT NOT NULL,                  -- open | stopping | done | failed | cancelled
            reason TEXT NOT NULL DEFAULT '',
            result_id INTEGER,                        -- the message by which its result returned
            created_at INTEGER NOT NULL,
            ended_at INTEGER                          -- NULL: it is not over
        ) STRICT;
CREATE TABLE firings (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            task_id TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
            due_at INTEGER NOT NULL,
            fired_at INTEGER NOT NULL,
            state TEXT NOT NULL,  -- queued | sent | answered | silent | failed | skipped | cancelled
            reason TEXT NOT NULL,
            times INTEGER NOT NULL,                       -- how many due times this row stands for: 1, or more if skipped
            message_id INTEGER,                           -- what it put into the ledger; NULL: nothing
            session_id TEXT NOT NULL,                 -- that works on it; '': none
            turn_id TEXT NOT NULL,                    -- '': none yet
            ended_at INTEGER
        ) STRICT;
CREATE TABLE forks (
            child_id TEXT NOT NULL PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
            parent_id TEXT NOT NULL,        -- a session, which may be gone
            folder TEXT NOT NULL,
            provider TEXT NOT NULL,
            conversation TEXT NOT NULL,     -- the parent's, which the child goes on with; '': none was copied
            how TEXT NOT NULL,              -- copied | transcript
            bytes INTEGER NOT NULL,             -- of the copied state
            created_at INTEGER NOT NULL
        ) STRICT;
CREATE TABLE gateways (
            name TEXT NOT NULL PRIMARY KEY,
            epoch INTEGER NOT NULL,                   -- rises with each life of it: what an earlier one writes is refused
            state TEXT NOT NULL,                  -- running | draining | gone
            until INTEGER NOT NULL,                   -- by the clock of the database: after that it is judged dead
            home TEXT NOT NULL,                   -- which home it runs on
            host TEXT NOT NULL,
            version TEXT NOT NULL,
            schema_number INTEGER NOT NULL,
            listen TEXT NOT NULL,
            capacity INTEGER NOT NULL,                -- sandboxes that may be awake there at once
            config_digest TEXT NOT NULL,
            plugin_digest TEXT NOT NULL,
            key_ids TEXT NOT NULL,
            started_at INTEGER NOT NULL
        , connections INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE given_files (
            key TEXT NOT NULL PRIMARY KEY,        -- of the effect that they belong to
            folder TEXT NOT NULL,
            session_id TEXT NOT NULL,
            turn_id TEXT NOT NULL,                -- '': outside of a turn
            bytes INTEGER NOT NULL,                       -- as they are on the host: holes count
            at INTEGER NOT NULL
        ) STRICT;
CREATE TABLE grants (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            folder TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            rule TEXT NOT NULL,
            added_by TEXT NOT NULL,
            added_at INTEGER NOT NULL
        ) STRICT;
CREATE TABLE group_members (
        user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
        folder TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
        added_by TEXT NOT NULL,
        added_at INTEGER NOT NULL,
        PRIMARY KEY (user_id, folder)
    ) STRICT;
CREATE TABLE group_moves (
            id TEXT NOT NULL PRIMARY KEY,
            world TEXT NOT NULL,
            source TEXT NOT NULL,                 -- the gateway that has its files
            target TEXT NOT NULL,                 -- the one that is to have them
            state TEXT NOT NULL,                  -- wanted | packed | arrived | done | failed
            sessions TEXT NOT NULL,               -- JSON: the ids of those that go with it
            files INTEGER NOT NULL,
            bytes INTEGER NOT NULL,
            digest TEXT NOT NULL,                 -- of every name, mode and content, by the source
            note TEXT NOT NULL,                   -- why it failed, or what somebody should know
            created_at INTEGER NOT NULL,
            ended_at INTEGER
        ) STRICT;
CREATE TABLE group_places (
            world TEXT NOT NULL PRIMARY KEY,      -- a group at the top, with all below it
            gateway TEXT NOT NULL,                -- that has its folders, where they are not shared
            since INTEGER NOT NULL,
            moving INTEGER NOT NULL DEFAULT 0         -- 1: nothing of it is woken, because its files are on their way
        ) STRICT;
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
CREATE TABLE identities (
            identity TEXT NOT NULL PRIMARY KEY,
            person TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,  -- the first identity of the same person
            paired_at INTEGER NOT NULL,
            paired_by TEXT NOT NULL
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
    , continues TEXT NOT NULL DEFAULT '') STRICT;
CREATE TABLE incarnations (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL,
            reason TEXT NOT NULL,                 -- restored | copied | rolled_back; '' for the first
            source TEXT NOT NULL,                 -- what it was made from, as far as is known, for people
            request_id TEXT NOT NULL,             -- that asks the owner about what is held; '': nothing is
            begun_at INTEGER NOT NULL,
            file TEXT NOT NULL,                   -- of the store, when it was last started
            home TEXT NOT NULL,
            machine TEXT NOT NULL,
            lives TEXT NOT NULL                   -- JSON: the last starts
        ) STRICT;
CREATE TABLE instructions (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            folder TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            digest TEXT NOT NULL,
            text TEXT NOT NULL,
            source TEXT NOT NULL,               -- written | put_back | found
            written_by TEXT NOT NULL,           -- a person, operator, agent:FOLDER; '': whoever uses the machine
            written_at INTEGER NOT NULL
        ) STRICT;
CREATE TABLE known_browsers (
            hash TEXT NOT NULL PRIMARY KEY,       -- of a cookie that signs nobody in
            user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
            created_at INTEGER NOT NULL
        ) STRICT;
CREATE TABLE link_signatures (
            token_id TEXT NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
            hash TEXT NOT NULL,                   -- of a signature that was accepted: it counts once
            seen_at INTEGER NOT NULL,
            PRIMARY KEY (token_id, hash)
        ) STRICT;
CREATE TABLE link_visitors (
            id TEXT NOT NULL PRIMARY KEY,
            hash TEXT NOT NULL UNIQUE,
            token_id TEXT NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
            identity TEXT NOT NULL,  -- as which she writes
            address TEXT NOT NULL,  -- her own room, below the link's
            created_at INTEGER NOT NULL,
            seen_at INTEGER NOT NULL  -- when she wrote last
        ) STRICT;
CREATE TABLE logins (
        hash TEXT PRIMARY KEY,                  -- of a one-time token or of a browser's session
        kind TEXT NOT NULL,                     -- once | browser
        user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
        expires_at INTEGER NOT NULL,
        created_at INTEGER NOT NULL
    , id TEXT, way TEXT NOT NULL DEFAULT 'one_time_link', device TEXT NOT NULL DEFAULT '', peer TEXT NOT NULL DEFAULT '', last_seen_at INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE memberships (
            child TEXT NOT NULL,
            parent TEXT NOT NULL,
            added_by TEXT NOT NULL,
            added_at INTEGER NOT NULL,
            PRIMARY KEY (child, parent),
            CHECK (child <> parent)
        ) STRICT;
CREATE TABLE memories (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            folder TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            text TEXT NOT NULL,
            about TEXT NOT NULL,                -- the person or thing, as the agent calls it
            scope TEXT NOT NULL,                -- person | room | agent | family
            person TEXT NOT NULL,               -- whom alone it may be told, with scope person
            instance TEXT NOT NULL,             -- of the room in which alone it may be told, with scope room
            address TEXT NOT NULL,
            message_id INTEGER REFERENCES messages (id) ON DELETE SET NULL,  -- its source
            speaker TEXT NOT NULL,              -- who said it; '': nobody, or the operator
            trust TEXT NOT NULL,                -- operator | member | stranger | read | concluded
            turn_id TEXT NOT NULL,              -- in which it was remembered; '': in none
            created_at INTEGER NOT NULL,
            expires_at INTEGER,                        -- NULL: for good
            ended_at INTEGER,                       -- NULL: it is in force
            ended_by TEXT NOT NULL,
            replaces INTEGER                        -- the entry that it took the place of
        , fact_key TEXT NOT NULL DEFAULT '', ended_trust TEXT NOT NULL DEFAULT '') STRICT;
CREATE TABLE memory_vectors (
            memory_id INTEGER PRIMARY KEY REFERENCES memories (id) ON DELETE CASCADE,
            folder TEXT NOT NULL,
            reader TEXT NOT NULL,               -- as in memory_words
            model TEXT NOT NULL,                -- that made it; of another one it is made anew
            dimensions INTEGER NOT NULL,            -- 0: the model makes none of this text
            signs TEXT NOT NULL,                -- a bit for each dimension, in hexadecimal digits
            vector BLOB NOT NULL                -- of length 1, 4 bytes for each dimension
        ) STRICT;
CREATE TABLE memory_views (
            folder TEXT PRIMARY KEY REFERENCES groups (folder) ON DELETE CASCADE,
            lines TEXT NOT NULL,                -- JSON: a digest of each line that was last written, by its entry
            written_at INTEGER NOT NULL
        ) STRICT;
CREATE TABLE memory_words (
            folder TEXT NOT NULL,
            word TEXT NOT NULL,                 -- its beginning, folded
            reader TEXT NOT NULL,               -- who may be told: what scope, person and room of the entry say
            memory_id INTEGER NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
            PRIMARY KEY (folder, word, reader, memory_id)
        ) STRICT;
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
    , topic TEXT NOT NULL DEFAULT '', revision TEXT NOT NULL DEFAULT '', forward_from TEXT) STRICT;
CREATE TABLE newcomers (
            id TEXT NOT NULL PRIMARY KEY,
            sender TEXT NOT NULL,
            name TEXT NOT NULL,
            instance TEXT NOT NULL,
            address TEXT NOT NULL,
            parent TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            entrance_id INTEGER,  -- NULL: by an invitation
            invited_by TEXT NOT NULL DEFAULT '',  -- who made the invitation
            state TEXT NOT NULL,  -- queued, admitted, settled, denied, failed
            folder TEXT NOT NULL DEFAULT '',  -- her group, as soon as its name is chosen
            reason TEXT NOT NULL DEFAULT '',
            asked_at INTEGER NOT NULL,
            admitted_at INTEGER,
            decided_by TEXT NOT NULL DEFAULT '',
            UNIQUE (sender, parent)
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
    , digest TEXT NOT NULL DEFAULT '', answers INTEGER, urgent INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE pairing_codes (
            hash TEXT NOT NULL PRIMARY KEY,
            person TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
            created_by TEXT NOT NULL,
            expires_at INTEGER NOT NULL,
            used_at INTEGER,
            used_by TEXT NOT NULL DEFAULT ''
        ) STRICT;
CREATE TABLE pairing_guesses (
            sender TEXT NOT NULL PRIMARY KEY,
            guesses INTEGER NOT NULL,
            first_at INTEGER NOT NULL
        ) STRICT;
CREATE TABLE passed_files (
            name TEXT NOT NULL,                   -- where it lies on the gateway that has it
            number INTEGER NOT NULL,                  -- of this piece
            data BLOB NOT NULL,
            message_id INTEGER,                       -- that it came with; NULL: it is sent, or not known yet
            at INTEGER NOT NULL,
            PRIMARY KEY (name, number)
        ) STRICT;
CREATE TABLE passkeys (
            id TEXT NOT NULL PRIMARY KEY,
            credential_id BLOB NOT NULL UNIQUE,   -- the authenticator's own name for it
            credential BLOB NOT NULL,             -- attested credential data: with the public key
            user_id TEXT NOT NULL,                -- the identity that it signs in
            user_handle BLOB NOT NULL,            -- what the authenticator knows her by: random
            host TEXT NOT NULL,                   -- where it works
            sign_count INTEGER NOT NULL,              -- how often it has signed; 0: it does not count
            label TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            last_used_at INTEGER
        ) STRICT;
CREATE TABLE passwords (
            user_id TEXT NOT NULL PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,  -- an identity of the page
            hash TEXT NOT NULL,                   -- argon2id, with its salt and its cost
            changed_at INTEGER NOT NULL
        ) STRICT;
CREATE TABLE pinned_rules (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            folder TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            address TEXT NOT NULL DEFAULT '',   -- a room; '': in all rooms of the group
            text TEXT NOT NULL,
            added_by TEXT NOT NULL,
            added_at INTEGER NOT NULL
        ) STRICT;
CREATE TABLE prompt_sizes (
            digest TEXT NOT NULL PRIMARY KEY,  -- of the endpoint, the model and the beginning of a prompt
            tokens INTEGER NOT NULL,               -- of the shortest prompt that began so
            counted_at INTEGER NOT NULL
        ) STRICT;
CREATE TABLE replay_turns (
            session_id TEXT NOT NULL REFERENCES replays (session_id) ON DELETE CASCADE,
            number INTEGER NOT NULL,                -- and the thread of its messages
            source_turn TEXT NOT NULL,
            PRIMARY KEY (session_id, number)
        ) STRICT;
CREATE TABLE replays (
            session_id TEXT NOT NULL PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
            source_id TEXT NOT NULL,            -- a session, which may be gone
            folder TEXT NOT NULL,
            changes TEXT NOT NULL,              -- JSON: by its name, what is not as it was
            created_by TEXT NOT NULL,
            created_at INTEGER NOT NULL
        ) STRICT;
CREATE TABLE request_cards (
            token TEXT NOT NULL PRIMARY KEY,           -- what the buttons of a card carry, and nothing else
            request_id TEXT NOT NULL REFERENCES requests (id) ON DELETE CASCADE,
            person TEXT NOT NULL,
            instance TEXT NOT NULL,
            address TEXT NOT NULL,
            message_id INTEGER NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
            shown_at INTEGER NOT NULL,
            open INTEGER NOT NULL DEFAULT 1                -- 0: the card says what was decided
        , part INTEGER NOT NULL DEFAULT 0, whole INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE request_votes (
            request_id TEXT NOT NULL REFERENCES requests (id) ON DELETE CASCADE,
            person TEXT NOT NULL,
            voted_at INTEGER NOT NULL,
            PRIMARY KEY (request_id, person)
        ) STRICT;
CREATE TABLE requests (
    id TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,
    folder TEXT NOT NULL DEFAULT '',           -- the group that it is about
    session_id TEXT REFERENCES sessions (id) ON DELETE CASCADE,
    turn_id TEXT NOT NULL DEFAULT '',
    name TEXT NOT NULL,                        -- by which whoever asks knows it again
    digest TEXT NOT NULL DEFAULT '',           -- of everything that was asked
    about TEXT NOT NULL DEFAULT '',            -- what an answer that lasts speaks of
    tool TEXT NOT NULL DEFAULT '',
    input TEXT NOT NULL DEFAULT '{}',
    cut INTEGER NOT NULL DEFAULT 0,                -- 1: `input` is an excerpt, the asker holds the whole
    follow_up TEXT NOT NULL DEFAULT '',
    next_mode TEXT NOT NULL DEFAULT '',
    instance TEXT NOT NULL DEFAULT '',         -- the room that it came from
    address TEXT NOT NULL DEFAULT '',
    thread TEXT NOT NULL DEFAULT '',
    rights TEXT NOT NULL DEFAULT '',           -- of the turn that asks
    why TEXT NOT NULL DEFAULT '',              -- a person must decide
    rule TEXT NOT NULL DEFAULT '',             -- that "always" writes
    state TEXT NOT NULL,
    answer TEXT NOT NULL DEFAULT '{}',
    lasts TEXT NOT NULL DEFAULT 'once',
    reason TEXT NOT NULL DEFAULT '',
    quorum INTEGER NOT NULL DEFAULT 1,
    asked_at INTEGER NOT NULL,
    expires_at INTEGER,
    next_at INTEGER,                               -- when somebody else is asked, or it expires
    answered_at INTEGER,
    answered_by TEXT NOT NULL DEFAULT '',
    settled_at INTEGER,                            -- when what follows from the answer was done
    notified_at INTEGER                                -- when whoever asked was told
, asker TEXT NOT NULL DEFAULT 'person', editable INTEGER NOT NULL DEFAULT 0, rooms TEXT NOT NULL DEFAULT '{}', preview TEXT NOT NULL DEFAULT '', bound TEXT NOT NULL DEFAULT '{}', failure TEXT NOT NULL DEFAULT '') STRICT;
CREATE TABLE reservation_charges ( reservation_id INTEGER NOT NULL REFERENCES reservations (id) ON DELETE CASCADE, step INTEGER NOT NULL, session_id TEXT NOT NULL, turn_id TEXT NOT NULL, PRIMARY KEY (reservation_id, step)) STRICT;
CREATE TABLE reservations (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        at INTEGER NOT NULL,
        folder TEXT NOT NULL,
        user_id TEXT NOT NULL,
        session_id TEXT NOT NULL,
        turn_id TEXT NOT NULL,
        model TEXT NOT NULL,
        worst INTEGER NOT NULL CHECK (worst >= 0)   -- millionths of a USD
    , gateway TEXT NOT NULL DEFAULT '', input INTEGER NOT NULL DEFAULT 0, output INTEGER NOT NULL DEFAULT 0, charged_turn TEXT NOT NULL DEFAULT '') STRICT;
CREATE TABLE restored_rows (
            request_id TEXT NOT NULL,             -- by which the owner decides about them
            kind TEXT NOT NULL,                   -- effect | call
            row_id TEXT NOT NULL,
            PRIMARY KEY (request_id, kind, row_id)
        ) STRICT;
CREATE TABLE room_pins (
            message_id INTEGER NOT NULL PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
            instance TEXT NOT NULL,
            address TEXT NOT NULL,
            pinned_by TEXT NOT NULL,
            pinned_at INTEGER NOT NULL
        ) STRICT;
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
CREATE TABLE rule_state (only INTEGER NOT NULL PRIMARY KEY CHECK (only = 1), name TEXT NOT NULL, places TEXT NOT NULL DEFAULT 'first') STRICT;
CREATE TABLE schema_version (number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT;
CREATE VIRTUAL TABLE search USING fts5 (text, marks, content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 2');
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
CREATE TABLE session_files (
            session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
            row_id INTEGER NOT NULL,                -- of the inbox: what its folder is called
            message_id INTEGER NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
            files TEXT NOT NULL,                -- JSON: names, and where they lie below the media folder
            bytes INTEGER NOT NULL,
            dropped_for INTEGER,                    -- the later row whose files needed its space
            PRIMARY KEY (session_id, row_id)
        ) STRICT;
CREATE TABLE session_notes (
            session_id TEXT NOT NULL PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
            pinned TEXT NOT NULL DEFAULT '',          -- shown to the agent with each turn
            pinned_by TEXT NOT NULL DEFAULT '',       -- an identity
            summary TEXT NOT NULL DEFAULT ''          -- of what was said before; shown to a new conversation
        , transcript TEXT NOT NULL DEFAULT '') STRICT;
CREATE TABLE session_tokens (
            session_id TEXT NOT NULL PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
            digest TEXT NOT NULL UNIQUE,
            made_at INTEGER NOT NULL
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
    , agent INTEGER NOT NULL DEFAULT 0, model TEXT NOT NULL DEFAULT '', permission_mode TEXT NOT NULL DEFAULT '', cwd TEXT NOT NULL DEFAULT '', labels TEXT NOT NULL DEFAULT '{}', parent TEXT NOT NULL DEFAULT '', notify INTEGER NOT NULL DEFAULT 0, archived_at INTEGER, reset_at INTEGER, unlocked TEXT NOT NULL DEFAULT '') STRICT;
CREATE TABLE shared_folders (
            name TEXT NOT NULL PRIMARY KEY,
            mark TEXT NOT NULL,                   -- lies in the folder: who does not see it there sees another folder
            gateway TEXT NOT NULL,                -- that put it there
            since INTEGER NOT NULL
        ) STRICT;
CREATE TABLE skill_adoptions (folder TEXT NOT NULL PRIMARY KEY) STRICT;
CREATE TABLE skill_contents (
            digest TEXT NOT NULL PRIMARY KEY,
            description TEXT NOT NULL,
            facts TEXT NOT NULL,                -- JSON: what its files say of it
            size INTEGER NOT NULL,
            files INTEGER NOT NULL,
            source TEXT NOT NULL,               -- path | git | zip | draft | agent | person | before | replay
            origin TEXT NOT NULL,               -- where it was read from
            revision TEXT NOT NULL,             -- of a git repository: the commit
            pack BLOB NOT NULL,                 -- its files, compressed
            added_at INTEGER NOT NULL
        , agreed INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE skills (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            folder TEXT NOT NULL,               -- '': every agent
            below INTEGER NOT NULL,                 -- 1: the groups below it have it, too
            session_id TEXT NOT NULL,           -- of a replay, which alone has it; else ''
            name TEXT NOT NULL,
            digest TEXT NOT NULL REFERENCES skill_contents (digest),
            source TEXT NOT NULL,
            origin TEXT NOT NULL,
            revision TEXT NOT NULL,
            agreed_by TEXT NOT NULL,
            agreed_at INTEGER NOT NULL
        ) STRICT;
CREATE TABLE spending (
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        period TEXT NOT NULL,
        starts_at INTEGER NOT NULL,
        spent INTEGER NOT NULL DEFAULT 0,
        reserved INTEGER NOT NULL DEFAULT 0 CHECK (reserved >= 0),
        told_near INTEGER NOT NULL DEFAULT 0,       -- 1: the note at 80 % was given
        told_stop INTEGER NOT NULL DEFAULT 0, refuses INTEGER NOT NULL DEFAULT 0, raised INTEGER NOT NULL DEFAULT 0, needed INTEGER NOT NULL DEFAULT 0,       -- 1: the message at the end was given
        PRIMARY KEY (kind, name, period, starts_at)
    ) STRICT;
CREATE TABLE spent_tickets (
            id TEXT NOT NULL PRIMARY KEY,
            expires_at INTEGER NOT NULL  -- it is good for nothing from then on, and forgotten
        ) STRICT;
CREATE TABLE steps (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        message_id INTEGER NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
        row_id INTEGER,                             -- the inbox or outbox row that moved
        at INTEGER NOT NULL,
        step TEXT NOT NULL,
        detail TEXT NOT NULL DEFAULT ''
    ) STRICT;
CREATE TABLE sticky_choices (
            instance TEXT NOT NULL,
            address TEXT NOT NULL,
            thread TEXT NOT NULL,
            sender TEXT NOT NULL,
            folder TEXT NOT NULL,  -- '': as routes say
            topic TEXT NOT NULL,  -- '': as routes say
            chosen_at INTEGER NOT NULL,
            PRIMARY KEY (instance, address, thread, sender)
        ) STRICT;
CREATE TABLE switches (
        name TEXT PRIMARY KEY,                  -- panic
        reason TEXT NOT NULL,                   -- the operator's own words, '' for none
        turned_by TEXT NOT NULL,
        since INTEGER NOT NULL
    ) STRICT;
CREATE TABLE task_holds (
            task_id TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
            folder TEXT NOT NULL,                     -- whose rule it is
            rule TEXT NOT NULL,                       -- that holds `send`, and that somebody agreed to
            PRIMARY KEY (task_id, folder, rule)
        ) STRICT;
CREATE TABLE task_origins (
            task_id TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
            ordinal INTEGER NOT NULL,                     -- 0: who pays
            person TEXT NOT NULL,                     -- '': nobody
            instance TEXT NOT NULL,
            address TEXT NOT NULL,
            thread TEXT NOT NULL,
            PRIMARY KEY (task_id, ordinal)
        ) STRICT;
CREATE TABLE tasks (
            id TEXT NOT NULL PRIMARY KEY,
            folder TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            instance TEXT NOT NULL,                   -- the room where it runs and speaks
            address TEXT NOT NULL,
            thread TEXT NOT NULL,
            prompt TEXT NOT NULL,                     -- wakes the agent; '': there is a text
            text TEXT NOT NULL,                       -- is delivered as it is, and wakes nobody
            script TEXT NOT NULL,                     -- runs in the sandbox before the prompt; '': none
            kind TEXT NOT NULL,                       -- cron | every | once
            schedule TEXT NOT NULL,                   -- as it was written
            every INTEGER NOT NULL,                       -- microseconds between two times; 0: of another kind
            zone TEXT NOT NULL,
            context TEXT NOT NULL,                    -- group | isolated
            missed TEXT NOT NULL,                     -- skip | once | all
            state TEXT NOT NULL,                      -- active | paused | completed | cancelled
            reason TEXT NOT NULL,                     -- why it is not active
            next_at INTEGER,                              -- NULL: it does not fire
            max_runs INTEGER,
            expires_at INTEGER,
            runs INTEGER NOT NULL,                        -- firings so far, skipped ones not counted
            failures INTEGER NOT NULL,                    -- in a row
            created_by TEXT NOT NULL,                 -- a person, agent:FOLDER, or gatepost
            depth INTEGER NOT NULL,                       -- steps from agent to agent behind it
            created_at INTEGER NOT NULL,
            updated_at INTEGER NOT NULL
        , title TEXT NOT NULL DEFAULT '', max_cost INTEGER) STRICT;
CREATE TABLE thread_marks (
            person TEXT NOT NULL,
            instance TEXT NOT NULL,
            address TEXT NOT NULL,
            thread TEXT NOT NULL,
            mark TEXT NOT NULL,                 -- pinned | archived
            marked_at INTEGER NOT NULL,
            PRIMARY KEY (person, instance, address, thread)
        ) STRICT;
CREATE TABLE threads (
            instance TEXT NOT NULL,
            address TEXT NOT NULL,
            thread TEXT NOT NULL,
            name TEXT NOT NULL,
            named_by TEXT NOT NULL,
            named_at INTEGER NOT NULL,
            PRIMARY KEY (instance, address, thread)
        ) STRICT;
CREATE TABLE timeline (
            session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
            seq INTEGER NOT NULL,
            at INTEGER NOT NULL,
            turn_id TEXT NOT NULL DEFAULT '',
            kind TEXT NOT NULL,
            data TEXT NOT NULL,
            PRIMARY KEY (session_id, seq)
        ) STRICT;
CREATE TABLE tokens (
            id TEXT NOT NULL PRIMARY KEY,
            hash TEXT NOT NULL UNIQUE,
            kind TEXT NOT NULL,  -- invite, chat_link, webhook, pairing_link
            folder TEXT REFERENCES groups (folder) ON DELETE CASCADE,  -- whom it is for; NULL: no group
            own_group INTEGER NOT NULL DEFAULT 0,  -- of an invitation: a group below `folder` for each who accepts
            instance TEXT NOT NULL DEFAULT '',  -- of a pairing link: where it was asked for
            address TEXT NOT NULL DEFAULT '',  -- the room that it leads to, or was asked for in
            identity TEXT NOT NULL DEFAULT '',  -- of a pairing link: what is bound to whoever confirms
            label TEXT NOT NULL DEFAULT '',
            uses_left INTEGER,  -- NULL: any number
            expires_at INTEGER,  -- NULL: never
            created_by TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            revoked_at INTEGER,
            last_used_at INTEGER
        , instructions TEXT NOT NULL DEFAULT '', signature TEXT NOT NULL DEFAULT 'none', signing_key TEXT NOT NULL DEFAULT '', origins TEXT NOT NULL DEFAULT '', rights TEXT NOT NULL DEFAULT 'talk', page INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE trusted_setups (
            project TEXT NOT NULL,
            digest TEXT NOT NULL,
            trusted_by TEXT NOT NULL,
            trusted_at INTEGER NOT NULL,
            PRIMARY KEY (project, digest)
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
    , said_bytes INTEGER NOT NULL DEFAULT 0, topic TEXT NOT NULL DEFAULT '') STRICT;
CREATE TABLE uids (
            world TEXT NOT NULL PRIMARY KEY,      -- the first part of a group's folder
            uid INTEGER NOT NULL UNIQUE,
            assigned_at INTEGER NOT NULL
        ) STRICT;
CREATE TABLE unsearched (message_id INTEGER PRIMARY KEY) STRICT;
CREATE TABLE user_roles (
        user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
        role TEXT NOT NULL,                     -- owner | admin
        folder TEXT NOT NULL DEFAULT '',        -- '' means everywhere; never NULL, so a role cannot be given twice
        granted_by TEXT NOT NULL,
        granted_at INTEGER NOT NULL,
        PRIMARY KEY (user_id, role, folder)
    ) STRICT;
CREATE TABLE users (
        id TEXT PRIMARY KEY,                    -- the sender's address, telegram:user/9
        name TEXT NOT NULL DEFAULT '',
        created_at INTEGER NOT NULL
    , language TEXT NOT NULL DEFAULT '') STRICT;
CREATE TABLE wanted_forks (
            message_id INTEGER NOT NULL PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,  -- that asks for it
            parent_id TEXT NOT NULL,        -- a session, which may be gone
            topic TEXT NOT NULL,
            tries INTEGER NOT NULL DEFAULT 0    -- how often a gateway has begun with it
        ) STRICT;
CREATE TABLE watchers (
            observer TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            source TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            added_by TEXT NOT NULL,
            added_at INTEGER NOT NULL,
            PRIMARY KEY (source, observer),
            CHECK (observer <> source)
        ) STRICT;
CREATE TABLE web_hosts (
            hostname TEXT NOT NULL PRIMARY KEY,
            folder TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,
            owner TEXT NOT NULL DEFAULT '',       -- the group whose agent bound it; '': a person
            created_by TEXT NOT NULL,
            created_at INTEGER NOT NULL
        ) STRICT;
CREATE TABLE web_routes (
            path TEXT NOT NULL PRIMARY KEY,       -- /pub/FOLDER/… or /priv/FOLDER/…, without a slash at its end
            folder TEXT NOT NULL REFERENCES groups (folder) ON DELETE CASCADE,  -- in whose part the path lies
            access TEXT NOT NULL,                 -- public, auth, deny, redirect
            redirect_to TEXT NOT NULL DEFAULT '',
            owner TEXT NOT NULL DEFAULT '',       -- the group whose agent made it; '': a person
            created_by TEXT NOT NULL,
            created_at INTEGER NOT NULL
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
CREATE UNIQUE INDEX alerts_open ON alerts (condition, subject, gateway) WHERE over_at IS NULL;
CREATE INDEX alerts_over ON alerts (over_at) WHERE over_at IS NOT NULL;
CREATE UNIQUE INDEX audit_chains ON audit (gateway, number) WHERE gateway <> '';
CREATE INDEX commands_by_asker ON commands (asker, state);
CREATE INDEX commands_by_gateway ON commands (gateway, state);
CREATE INDEX costs_at ON costs (at);
CREATE INDEX costs_session ON costs (session_id, at, micro);
CREATE INDEX destinations_room ON destinations (folder, instance, address);
CREATE INDEX egress_log_folder ON egress_log (folder, id);
CREATE UNIQUE INDEX egress_log_once ON egress_log (session_id, target, verdict, reason);
CREATE UNIQUE INDEX egress_rules_once ON egress_rules (COALESCE(folder, ''), host, port);
CREATE INDEX engagements_group ON engagements (folder);
CREATE INDEX engagements_route ON engagements (route_id);
CREATE INDEX engagements_until ON engagements (until);
CREATE INDEX errands_message ON errands (message_id);
CREATE INDEX errands_open ON errands (id) WHERE ended_at IS NULL;
CREATE INDEX errands_open_caller ON errands (caller_session) WHERE ended_at IS NULL;
CREATE INDEX errands_open_folder ON errands (folder) WHERE ended_at IS NULL;
CREATE INDEX errands_open_parent ON errands (parent) WHERE ended_at IS NULL;
CREATE INDEX errands_open_room ON errands (room) WHERE ended_at IS NULL;
CREATE INDEX errands_parent ON errands (parent, id) WHERE parent <> '';
CREATE INDEX firings_age ON firings (fired_at);
CREATE UNIQUE INDEX firings_message ON firings (message_id);
CREATE UNIQUE INDEX firings_once ON firings (task_id, due_at);
CREATE INDEX firings_open ON firings (task_id) WHERE state = 'queued';
CREATE INDEX forks_folder ON forks (folder, created_at);
CREATE INDEX forks_parent ON forks (parent_id);
CREATE INDEX given_files_group ON given_files (folder, at);
CREATE INDEX given_files_turn ON given_files (session_id, turn_id);
CREATE INDEX grants_folder ON grants (folder, id);
CREATE UNIQUE INDEX group_moves_open ON group_moves (world) WHERE ended_at IS NULL;
CREATE INDEX identities_person ON identities (person);
CREATE INDEX inbox_failed ON inbox (folder) WHERE state = 'failed';
CREATE INDEX inbox_held ON inbox (folder, id) WHERE state = 'held';
CREATE INDEX inbox_observed ON inbox (session_id, seq) WHERE mode = 'observe' AND given = 0;
CREATE INDEX inbox_open ON inbox (next_at) WHERE state <> 'answered' AND state <> 'silent' AND state <> 'observed' AND state <> 'refused' AND state <> 'cancelled' AND state <> 'failed';
CREATE INDEX inbox_open_session ON inbox (session_id, seq) WHERE state <> 'answered' AND state <> 'silent' AND state <> 'observed' AND state <> 'refused' AND state <> 'cancelled' AND state <> 'failed';
CREATE INDEX inbox_open_tasks ON inbox (session_id, seq) WHERE mode = 'task' AND state <> 'answered' AND state <> 'silent' AND state <> 'observed' AND state <> 'refused' AND state <> 'cancelled' AND state <> 'failed';
CREATE UNIQUE INDEX inbox_seq ON inbox (session_id, seq) WHERE session_id IS NOT NULL;
CREATE UNIQUE INDEX inbox_target ON inbox (message_id, session_id);
CREATE INDEX inbox_turn ON inbox (turn_id) WHERE turn_id IS NOT NULL;
CREATE INDEX instructions_folder ON instructions (folder, id);
CREATE INDEX known_browsers_user ON known_browsers (user_id, created_at);
CREATE INDEX link_signatures_age ON link_signatures (token_id, seen_at);
CREATE INDEX link_visitors_identity ON link_visitors (identity);
CREATE INDEX link_visitors_seen ON link_visitors (token_id, seen_at);
CREATE UNIQUE INDEX logins_id ON logins (id);
CREATE INDEX logins_user ON logins (user_id, kind);
CREATE INDEX memories_ended_lately ON memories (ended_at) WHERE ended_trust <> '';
CREATE UNIQUE INDEX memories_fact ON memories (folder, fact_key) WHERE fact_key <> '';
CREATE INDEX memories_folder ON memories (folder, ended_at, id);
CREATE INDEX memories_live_expiring ON memories (folder, expires_at, id) WHERE ended_at IS NULL AND expires_at IS NOT NULL;
CREATE INDEX memories_live_reader ON memories (folder, scope, person, instance, address, id) WHERE ended_at IS NULL;
CREATE INDEX memories_live_speaker ON memories (folder, speaker, id) WHERE ended_at IS NULL;
CREATE INDEX memories_message ON memories (message_id);
CREATE INDEX memories_replaces ON memories (replaces);
CREATE INDEX memory_vectors_reader ON memory_vectors (folder, reader, model, dimensions, signs, memory_id);
CREATE INDEX memory_words_memory ON memory_words (memory_id);
CREATE UNIQUE INDEX messages_identity ON messages (instance, address, direction, platform_id, event);
CREATE INDEX messages_room ON messages (instance, address, id);
CREATE INDEX messages_said ON messages (instance, address, at, id);
CREATE INDEX newcomers_admitted ON newcomers (entrance_id, admitted_at);
CREATE INDEX newcomers_state ON newcomers (state, asked_at);
CREATE INDEX outbox_message ON outbox (message_id);
CREATE INDEX outbox_open ON outbox (instance, address, urgent DESC, id) WHERE state IN ('pending', 'sending');
CREATE INDEX outbox_said ON outbox (turn_id, digest, answers) WHERE turn_id IS NOT NULL;
CREATE INDEX outbox_session ON outbox (session_id, seq) WHERE session_id IS NOT NULL;
CREATE INDEX outbox_target ON outbox (target_id) WHERE target_id IS NOT NULL;
CREATE INDEX outbox_turn ON outbox (turn_id) WHERE turn_id IS NOT NULL;
CREATE INDEX outbox_unclear ON outbox (updated_at) WHERE state IN ('uncertain', 'failed');
CREATE INDEX passed_files_message ON passed_files (message_id) WHERE message_id IS NOT NULL;
CREATE INDEX passkeys_by_user ON passkeys (user_id, id);
CREATE INDEX pinned_rules_folder ON pinned_rules (folder, id);
CREATE INDEX replays_folder ON replays (folder, created_at);
CREATE INDEX replays_source ON replays (source_id);
CREATE INDEX request_cards_message ON request_cards (message_id);
CREATE INDEX request_cards_open ON request_cards (instance, address) WHERE open = 1;
CREATE INDEX request_cards_request ON request_cards (request_id);
CREATE INDEX requests_by_kind ON requests (kind, folder, asked_at);
CREATE INDEX requests_by_kind_and_name ON requests (kind, folder, name, asked_at);
CREATE INDEX requests_by_name ON requests (name, folder, asked_at) WHERE session_id IS NULL;
CREATE INDEX requests_due ON requests (next_at) WHERE state = 'pending';
CREATE INDEX requests_lasting ON requests (session_id, about) WHERE state = 'allowed' AND lasts = 'session';
CREATE UNIQUE INDEX requests_of_people ON requests (kind, folder, name) WHERE session_id IS NULL AND state = 'pending';
CREATE UNIQUE INDEX requests_of_session ON requests (session_id, turn_id, name, digest) WHERE session_id IS NOT NULL;
CREATE INDEX requests_open_session ON requests (session_id, turn_id) WHERE notified_at IS NULL;
CREATE INDEX requests_pending ON requests (asked_at) WHERE state = 'pending';
CREATE INDEX requests_pending_folder ON requests (folder) WHERE state = 'pending';
CREATE INDEX requests_pending_session ON requests (session_id) WHERE state = 'pending';
CREATE INDEX requests_unnotified ON requests (answered_at) WHERE state <> 'pending' AND notified_at IS NULL;
CREATE INDEX reservation_charges_session ON reservation_charges (session_id);
CREATE INDEX reservation_charges_turn ON reservation_charges (turn_id);
CREATE INDEX reservations_session ON reservations (session_id);
CREATE INDEX room_pins_room ON room_pins (instance, address, pinned_at);
CREATE INDEX routes_order ON routes (seq, id);
CREATE UNIQUE INDEX secret_bindings_once ON secret_bindings (COALESCE(folder, ''), scheme, host, port, header);
CREATE INDEX session_files_message ON session_files (message_id);
CREATE INDEX sessions_address ON sessions (address);
CREATE INDEX sessions_agents ON sessions (active_at) WHERE agent = 1;
CREATE INDEX sessions_folder ON sessions (folder, active_at);
CREATE UNIQUE INDEX sessions_live_key ON sessions (key) WHERE closed_at IS NULL;
CREATE INDEX sessions_live_room ON sessions (address, folder, instance) WHERE closed_at IS NULL AND mode <> 'isolated';
CREATE INDEX sessions_open_errands ON sessions (active_at, address) WHERE instance = 'errands' AND closed_at IS NULL;
CREATE INDEX sessions_owned ON sessions (owner) WHERE owner <> '';
CREATE INDEX skills_digest ON skills (digest);
CREATE UNIQUE INDEX skills_name ON skills (folder, session_id, name);
CREATE INDEX skills_session ON skills (session_id);
CREATE INDEX spent_tickets_expiry ON spent_tickets (expires_at);
CREATE INDEX steps_message ON steps (message_id, id);
CREATE INDEX tasks_due ON tasks (state, next_at);
CREATE INDEX tasks_folder ON tasks (folder, state);
CREATE INDEX tokens_folder ON tokens (folder);
CREATE INDEX tokens_identity ON tokens (identity) WHERE identity <> '';
CREATE UNIQUE INDEX turns_open ON turns (session_id) WHERE ended_at IS NULL;
CREATE INDEX turns_room ON turns (instance, address, ended_at);
CREATE INDEX turns_session ON turns (session_id, started_at);
CREATE INDEX web_hosts_by_folder ON web_hosts (folder);
CREATE INDEX web_routes_by_folder ON web_routes (folder);
CREATE TRIGGER search_added AFTER INSERT ON messages WHEN NEW.text <> '' BEGIN INSERT INTO unsearched VALUES (NEW.id); END;
CREATE TRIGGER search_changed AFTER UPDATE OF text, instance, address, sender ON messages BEGIN DELETE FROM search WHERE rowid = OLD.id; INSERT OR IGNORE INTO unsearched VALUES (NEW.id); END;
CREATE TRIGGER search_removed AFTER DELETE ON messages BEGIN DELETE FROM search WHERE rowid = OLD.id; DELETE FROM unsearched WHERE message_id = OLD.id; END;
