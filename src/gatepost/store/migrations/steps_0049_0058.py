"""Steps 49 to 58. Never edited: stores have them behind them."""

from gatepost.store.port import Db


def apply_0049(db: Db) -> None:
    """Add gateways that share this store: who they are, how long each is known to live, and the duties of each.

    A store with one gateway has no rows here, and its sessions no owner.
    """
    db.define(
        """CREATE TABLE gateways (
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
        ) {strict}"""
    )
    db.define(
        """CREATE TABLE duties (
            name {text} NOT NULL PRIMARY KEY,       -- what one gateway at a time does: schedule, channel/NAME
            gateway {text} NOT NULL,                -- that does it; '': nobody
            since {int} NOT NULL
        ) {strict}"""
    )
    db.define("CREATE INDEX sessions_owned ON sessions (owner) WHERE owner <> ''")
    db.define("ALTER TABLE reservations ADD COLUMN gateway {text} NOT NULL DEFAULT ''")
    db.define(
        """CREATE TABLE commands (
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
        ) {strict}"""
    )
    db.define("CREATE INDEX commands_by_gateway ON commands (gateway, state)")
    db.define("CREATE INDEX commands_by_asker ON commands (asker, state)")
    db.define(
        """CREATE TABLE group_places (
            world {text} NOT NULL PRIMARY KEY,      -- a group at the top, with all below it
            gateway {text} NOT NULL,                -- that has its folders, where they are not shared
            since {int} NOT NULL,
            moving {int} NOT NULL DEFAULT 0         -- 1: nothing of it is woken, because its files are on their way
        ) {strict}"""
    )
    db.define(
        """CREATE TABLE shared_folders (
            name {text} NOT NULL PRIMARY KEY,
            mark {text} NOT NULL,                   -- lies in the folder: who does not see it there sees another folder
            gateway {text} NOT NULL,                -- that put it there
            since {int} NOT NULL
        ) {strict}"""
    )
    db.define(
        """CREATE TABLE passed_files (
            name {text} NOT NULL,                   -- where it lies on the gateway that has it
            number {int} NOT NULL,                  -- of this piece
            data {blob} NOT NULL,
            message_id {int},                       -- that it came with; NULL: it is sent, or not known yet
            at {int} NOT NULL,
            PRIMARY KEY (name, number)
        ) {strict}"""
    )
    db.define("CREATE INDEX passed_files_message ON passed_files (message_id) WHERE message_id IS NOT NULL")
    db.define(
        """CREATE TABLE group_moves (
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
        ) {strict}"""
    )
    db.define("CREATE UNIQUE INDEX group_moves_open ON group_moves (world) WHERE ended_at IS NULL")
    db.define("ALTER TABLE audit ADD COLUMN gateway {text} NOT NULL DEFAULT ''")
    db.define("ALTER TABLE audit ADD COLUMN number {int}")
    db.define("CREATE UNIQUE INDEX audit_chains ON audit (gateway, number) WHERE gateway <> ''")
    db.define(
        """CREATE TABLE audit_anchors (
            gateway {text} NOT NULL PRIMARY KEY,    -- whose chain begins later
            seq {int} NOT NULL,                     -- of the last row that was removed, of whichever chain
            number {int} NOT NULL,                  -- of the last row that was removed of this one
            hash {text} NOT NULL,
            at {int} NOT NULL                       -- when it was removed
        ) {strict}"""
    )
    db.run("INSERT INTO audit_anchors (gateway, seq, number, hash, at) SELECT '', seq, seq, hash, at FROM audit_anchor")
    db.define("DROP TABLE audit_anchor")


def apply_0050(db: Db) -> None:
    """Keep for how many tokens a reservation was made, and that a budget refused its last call.

    Counts of prompts by their vendors are kept as a bound for the next ones.
    """
    for name in ("input", "output"):
        db.define(f"ALTER TABLE reservations ADD COLUMN {name} {{int}} NOT NULL DEFAULT 0")
    db.define("ALTER TABLE spending ADD COLUMN refuses {int} NOT NULL DEFAULT 0")
    db.define(
        """CREATE TABLE prompt_sizes (
            digest {text} NOT NULL PRIMARY KEY,  -- of the endpoint, the model and the beginning of a prompt
            tokens {int} NOT NULL,               -- of the shortest prompt that began so
            counted_at {int} NOT NULL
        ) {strict}"""
    )


def apply_0051(db: Db) -> None:
    """Keep approvals as people saw them.

    A request keeps what its held call reads besides its arguments. A connector keeps its tools as the operator accepted
    them.
    """
    db.define("ALTER TABLE requests ADD COLUMN bound {text} NOT NULL DEFAULT '{{}}'")
    db.define(
        """CREATE TABLE connector_tools (
            connector {text} NOT NULL,
            tool {text} NOT NULL,                   -- as its server names it; '': the connector itself was seen
            digest {text} NOT NULL,                 -- of all that the server tells of it
            listed {text} NOT NULL,                 -- JSON: what it told then
            accepted_by {text} NOT NULL,
            accepted_at {int} NOT NULL,
            PRIMARY KEY (connector, tool)
        ) {strict}"""
    )


