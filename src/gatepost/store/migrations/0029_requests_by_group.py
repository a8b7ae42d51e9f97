"""Requests are counted by what they ask about: how many rooms or hosts people were asked about lately, and what they
said the last time. A held call keeps by which bot it reaches each of its rooms: two may share an address."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define("ALTER TABLE requests ADD COLUMN rooms {text} NOT NULL DEFAULT '{{}}'")
    db.define("CREATE INDEX requests_by_kind ON requests (kind, folder, asked_at)")
    db.define("CREATE INDEX requests_by_kind_and_name ON requests (kind, folder, name, asked_at)")
