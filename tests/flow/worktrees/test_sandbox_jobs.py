"""What jobs may take of the disk."""

from pathlib import Path

from gatepost.flow.worktrees.sandbox_jobs import disk_bounds

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
