"""Switches of the whole instance. A row is a switch that is on: it stays so over restarts until it is turned off."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define(
        """CREATE TABLE switches (
        name {text} PRIMARY KEY,                  -- panic
        reason {text} NOT NULL,                   -- the operator's own words, '' for none
        turned_by {text} NOT NULL,
        since {int} NOT NULL
    ) {strict}"""
    )
