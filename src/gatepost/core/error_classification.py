"""One classification of errors: does waiting help? Pure: an error in, a diagnosis out.

Passing trouble (a shortage of the machine, a service that is away) is retried by time. Final trouble ends at once,
because the same try fails again. Code that turns an OSError into an error of ours asks here, so that a full disk or a
full descriptor table is never taken for somebody's bad input.
"""

import errno
from enum import StrEnum

from msgspec import Struct

from gatepost.core.errors import GatepostError, Unavailable


class ErrorKind(StrEnum):
    PASSING = "passing"  # the same try can succeed later
    FINAL = "final"  # the same try fails again


class Diagnosis(Struct, frozen=True):
    kind: ErrorKind
    retry_after: float | None = None  # seconds that the other side asked for

    @property
    def passing(self) -> bool:
        return self.kind is ErrorKind.PASSING


_SHORTAGE = (
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.ENOMEM,
    errno.ENOBUFS,
    errno.EAGAIN,
    errno.ENOLCK,
)
_INTERRUPTED = (errno.EINTR, errno.EBUSY, errno.ETXTBSY, errno.EIO, errno.ESTALE)
_NETWORK = (
    errno.ETIMEDOUT,
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.ECONNABORTED,
    errno.EPIPE,
    errno.EHOSTUNREACH,
    errno.EHOSTDOWN,
    errno.ENETUNREACH,
    errno.ENETDOWN,
    errno.ENETRESET,
)
PASSING_ERRNOS = frozenset((*_SHORTAGE, *_INTERRUPTED, *_NETWORK))
_NO_THREAD = "can't start new thread"  # CPython raises a bare RuntimeError for EAGAIN of clone


def classify(error: BaseException) -> Diagnosis:
    """Our own errors say by their class who acts; the system's say it by their number. An unknown error is final."""
    if isinstance(error, Unavailable):
        return Diagnosis(ErrorKind.PASSING, error.retry_after)
    if isinstance(error, GatepostError):
        return Diagnosis(ErrorKind.FINAL)
    if isinstance(error, OSError):
        passing = isinstance(error, TimeoutError) or error.errno in PASSING_ERRNOS
        return Diagnosis(ErrorKind.PASSING if passing else ErrorKind.FINAL)
    shortage = isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and _NO_THREAD in str(error))
    return Diagnosis(ErrorKind.PASSING if shortage else ErrorKind.FINAL)


def is_transient(error: BaseException) -> bool:
    return classify(error).passing


def to_gatepost_error(what: str, error: OSError, otherwise: GatepostError) -> GatepostError:
    """Passing trouble of the system is Unavailable, whatever else the caller says about an OSError."""
    if not is_transient(error):
        return otherwise
    return Unavailable(what, error.strerror or str(error) or type(error).__name__)
