"""Remains of deleted rows in the store's files: SQLite's own. Pages that are free go by `retention.release_pages`."""

import apsw

LOG_WAIT_MS = 100  # for readers to let go of the log: nobody writes meanwhile


def truncate_log(connection: apsw.Connection) -> bool:
    """Write the write-ahead log into the file and cut it to nothing. False: somebody reads what it holds; try again.
    The connection is closed."""
    connection.set_busy_timeout(LOG_WAIT_MS)
    try:
        rows = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return bool(rows) and rows[0][0] == 0
    except apsw.BusyError:
        return False
    finally:
        connection.close()


def rewrite(connection: apsw.Connection) -> None:
    """Write the whole file anew: nothing is left between its rows. Nobody writes meanwhile, so for a gateway that is
    down. A file that could not give free pages back can from then on. The connection is closed."""
    try:
        connection.execute("PRAGMA temp_store=FILE")  # it takes as much as the file
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute("VACUUM")
    finally:
        connection.close()
