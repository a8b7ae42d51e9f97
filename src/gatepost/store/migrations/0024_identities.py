"""A person has several identities, and a code binds a further one. The owner's identities in the terminal and on the
web page become one person."""

from gatepost.store.port import Db

PERSON, OTHER = "terminal:owner", "web:user/owner"


def apply(db: Db) -> None:
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
    if len(db.rows("SELECT id FROM users WHERE id IN (?, ?)", (PERSON, OTHER))) == 2:
        _pair_owner(db)


def _pair_owner(db: Db) -> None:
    """Roles, memberships and budgets of the second identity move to the person. Secrets stay: they are sealed with the
    name that they were set for."""
    both = (PERSON, OTHER)
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
    db.run("DELETE FROM user_roles WHERE user_id = ?", (OTHER,))
    db.run("DELETE FROM group_members WHERE user_id = ?", (OTHER,))
    db.run("DELETE FROM memberships WHERE child = ?", (OTHER,))
    db.run("DELETE FROM budgets WHERE kind = 'user' AND name = ?", (OTHER,))
    db.run("DELETE FROM spending WHERE kind = 'user' AND name = ?", (OTHER,))
