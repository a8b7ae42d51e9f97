"""What deleted rows leave in the store's files: SQLite's own. Pages that are free go by `retention.release_pages`."""

from pathlib import Path

from gatepost.store.sqlite_store import connect


def truncate_log(path: Path) -> bool:
    """Write the write-ahead log into the file and cut it to nothing. False: somebody reads what it holds; try again."""
    connection = connect(path)
    try:
        rows = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return bool(rows) and rows[0][0] == 0
    finally:
        connection.close()


def rewrite(path: Path) -> None:
    """Write the whole file anew: nothing is left between its rows. Nobody writes meanwhile, so for a gateway that is
    down. A file that could not give free pages back can from then on."""
    connection = connect(path)
    try:
        connection.execute("PRAGMA temp_store=FILE")  # it takes as much as the file
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute("VACUUM")
    finally:
        connection.close()
