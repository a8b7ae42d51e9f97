"""A consistent copy of the store, whether the daemon runs or not: SQLite's own backup, in one snapshot."""

import os
from pathlib import Path

import apsw

from gatepost.core.errors import SetupError
from gatepost.store.engine.damage_check import BROKEN, describe_broken
from gatepost.store.engine.migrate import holds_store
from gatepost.store.engine.place import StorePlace, check_single, hide_password, render_missing
from gatepost.store.engine.sqlite_db import connect
from gatepost.store.port import Db


def copy_store(place: StorePlace, target: Path) -> None:
    """To a new file of the owner's alone. Writers are not held up; what they write meanwhile is not in it."""
    if place.url:
        raise SetupError(
            f"the store is a database, {hide_password(place.url)}: back it up with pg_dump (docs/scale.md), and the"
            " folders of the home by a copy"
        )
    source = place.path
    try:
        if not holds_store(source):
            raise SetupError(render_missing(source.parent))
    except BROKEN as error:
        raise SetupError(f"the store {source} cannot be copied: {describe_broken(error)}") from None
    check_single(source.parent)
    reading, writing = connect(source, readonly=True), connect(target)
    try:
        with writing.backup("main", reading, "main") as backup:
            while not backup.done:
                backup.step(-1)
        writing.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
    except apsw.Error as error:
        raise SetupError(f"the store {source} cannot be copied: {error}") from None
    finally:
        writing.close()
        reading.close()


def save_open_store(db: Db, target: Path) -> None:
    """From a store that is open and whose file is gone. The one that was saved before is replaced."""
    made = target.with_name(f".{target.name}")
    made.unlink(missing_ok=True)
    os.close(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    db.upkeep.copy_to(made)
    os.replace(made, target)
