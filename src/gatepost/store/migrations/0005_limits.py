"""What a group has of its own besides its provider: limits of its sandboxes, and host folders that they may see."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define("ALTER TABLE groups ADD COLUMN limits {text} NOT NULL DEFAULT '{{}}'")  # JSON: name → number
    db.define("ALTER TABLE groups ADD COLUMN mounts {text} NOT NULL DEFAULT '[]'")  # JSON: source:target[:rw] …
