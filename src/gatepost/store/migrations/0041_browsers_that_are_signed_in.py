"""What a person sees of her browsers: how each signed in, from where, and when it was last here."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define("ALTER TABLE logins ADD COLUMN id {text}")  # by which a browser is named; NULL: a one-time address
    db.define("ALTER TABLE logins ADD COLUMN way {text} NOT NULL DEFAULT 'one_time_link'")
    db.define("ALTER TABLE logins ADD COLUMN device {text} NOT NULL DEFAULT ''")
    db.define("ALTER TABLE logins ADD COLUMN peer {text} NOT NULL DEFAULT ''")  # address; '': a socket file
    db.define("ALTER TABLE logins ADD COLUMN last_seen_at {int} NOT NULL DEFAULT 0")
    for (known,) in db.rows("SELECT hash FROM logins WHERE kind = 'browser'"):
        db.run("UPDATE logins SET id = ?, last_seen_at = created_at WHERE hash = ?", (f"lg-{known[:16]}", known))
    db.define("CREATE UNIQUE INDEX logins_id ON logins (id)")
    db.define("CREATE INDEX logins_user ON logins (user_id, kind)")
