"""Steps 23 to 31. Never edited: stores have them behind them."""

from gatepost.store.port import Db

REQUESTS_0023 = """CREATE TABLE requests (
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
) {strict}"""


KEPT_0023 = (
    "id, kind, session_id, turn_id, digest, tool, input, cut, answer, follow_up, next_mode, reason, asked_at,"
    " answered_at, answered_by"
)


def apply_0023(db: Db) -> None:
    """Add requests: whatever waits for a person's decision, in one table with one id space.

    Requests of providers move into it. Cards say to whom a request was shown, and by which token they may answer. Votes
    say who agreed to a request that needs several. Direct rooms say where a person can be reached alone.
    """
    db.define(REQUESTS_0023)
    db.define(
        f"INSERT INTO requests ({KEPT_0023}, name, folder, state, settled_at, notified_at) SELECT"
        " p.id, p.kind, p.session_id, p.turn_id, p.digest, p.tool, p.input, p.cut, p.answer, p.follow_up, p.next_mode,"
        " p.reason, p.asked_at, p.answered_at, p.answered_by, p.request, s.folder,"
        " CASE p.state WHEN 'over' THEN 'withdrawn' ELSE p.state END, p.answered_at, p.answered_at"
        " FROM permissions p JOIN sessions s ON s.id = p.session_id"
    )
    db.define("DROP TABLE permissions")
    db.define(
        "CREATE UNIQUE INDEX requests_of_session ON requests (session_id, turn_id, name, digest)"
        " WHERE session_id IS NOT NULL"
    )
    db.define(
        "CREATE UNIQUE INDEX requests_of_people ON requests (kind, folder, name)"
        " WHERE session_id IS NULL AND state = 'pending'"
    )
    db.define("CREATE INDEX requests_by_name ON requests (name, folder, asked_at) WHERE session_id IS NULL")
    db.define("CREATE INDEX inbox_held ON inbox (folder, id) WHERE state = 'held'")
    db.define("CREATE INDEX requests_pending ON requests (asked_at) WHERE state = 'pending'")
    db.define("CREATE INDEX requests_pending_session ON requests (session_id) WHERE state = 'pending'")
    db.define("CREATE INDEX requests_due ON requests (next_at) WHERE state = 'pending'")
    db.define(
        "CREATE INDEX requests_unnotified ON requests (answered_at) WHERE state <> 'pending' AND notified_at IS NULL"
    )
    db.define(
        "CREATE INDEX requests_lasting ON requests (session_id, about) WHERE state = 'allowed' AND lasts = 'session'"
    )
    db.define(
        """CREATE TABLE request_cards (
            token {text} NOT NULL PRIMARY KEY,           -- what the buttons of a card carry, and nothing else
            request_id {text} NOT NULL REFERENCES requests (id) ON DELETE CASCADE,
            person {text} NOT NULL,
            instance {text} NOT NULL,
            address {text} NOT NULL,
            message_id {int} NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
            shown_at {int} NOT NULL,
            open {int} NOT NULL DEFAULT 1                -- 0: the card says what was decided
        ) {strict}"""
    )
    db.define("CREATE INDEX request_cards_request ON request_cards (request_id)")
    db.define("CREATE INDEX request_cards_open ON request_cards (instance, address) WHERE open = 1")
    db.define("CREATE INDEX request_cards_message ON request_cards (message_id)")
    db.define(
        """CREATE TABLE request_votes (
            request_id {text} NOT NULL REFERENCES requests (id) ON DELETE CASCADE,
            person {text} NOT NULL,
            voted_at {int} NOT NULL,
            PRIMARY KEY (request_id, person)
        ) {strict}"""
    )
    db.define(
        """CREATE TABLE direct_rooms (
            user_id {text} NOT NULL,
            instance {text} NOT NULL,
            address {text} NOT NULL,
            seen_at {int} NOT NULL,
            PRIMARY KEY (user_id, instance)
        ) {strict}"""
    )
    db.define(
        "INSERT INTO direct_rooms (user_id, instance, address, seen_at)"
        " SELECT m.sender, r.instance, MAX(r.address), MAX(m.accepted_at) FROM rooms r JOIN messages m"
        " ON m.instance = r.instance AND m.address = r.address AND m.direction = 'in' AND m.kind = 'chat'"
        " JOIN users u ON u.id = m.sender WHERE r.direct = 1 GROUP BY m.sender, r.instance"
    )


PERSON_0024, OTHER_0024 = "terminal:owner", "web:user/owner"


