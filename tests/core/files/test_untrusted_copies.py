"""A copy of a sandbox's files is of one moment, holds nothing of the host's, and has its bounds."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gatepost.core.errors import Invalid
from gatepost.core.files import untrusted_copies
from gatepost.core.files.untrusted_copies import TreeLimits, copy_settled_tree
from gatepost.core.files.untrusted_files import DEEPEST, UntrustedFolder

LIMITS = TreeLimits(1_000_000, 100)
OLD_NS = 1_700_000_000_000_000_000


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "sessions" / "s-1" / "state" / "demo"
    path.mkdir(parents=True)
    return path


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "sessions" / "s-2" / "state"
    path.mkdir(parents=True)
    return path / "demo"


def put(path: Path, text: str, mode: int = 0o600) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    os.utime(path, ns=(OLD_NS, OLD_NS))


def test_files_are_copied_with_their_folders_and_rights(source: Path, target: Path) -> None:
    put(source / "home" / "a.jsonl", "one")
    put(source / "home" / "run.sh", "two", 0o755)
    (source / "empty").mkdir()

    assert copy_settled_tree(source, target, LIMITS) == 6
    assert (target / "home" / "a.jsonl").read_text() == "one"
    assert (target / "home" / "run.sh").stat().st_mode & 0o777 == 0o700
    assert (target / "empty").is_dir()
    assert (target / "home" / "a.jsonl").stat().st_mtime_ns == OLD_NS


def test_no_link_socket_or_pipe_is_copied_or_waited_for(source: Path, target: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("the host's own")
    (tmp_path / "secrets").mkdir()
    put(tmp_path / "secrets" / "key", "the host's own")
    (source / "link").symlink_to(tmp_path / "secret")
    (source / "folder").symlink_to(tmp_path / "secrets")
    os.mkfifo(source / "pipe")
    put(source / "file", "x")

    assert copy_settled_tree(source, target, LIMITS) == 1
    assert [path.name for path in target.iterdir()] == ["file"]


def test_a_tree_that_is_a_link_itself_is_not_followed(source: Path, target: Path, tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    source.rmdir()
    source.symlink_to(tmp_path / "secrets")

    with pytest.raises(Invalid):
        copy_settled_tree(source, target, LIMITS)


def test_nothing_is_copied_of_what_is_not_there(source: Path, target: Path) -> None:
    source.rmdir()
    assert copy_settled_tree(source, target, LIMITS) is None
    assert not target.exists()


@pytest.mark.parametrize("limits", [TreeLimits(2, 100), TreeLimits(1_000_000, 1)])
def test_more_than_the_limits_is_refused_and_nothing_is_left(source: Path, target: Path, limits: TreeLimits) -> None:
    put(source / "a", "one")
    put(source / "b", "two")

    with pytest.raises(Invalid):
        copy_settled_tree(source, target, limits)
    assert not target.exists()


def test_a_tree_without_a_bottom_is_refused(source: Path, target: Path) -> None:
    deep = source
    for _ in range(DEEPEST + 2):
        deep = deep / "d"
        deep.mkdir()

    with pytest.raises(Invalid, match="deep"):
        copy_settled_tree(source, target, TreeLimits(1000, 1000))


Copied = Callable[[list[str]], None]


def watch_copies(monkeypatch: pytest.MonkeyPatch, behind: Copied) -> list[str]:
    """The files that are copied, in order; `behind` is called after each."""
    copied: list[str] = []
    copy_out = UntrustedFolder.copy_out

    def copy(self: UntrustedFolder, relative: str, place: Path, limit: int) -> int:
        size = copy_out(self, relative, place, limit)
        copied.append(relative)
        behind(copied)
        return size

    monkeypatch.setattr(untrusted_copies, "PAUSE_S", 0.001)
    monkeypatch.setattr(UntrustedFolder, "copy_out", copy)
    return copied


def test_a_tree_that_never_rests_is_not_copied(source: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(source / "a", "one")
    copied = watch_copies(monkeypatch, lambda copied: put(source / "a", f"{len(copied):03}"))

    assert copy_settled_tree(source, target, LIMITS) is None
    assert len(copied) == untrusted_copies.TRIES
    assert not target.exists()


def test_a_file_that_was_just_written_is_waited_for(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second write may have the same time stamp."""
    put(source / "a", "one")
    monkeypatch.setattr(untrusted_copies, "TICK_NS", time.time_ns() - OLD_NS + 3_600_000_000_000)
    monkeypatch.setattr(untrusted_copies, "PAUSE_S", 0.001)

    assert copy_settled_tree(source, target, LIMITS) is None


def test_a_file_that_changes_while_others_are_copied_is_copied_again(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two files that belong together: a copy with an old half and a new one is none."""
    put(source / "a", "old")
    put(source / "b", "old")

    def change(copied: list[str]) -> None:
        if copied == ["a"]:
            put(source / "a", "new")
            put(source / "b", "new")

    copied = watch_copies(monkeypatch, change)

    assert copy_settled_tree(source, target, LIMITS) == 6
    assert [(target / name).read_text() for name in ("a", "b")] == ["new", "new"]
    assert copied == ["a", "b", "a", "b"]
