"""Incarnations: which course of things a store is in. A copy, a restored backup, a rolled-back disk begin another."""

from gatepost.store.port import Db


def apply(db: Db) -> None:
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
