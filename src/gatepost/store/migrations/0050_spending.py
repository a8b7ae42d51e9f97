"""A reservation says how many tokens it was made for, a budget that its last call did not fit. Counts of prompts by
their vendors are kept as a bound for the next ones."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
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
