"""Refusals of a server in the words of the store: it lets nobody in, or refuses a statement for reasons of its own.

While connecting libpq has no code for us, only words. The refusal of a statement is no fault of what was asked for, so
whoever can wait does, and nothing ends because of it.
"""

import psycopg
from msgspec import Struct
from psycopg import errors

from gatepost.core.errors import Invalid, StoreAway, Unavailable
from gatepost.store.postgres.connection import render_place

LOOK = "see that it runs, and what store.url says"
# A standby takes no writes: after a failover the primary is elsewhere. A table may be somebody's for a while, such as
# under VACUUM FULL.
_PASSING = (errors.ReadOnlySqlTransaction, errors.LockNotAvailable)
# Among them: no memory, no room for a file, a table that cannot be read, rights that were taken away, a restore.
_OF_SERVER = (psycopg.OperationalError, psycopg.InternalError, errors.InsufficientPrivilege, errors.UndefinedTable)


class Refusal(Struct, frozen=True):
    """One that waiting does not mend."""

    words: tuple[str, ...]  # all of them are in what is said
    remedy: str


REFUSALS = (
    Refusal(("password authentication failed",), "check user and password in store.url"),
    Refusal(("no password supplied",), "the server wants one: write it into store.url"),
    Refusal(('role "', "does not exist"), "check the user in store.url, or CREATE ROLE … LOGIN PASSWORD '…' makes it"),
    Refusal(('database "', "does not exist"), "check its name in store.url, or CREATE DATABASE makes it"),
    Refusal(("no such database",), "check its name in store.url, and that the pooler knows it"),
    Refusal(("no pg_hba.conf entry",), "the server's pg_hba.conf has no line for this machine and user: add one there"),
    Refusal(
        ("server does not support SSL",),
        "turn TLS on there (ssl = on), or write sslmode=disable in store.url if nobody else is on the way to it",
    ),
    Refusal(
        ("root certificate file", "does not exist"),
        "write sslrootcert=FILE in store.url, with the certificate of who signed the server's; sslrootcert=system for"
        " those that this machine trusts",
    ),
    Refusal(
        ("certificate verify failed",),
        "write sslrootcert=FILE in store.url, with the certificate of who signed the server's",
    ),
    Refusal(("does not match host name",), "write the host in store.url as the server's certificate names it"),
)


def find_refusal(error: Exception) -> Refusal | None:
    said = str(error)
    return next((each for each in REFUSALS if all(word in said for word in each.words)), None)


def render_refusal(url: str, error: Exception) -> str:
    """For a person who starts something: what is wrong, and the way out."""
    found = find_refusal(error)
    return f"the {render_place(url)} does not let us in: {render_error(error)}; {found.remedy if found else LOOK}"


def render_away(url: str, error: Exception) -> str:
    """For somebody who waits for a database that was there before."""
    if find_refusal(error) is not None:
        return render_refusal(url, error)
    return f"the {render_place(url)} does not answer: {render_error(error)}"


def render_error(error: BaseException, wordless: str = "no answer") -> str:
    """Return its first line, `wordless` if there is none. libpq never writes a password into it."""
    return (str(error).strip().splitlines() or [wordless])[0]


def translate_error(error: BaseException) -> BaseException:
    """Return the error for whoever asked: itself, if it is about what was asked for."""
    words = render_error(error, "it does not say why")
    if isinstance(error, errors.DiskFull):
        return Unavailable("the store", "the disk is full; free some space, nothing that was accepted is lost")
    if isinstance(error, errors.ProgramLimitExceeded):  # the next try would be refused, too
        return Invalid("", f"it is larger than the database can keep: {words}")
    if isinstance(error, _PASSING):
        return StoreAway(f"the database cannot do this now: {words}")
    if isinstance(error, _OF_SERVER) and not isinstance(error, errors.InFailedSqlTransaction):
        return Unavailable("the store", f"the database refuses: {words}")
    return error
