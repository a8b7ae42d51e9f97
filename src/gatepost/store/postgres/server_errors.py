"""Refusals of the server for a reason of its own, said in the store's words. It is no fault of what was asked for, so
whoever can wait does, and nothing ends because of it."""

import psycopg
from psycopg import errors

from gatepost.core.errors import Invalid, StoreAway, Unavailable

# A standby takes no writes: after a failover the primary is elsewhere. A table may be somebody's for a while, such as
# under VACUUM FULL.
_PASSING = (errors.ReadOnlySqlTransaction, errors.LockNotAvailable)
# Among them: no memory, no room for a file, a table that cannot be read, rights that were taken away, a restore.
_OF_SERVER = (psycopg.OperationalError, psycopg.InternalError, errors.InsufficientPrivilege, errors.UndefinedTable)


def translate_error(error: BaseException) -> BaseException:
    """As it is, if it is about what was asked for."""
    if isinstance(error, errors.DiskFull):
        return Unavailable("the store", "the disk is full; free some space, nothing that was accepted is lost")
    if isinstance(error, errors.ProgramLimitExceeded):  # the next try would be refused, too
        return Invalid("", f"it is larger than the database can keep: {_render(error)}")
    if isinstance(error, _PASSING):
        return StoreAway(f"the database cannot do this now: {_render(error)}")
    if isinstance(error, _OF_SERVER) and not isinstance(error, errors.InFailedSqlTransaction):
        return Unavailable("the store", f"the database refuses: {_render(error)}")
    return error


def _render(error: BaseException) -> str:
    return (str(error).strip().splitlines() or ["it does not say why"])[0]