def apply_0024(db: Db) -> None:
    """Let a person have several identities. A code binds a further one.

    The owner's identities in the terminal and on the web page become one person.
    """
    db.define(
        """CREATE TABLE identities (
            identity {text} NOT NULL PRIMARY KEY,
            person {text} NOT NULL REFERENCES users (id) ON DELETE CASCADE,  -- the first identity of the same person
            paired_at {int} NOT NULL,
            paired_by {text} NOT NULL
        ) {strict}"""
    )
    db.define("CREATE INDEX identities_person ON identities (person)")
    db.define(
        """CREATE TABLE pairing_codes (
            hash {text} NOT NULL PRIMARY KEY,
            person {text} NOT NULL REFERENCES users (id) ON DELETE CASCADE,
            created_by {text} NOT NULL,
            expires_at {int} NOT NULL,
            used_at {int},
            used_by {text} NOT NULL DEFAULT ''
        ) {strict}"""
    )
    db.define(
        """CREATE TABLE pairing_guesses (
            sender {text} NOT NULL PRIMARY KEY,
            guesses {int} NOT NULL,
            first_at {int} NOT NULL
        ) {strict}"""
    )
    if len(db.rows("SELECT id FROM users WHERE id IN (?, ?)", (PERSON_0024, OTHER_0024))) == 2:
        _pair_owner(db)


def _pair_owner(db: Db) -> None:
    """Roles, memberships and budgets of the second identity move to the person. Secrets stay: they are sealed with the
    name that they were set for."""
    both = (PERSON_0024, OTHER_0024)
    db.run(
        "INSERT INTO identities (identity, person, paired_at, paired_by)"
        " SELECT id, ?, created_at, 'gatepost' FROM users WHERE id = ?",
        both,
    )
    db.run(
        "INSERT INTO user_roles (user_id, role, folder, granted_by, granted_at)"
        " SELECT ?, role, folder, granted_by, granted_at FROM user_roles WHERE user_id = ?"
        " ON CONFLICT (user_id, role, folder) DO NOTHING",
        both,
    )
    db.run(
        "INSERT INTO group_members (user_id, folder, added_by, added_at)"
        " SELECT ?, folder, added_by, added_at FROM group_members WHERE user_id = ?"
        " ON CONFLICT (user_id, folder) DO NOTHING",
        both,
    )
    db.run(
        "INSERT INTO memberships (child, parent, added_by, added_at)"
        " SELECT ?, parent, added_by, added_at FROM memberships WHERE child = ? ON CONFLICT (child, parent) DO NOTHING",
        both,
    )
    db.run(
        "INSERT INTO budgets (kind, name, period, micro, set_by, set_at)"
        " SELECT kind, ?, period, micro, set_by, set_at FROM budgets WHERE kind = 'user' AND name = ?"
        " ON CONFLICT (kind, name, period) DO UPDATE SET"
        " micro = CASE WHEN excluded.micro < budgets.micro THEN excluded.micro ELSE budgets.micro END",
        both,
    )
    db.run(
        "INSERT INTO spending (kind, name, period, starts_at, spent, reserved)"
        " SELECT kind, ?, period, starts_at, spent, reserved FROM spending WHERE kind = 'user' AND name = ?"
        " ON CONFLICT (kind, name, period, starts_at) DO UPDATE SET spent = spending.spent + excluded.spent,"
        " reserved = spending.reserved + excluded.reserved",
        both,
    )
    db.run("UPDATE reservations SET user_id = ? WHERE user_id = ?", both)
    db.run("DELETE FROM user_roles WHERE user_id = ?", (OTHER_0024,))
    db.run("DELETE FROM group_members WHERE user_id = ?", (OTHER_0024,))
    db.run("DELETE FROM memberships WHERE child = ?", (OTHER_0024,))
    db.run("DELETE FROM budgets WHERE kind = 'user' AND name = ?", (OTHER_0024,))
    db.run("DELETE FROM spending WHERE kind = 'user' AND name = ?", (OTHER_0024,))


def apply_0025(db: Db) -> None:
    """Keep who waits for the answer to a request, and which question of it a card asks.

    An agent's own question is none of its provider's: the provider waits in the turn, the agent is told later.
    """
    db.define("ALTER TABLE requests ADD COLUMN asker {text} NOT NULL DEFAULT 'person'")
    db.define("ALTER TABLE request_cards ADD COLUMN part {int} NOT NULL DEFAULT 0")
    db.run("UPDATE requests SET asker = 'agent' WHERE kind = 'call'")
    db.run("UPDATE requests SET asker = 'provider' WHERE kind IN ('tool', 'plan', 'question', 'mode', 'other')")


