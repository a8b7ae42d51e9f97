"""A message that is given to an agent again names the turns that worked on it before a restore or a failover."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    # Ids with a space between them, the last turn last. '': no provider had it in a turn that is over.
    db.define("ALTER TABLE inbox ADD COLUMN continues {text} NOT NULL DEFAULT ''")
