"""An invitation can sign somebody in to the web page, and say what they may do besides writing."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define("ALTER TABLE tokens ADD COLUMN rights {text} NOT NULL DEFAULT 'talk'")
    # 1: whoever opens it and is not signed in gets a name of their own on the page.
    db.define("ALTER TABLE tokens ADD COLUMN page {int} NOT NULL DEFAULT 0")
