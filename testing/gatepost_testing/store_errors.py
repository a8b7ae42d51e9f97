"""Errors that the engines of the store raise. They say it in words of their own, so a test compares the kind, not the
text."""

import apsw

INTEGRITY_ERRORS: tuple[type[Exception], ...] = (apsw.ConstraintError,)  # a row breaks a rule of its table
READ_ONLY_ERRORS: tuple[type[Exception], ...] = (apsw.ReadOnlyError,)  # a read tries to write
try:
    import psycopg

    INTEGRITY_ERRORS += (psycopg.IntegrityError,)
    READ_ONLY_ERRORS += (psycopg.errors.ReadOnlySqlTransaction,)
except ImportError:  # without the extra there is one engine
    pass
