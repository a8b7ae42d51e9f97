"""Which folders a uid cannot pass, and where it finds them instead."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatepost.sandboxes import mounts
from gatepost.sandboxes.contract import Mount

NOBODY = 64999


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder whose every parent may be passed, with one in it that may not."""
    if os.geteuid() != 0:
        pytest.skip("modes of parents cannot be arranged without root")
    path = Path(tempfile.mkdtemp(prefix="gatepost-test-", dir="/run"))
    (path / "open" / "closed" / "below" / "deep").mkdir(parents=True)
    for folder in (path, path / "open"):
        folder.chmod(0o755)
    (path / "open" / "closed").chmod(0o700)
    yield path
    shutil.rmtree(path)


def test_an_open_way_needs_no_stage(place: Path) -> None:
    assert mounts.closed_roots([place / "open", Path("/usr/bin")], NOBODY) == []


def test_what_lies_behind_a_closed_folder_is_staged_just_below_it(place: Path) -> None:
    below = place / "open" / "closed" / "below"

    assert mounts.closed_roots([below / "deep", below], NOBODY) == [below]


def test_the_last_closed_folder_counts(place: Path) -> None:
    below = place / "open" / "closed" / "below"
    below.chmod(0o700)

    assert mounts.closed_roots([below / "deep"], NOBODY) == [below / "deep"]


def test_a_folder_that_the_uid_owns_is_no_hindrance(place: Path) -> None:
    os.chown(place / "open" / "closed", NOBODY, NOBODY)

    assert mounts.closed_roots([place / "open" / "closed" / "below"], NOBODY) == []


def test_a_staged_source_is_mounted_from_its_stage() -> None:
    given = [
        Mount(source=Path("/closed/home/groups/acme"), target="/workspace/agent", writable=True),
        Mount(source=Path("/usr/share"), target="/opt/x"),
    ]

    arguments = mounts.mount_arguments(given, {Path("/closed/home"): Path("/run/stage/0")})

    assert arguments == [
        *("--bind", "/run/stage/0/groups/acme", "/workspace/agent"),
        *("--ro-bind", "/usr/share", "/opt/x"),
    ]


def test_without_a_stage_there_is_no_shell() -> None:
    assert mounts.staged_command({}, ["bwrap"]) == ["bwrap"]


def test_paths_reach_the_shell_as_arguments_and_never_as_words_of_a_script() -> None:
    command = mounts.staged_command({Path("/a b; rm -rf $HOME"): Path("/stage/0")}, ["bwrap"])

    assert command[-4:] == ["/a b; rm -rf $HOME", "/stage/0", "--", "bwrap"]
    assert "rm -rf" not in command[command.index("-c") + 1]
