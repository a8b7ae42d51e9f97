import errno
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gatepost.core import error_classification
from gatepost.core.error_classification import Diagnosis, ErrorKind, classify
from gatepost.core.errors import Invalid, NotFound, Refused, SetupError, Unavailable
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.process.unix_sockets import bind_unix


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """Every open fails with EMFILE."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, hard))  # the first descriptor is taken
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("number", ["EMFILE", "ENFILE", "ENOSPC", "EDQUOT", "ENOMEM", "EAGAIN", "ETIMEDOUT", "EINTR"])
def test_stranger_20_a_shortage_of_the_machine_is_passing(number: str) -> None:
    assert classify(OSError(getattr(errno, number), "x")).kind is ErrorKind.PASSING


@pytest.mark.parametrize("number", ["ENOENT", "EACCES", "EPERM", "ELOOP", "ENAMETOOLONG", "EINVAL"])
def test_what_fails_again_is_final(number: str) -> None:
    assert classify(OSError(getattr(errno, number), "x")).kind is ErrorKind.FINAL


def test_our_own_errors_are_classified_by_who_acts() -> None:
    assert classify(Unavailable("x", retry_after=7.0)) == Diagnosis(ErrorKind.PASSING, 7.0)
    for error in (SetupError("x"), Refused("a", "b"), Invalid("a", "b"), NotFound("a", "b")):
        assert classify(error).kind is ErrorKind.FINAL


def test_other_errors_of_python() -> None:
    assert error_classification.is_transient(TimeoutError())
    assert error_classification.is_transient(MemoryError())
    assert error_classification.is_transient(RuntimeError("can't start new thread"))
    assert not error_classification.is_transient(ZeroDivisionError())


def test_stranger_20_a_full_descriptor_table_is_not_bad_input(tmp_path: Path) -> None:
    with open_untrusted(tmp_path) as root, no_descriptor_left(), pytest.raises(Unavailable):
        root.read_bytes("x", 10)
    with no_descriptor_left(), pytest.raises(Unavailable):
        open_untrusted(tmp_path)


def test_stranger_20_a_socket_that_cannot_be_made_for_want_of_descriptors_is_made_later(tmp_path: Path) -> None:
    with no_descriptor_left(), pytest.raises((Unavailable, OSError)) as caught:
        bind_unix(tmp_path / "s.sock")
    assert error_classification.is_transient(caught.value)
