"""Requests: whatever waits for a person's decision, in one table with one id space. What providers asked before they
acted moves into it. Cards: to whom a request was shown, and by which token they may answer. Votes: who said yes to a
request that needs several. Direct rooms: where somebody can be reached alone.
"""

from gatepost.store.port import Db

REQUESTS = """CREATE TABLE requests (
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

KEPT = (
    "id, kind, session_id, turn_id, digest, tool, input, cut, answer, follow_up, next_mode, reason, asked_at,"
    " answered_at, answered_by"
)


def apply(db: Db) -> None:
    db.define(REQUESTS)
    db.define(
        f"INSERT INTO requests ({KEPT}, name, folder, state, settled_at, notified_at) SELECT"
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
