"""What jobs may take of the disk; a bundle in words; and commands that nothing which an agent has named gets into."""

import shlex
from pathlib import Path

import pytest

from gatepost.flow.worktrees.sandbox_jobs import (
    MOST_NAMED_REFS,
    BundleRef,
    disk_bounds,
    fetch_command,
    log_command,
    render_contents,
)

MB = 1024 * 1024


def test_what_was_filled_beyond_the_limit_can_still_be_saved(tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    for place, size in ((small, 10), (large, 3 * MB)):
        place.mkdir()
        (place / "file").write_bytes(b"x" * size)
    deep = tmp_path / "/".join(["d"] * 200)
    deep.mkdir(parents=True)
    assert disk_bounds((tmp_path / "d",), MB, True) == {tmp_path / "d": MB}, "and nobody counts for ever"
    assert disk_bounds((small, large), MB, False) == {small: MB, large: MB}
    assert disk_bounds((small, large, tmp_path / "none"), MB, True) == {
        small: MB,
        large: 4 * MB,
        tmp_path / "none": MB,
    }


@pytest.mark.parametrize(
    ("held", "told"),
    [
        ([BundleRef("heads/fix", 1)], "1 commit on fix"),
        ([BundleRef("heads/fix", 2), BundleRef("heads/a/b", 1)], "2 commits on fix, 1 commit on a/b"),
        ([BundleRef("gatepost/uncommitted", 1)], "nothing committed, uncommitted changes"),
        ([BundleRef("gatepost/head", 3)], "3 commits on no branch"),
        ([BundleRef("gatepost/stash/0", 2)], "nothing committed, 1 stash"),
        (
            [BundleRef("gatepost/stash/0", 2), BundleRef("gatepost/stash/1", 2), BundleRef("heads/fix", 1)],
            "1 commit on fix, 2 stashes",
        ),
        ([BundleRef("heads/fix", 1), BundleRef("tags/v1")], "1 commit on fix, the tag v1"),
        ([BundleRef("heads/\x1b[2Jx\ny", 1)], "1 commit on [2Jx y"),
    ],
)
def test_what_is_in_it_is_said_in_words(held: list[BundleRef], told: str) -> None:
    assert render_contents(held, len(held)) == told


def test_what_is_too_much_to_be_said_is_counted() -> None:
    held = [BundleRef(f"heads/{number}", 1) for number in range(50)]
    assert render_contents(held, 1000).endswith(f"1 commit on {MOST_NAMED_REFS - 1}, {1000 - MOST_NAMED_REFS} more")


def test_the_commands_are_whole_words_for_a_shell() -> None:
    fetch = shlex.split(fetch_command(Path("/a b/$(x)/fix.bundle"), "fix"))
    assert fetch == ["git", "fetch", "--no-tags", "--prune", "/a b/$(x)/fix.bundle", "+refs/*:refs/agents/fix/*"]
    assert log_command("fix", "0123456789abcdef").endswith("--glob=refs/agents/fix --not 0123456789ab")