def apply_0026(db: Db) -> None:
    """Add indexes for turns that sleep until somebody decides, and for the cap of requests that wait in one group.

    A request says if a person may put other arguments in place of those that are asked for.
    """
    db.define("ALTER TABLE requests ADD COLUMN editable {int} NOT NULL DEFAULT 0")
    db.run("UPDATE requests SET editable = 1 WHERE kind = 'call'")
    db.define("CREATE INDEX requests_open_session ON requests (session_id, turn_id) WHERE notified_at IS NULL")
    db.define("CREATE INDEX requests_pending_folder ON requests (folder) WHERE state = 'pending'")


def apply_0027(db: Db) -> None:
    """Add notes of a conversation: one that people pinned, and the summary that it began with.

    They have a table of their own: the row of a session is read with each message, and these are long. The index is for
    the recent cost of a conversation.
    """
    db.define(
        """CREATE TABLE session_notes (
            session_id {text} NOT NULL PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
            pinned {text} NOT NULL DEFAULT '',          -- shown to the agent with each turn
            pinned_by {text} NOT NULL DEFAULT '',       -- an identity
            summary {text} NOT NULL DEFAULT ''          -- of what was said before; shown to a new conversation
        ) {strict}"""
    )
    db.define("CREATE INDEX costs_session ON costs (session_id, at, micro)")


def apply_0028(db: Db) -> None:
    """Add tokens that let somebody in: invitations, chat links, webhooks, pairing links.

    Entrances are where newcomers get a group of their own.
    """
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


def apply_0029(db: Db) -> None:
    """Count requests by their subject: rooms or hosts that people were asked about lately, and their last answers.

    A held call keeps by which bot it reaches each of its rooms: two may share an address.
    """
    db.define("ALTER TABLE requests ADD COLUMN rooms {text} NOT NULL DEFAULT '{{}}'")
    db.define("CREATE INDEX requests_by_kind ON requests (kind, folder, asked_at)")
    db.define("CREATE INDEX requests_by_kind_and_name ON requests (kind, folder, name, asked_at)")


def apply_0030(db: Db) -> None:
    """Add channels that `gatepost channel add` made, and how far each channel has received."""
    db.define(
        """CREATE TABLE channel_instances (
            instance {text} NOT NULL PRIMARY KEY,
            kind {text} NOT NULL,
            settings {text} NOT NULL,  -- JSON, by the last names of the settings; secrets are in `secrets`
            is_on {int} NOT NULL,
            created_at {int} NOT NULL,
            created_by {text} NOT NULL
        ) {strict}"""
    )
    db.define(
        """CREATE TABLE channel_cursors (
            instance {text} NOT NULL,
            name {text} NOT NULL,  -- '' for a channel that reads one stream
            received {text} NOT NULL,  -- all up to here is durable
            acknowledged {text} NOT NULL,  -- and the platform was told so up to here
            updated_at {int} NOT NULL,
            PRIMARY KEY (instance, name)
        ) {strict}"""
    )


def apply_0031(db: Db) -> None:
    """Add scheduled tasks, on whose behalf each was made, and their firings: one row for each time that came, once."""
    db.define(
        """CREATE TABLE tasks (
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
        ) {strict}"""
    )
    db.define("CREATE INDEX tasks_due ON tasks (state, next_at)")
    db.define("CREATE INDEX tasks_folder ON tasks (folder, state)")
    db.define(
        """CREATE TABLE task_origins (
            task_id {text} NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
            ordinal {int} NOT NULL,                     -- 0: who pays
            person {text} NOT NULL,                     -- '': nobody
            instance {text} NOT NULL,
            address {text} NOT NULL,
            thread {text} NOT NULL,
            PRIMARY KEY (task_id, ordinal)
        ) {strict}"""
    )
    db.define(
        """CREATE TABLE firings (
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
        ) {strict}"""
    )
    db.define("CREATE UNIQUE INDEX firings_once ON firings (task_id, due_at)")
    db.define("CREATE UNIQUE INDEX firings_message ON firings (message_id)")
    db.define("CREATE INDEX firings_open ON firings (task_id) WHERE state = 'queued'")
    db.define(
        "CREATE INDEX inbox_open_tasks ON inbox (session_id, seq) WHERE mode = 'task'"
        " AND state NOT IN ('answered', 'silent', 'observed', 'refused', 'cancelled', 'failed')"
    )
    db.define("CREATE INDEX firings_age ON firings (fired_at)")
