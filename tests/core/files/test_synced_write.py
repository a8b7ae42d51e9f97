"""A large copy never leaves much for the disk to do at once."""

import os
from pathlib import Path

import pytest

from gatepost.core.files import synced_write
from gatepost.core.files.synced_write import STEP, write_synced
from gatepost.core.files.untrusted_files import open_untrusted


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The size of the file at each time that it was written to the disk."""
    sizes: list[int] = []
    real = os.fdatasync

    def fdatasync(fd: int) -> None:
        sizes.append(os.fstat(fd).st_size)
        real(fd)

    monkeypatch.setattr(synced_write.os, "fdatasync", fdatasync)  # type: ignore[attr-defined]
    return sizes


def test_all_parts_are_written_and_counted(tmp_path: Path) -> None:
    with (tmp_path / "copy").open("wb") as file:
        assert write_synced(file.fileno(), [b"ab", b"", b"cde"]) == 5
    assert (tmp_path / "copy").read_bytes() == b"abcde"


def test_stranger_04_a_copy_is_on_the_disk_step_by_step(tmp_path: Path, flushed: list[int]) -> None:
    with (tmp_path / "copy").open("wb") as file:
        write_synced(file.fileno(), [bytes(STEP // 4)] * 10)

    assert flushed == [STEP, 2 * STEP]


def test_stranger_04_a_sparse_file_of_a_sandbox_is_copied_step_by_step(tmp_path: Path, flushed: list[int]) -> None:
    (tmp_path / "tree").mkdir()
    with (tmp_path / "tree" / "big.bin").open("wb") as file:
        file.truncate(3 * STEP)
    with open_untrusted(tmp_path / "tree") as root:
        assert root.copy_out("big.bin", tmp_path / "copy", 3 * STEP) == 3 * STEP

    assert flushed == [STEP, 2 * STEP, 3 * STEP]
