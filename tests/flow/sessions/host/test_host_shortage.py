"""What the machine lacks is measured by the gateway, and known for a moment afterwards."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gatepost.flow.sessions.host import host_shortage
from gatepost.flow.sessions.host.disk_usage import FileSystemSpace
from gatepost.flow.sessions.host.host_shortage import LASTS_S, NO_DESCRIPTOR, HostShortage, is_full

MIB, GIB = 1024**2, 1024**3


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    known = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, known[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, known)


def test_a_file_system_is_full_without_bytes_or_without_files() -> None:
    assert is_full(FileSystemSpace(MIB // 2, GIB, 1000, 2000))
    assert is_full(FileSystemSpace(GIB, 2 * GIB, 0, 2000))
    assert not is_full(FileSystemSpace(GIB, 2 * GIB, 0, 0))


def test_a_shortage_is_known_for_a_moment_after_it_has_passed(tmp_path: Path) -> None:
    now = [0.0]
    shortage = HostShortage(lambda: now[0])
    assert shortage.find([tmp_path]) == ""
    with no_descriptor_left():
        assert shortage.find([tmp_path]) == NO_DESCRIPTOR
    now[0] = LASTS_S - 1
    assert shortage.find([tmp_path]) == NO_DESCRIPTOR
    now[0] = LASTS_S + 1
    assert shortage.find([tmp_path]) == ""


def test_a_full_disk_is_kept_for_whoever_asks_next_and_only_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shortage = HostShortage()
    with monkeypatch.context() as full:
        full.setattr(host_shortage, "LEAST_FREE", 1 << 62)
        shortage.measure([tmp_path])
    shortage.measure([tmp_path])
    assert [shortage.pop_full(), shortage.pop_full()] == [True, False]