def apply_0052(db: Db) -> None:
    """Add incarnations of a store: a copy, a restored backup or a rolled-back disk begins another one."""
    db.define(
        """CREATE TABLE incarnations (
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
        ) {strict}"""
    )
    db.define(
        """CREATE TABLE restored_rows (
            request_id {text} NOT NULL,             -- by which the owner decides about them
            kind {text} NOT NULL,                   -- effect | call
            row_id {text} NOT NULL,
            PRIMARY KEY (request_id, kind, row_id)
        ) {strict}"""
    )


def apply_0053(db: Db) -> None:
    """Send a card by which somebody decides before the queued messages of its agent in the same room (`urgent`).

    A card knows if it showed everything (`whole`). Nobody knows that of earlier cards.
    """
    db.define("ALTER TABLE outbox ADD COLUMN urgent {int} NOT NULL DEFAULT 0")
    db.define("ALTER TABLE request_cards ADD COLUMN whole {int} NOT NULL DEFAULT 0")
    db.define("DROP INDEX outbox_open")
    db.define(
        "CREATE INDEX outbox_open ON outbox (instance, address, urgent DESC, id) WHERE state IN ('pending', 'sending')"
    )


def apply_0054(db: Db) -> None:
    """Keep the health of a duty for all gateways: how it goes on the one that has it, and who has given it up.

    The connections of each gateway are counted, so that one for which there are none left is refused before it starts.
    The lives of the server behind the store are kept: a failover may lose the last moments.
    """
    db.define("ALTER TABLE duties ADD COLUMN health {text} NOT NULL DEFAULT ''")
    db.define("ALTER TABLE duties ADD COLUMN paused {text} NOT NULL DEFAULT ''")
    db.define("ALTER TABLE gateways ADD COLUMN connections {int} NOT NULL DEFAULT 0")
    db.define(
        """CREATE TABLE database_lives (
            name {text} NOT NULL PRIMARY KEY,       -- the server's own id and its timeline
            gateway {text} NOT NULL,                -- that noticed it
            synchronous {int} NOT NULL,             -- 1: commits waited for a standby, when a gateway last looked
            held {int} NOT NULL,                    -- effects that were open when it began; -1: nothing was lost
            since {int} NOT NULL,
            request_id {text} NOT NULL DEFAULT ''   -- by which somebody decides about what is held
        ) {strict}"""
    )


def apply_0055(db: Db) -> None:
    """Add an index for each bare answer's question if a turn ran in the room around a card."""
    db.define("CREATE INDEX turns_room ON turns (instance, address, ended_at)")


def apply_0056(db: Db) -> None:
    """Keep files that people send for the whole conversation. They may come after their message.

    A message says what people see of it now, the topic that it belongs to, and whose words it passes on.
    """
    db.define(
        """CREATE TABLE session_files (
            session_id {text} NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
            row_id {int} NOT NULL,                -- of the inbox: what its folder is called
            message_id {int} NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
            files {text} NOT NULL,                -- JSON: names, and where they lie below the media folder
            bytes {int} NOT NULL,
            dropped_for {int},                    -- the later row whose files needed its space
            PRIMARY KEY (session_id, row_id)
        ) {strict}"""
    )
    db.define("CREATE INDEX session_files_message ON session_files (message_id)")
    db.define(
        """CREATE TABLE awaited_files (
            message_id {int} NOT NULL PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
            names {text} NOT NULL,                -- JSON
            until {int} NOT NULL                  -- when nobody fetches them any more
        ) {strict}"""
    )
    db.define("ALTER TABLE messages ADD COLUMN topic {text} NOT NULL DEFAULT ''")  # a #topic, which is no thread
    db.define("ALTER TABLE turns ADD COLUMN topic {text} NOT NULL DEFAULT ''")  # of the messages that it answers
    # '': as it was written | edited | deleted | shown: an edit or a deletion, which its message shows
    db.define("ALTER TABLE messages ADD COLUMN revision {text} NOT NULL DEFAULT ''")
    db.define("ALTER TABLE messages ADD COLUMN forward_from {text}")  # NULL: the sender's own words


def apply_0057(db: Db) -> None:
    """Let a message that is given to an agent again name its turns before a restore or a failover."""
    # Ids with a space between them, the last turn last. '': no provider had it in a turn that is over.
    db.define("ALTER TABLE inbox ADD COLUMN continues {text} NOT NULL DEFAULT ''")


def apply_0058(db: Db) -> None:
    """Keep how an allowed call failed, so that whoever allowed it at the terminal can look it up."""
    db.define("ALTER TABLE requests ADD COLUMN failure {text} NOT NULL DEFAULT ''")
