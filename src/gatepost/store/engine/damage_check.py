"""The check that the file of a store is whole: SQLite's own, of each table and its indexes, within a bound.

A large store takes longer than a start may. The rest is checked while the gateway runs, table by table, so that no
check holds up the log for long.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import apsw
from msgspec import Struct

from gatepost.store.engine.place import OLD_LOG
from gatepost.store.engine.sqlite_db import connect

START_S = 0.5  # of a start: a store of some 50 MB
STEPS = 10_000  # of SQLite's machine, between two looks at the clock
UNREADABLE = (apsw.CorruptError, apsw.NotADBError, apsw.IOError, apsw.CantOpenError)
BROKEN = (*UNREADABLE, apsw.ReadOnlyError, apsw.FullError)
WAY_BACK = (
    "save what can be read of it (sqlite3 gatepost.db .recover | sqlite3 recovered.db), or restore a backup"
    f" (docs/operations.md). {OLD_LOG}. If it was restored beside such a log, restore it again without"
)

DISK_FULL = "the disk is full; free some space, nothing that was accepted is lost"
READ_ONLY = "its disk can only be read; look at the disk (`dmesg`), and mount it again so that it can be written"


def describe_broken(error: Exception) -> str:
    """Why the store cannot be read or written, and the way out."""
    if isinstance(error, apsw.FullError):
        return DISK_FULL
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError)):
        return f"it is damaged ({error}); {WAY_BACK}"
    if isinstance(error, apsw.ReadOnlyError):
        return READ_ONLY
    return f"{error}; look at the disk of the home"


class DamageReport(Struct, frozen=True):
    """`damage`: what is wrong, '' if nothing. `unchecked`: tables for which there was no time."""

    damage: str
    unchecked: tuple[str, ...] = ()


def check_tables(
    path: Path, tables: Sequence[str] = (), within: float | None = None, is_over: Callable[[], bool] = bool
) -> DamageReport:
    """Look at these tables, or at all. It ends with the first damage, when the time is up, and when `is_over`."""
    connection = connect(path, readonly=True)
    end = time.monotonic() + within if within is not None else float("inf")
    connection.set_progress_handler(lambda: time.monotonic() > end or is_over(), STEPS)
    left: list[str] = []
    try:
        left = list(tables) or _list_tables(connection)
        while left:
            found = connection.execute(f"PRAGMA quick_check({left[0]})").fetchall()
            if found and found[0][0] != "ok":
                return DamageReport(f"{left[0]}: {found[0][0]}", tuple(left))
            left.pop(0)
    except apsw.InterruptError:
        return DamageReport("", tuple(left))
    except BROKEN as error:
        return DamageReport(f"{left[0]}: {error}" if left else str(error), tuple(left))
    finally:
        connection.close()
    return DamageReport("")


def _list_tables(connection: apsw.Connection) -> list[str]:
    rows = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").fetchall()
    return [str(name) for (name,) in rows]
