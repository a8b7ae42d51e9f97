"""A content of a skill that somebody agreed to is no news, also when another one has taken its place."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    # 1: somebody has agreed to it since it was read last.
    db.define("ALTER TABLE skill_contents ADD COLUMN agreed {int} NOT NULL DEFAULT 0")
    db.define("UPDATE skill_contents SET agreed = 1 WHERE digest IN (SELECT digest FROM skills)")
