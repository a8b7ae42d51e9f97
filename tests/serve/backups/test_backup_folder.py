"""The folder of backups: what is listed, what is kept, and what is somebody else's."""

from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gatepost.core.errors import Invalid, NotFound
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.serve.backups.backup_folder import (
    FOLDER,
    KEEP_DAILY,
    KEEP_MONTHLY,
    KEEP_WEEKLY,
    PROOF,
    BackupFile,
    BackupProof,
    choose_expired,
    count_days_unproven,
    find_folder,
    find_usable_folder,
    get_backup,
    keep_proof,
    list_backups,
    make_name,
    prune,
)

DAY = 24 * 3600 * 1_000_000
NOON = int(datetime(2026, 11, 19, 12, tzinfo=UTC).timestamp()) * 1_000_000


def made(days_ago: int, *, proven: bool = False, trouble: str = "") -> BackupFile:
    at = NOON - days_ago * DAY
    proof = BackupProof(at=at, trouble=trouble) if proven or trouble else None
    return BackupFile(name=make_name(at), made_at=at, size=1, proof=proof)


def list_ages(found: list[BackupFile], daily: int, weekly: int, monthly: int) -> list[int]:
    """The ages of those that stay."""
    gone = {each.name for each in choose_expired(found, daily, weekly, monthly)}
    return sorted((NOON - each.made_at) // DAY for each in found if each.name not in gone)


def test_the_newest_of_each_day_week_and_month_stay() -> None:
    found = [made(age) for age in range(100)]
    # 2026-11-19 is a Thursday: the weeks end 0, 4, 11 days before it, the months 0, 19, 50, 80.
    assert list_ages(found, 3, 3, 4) == [0, 1, 2, 4, 11, 19, 50, 80]


def test_of_several_on_one_day_the_last_stays() -> None:
    early, late = made(1), BackupFile(name="gatepost-late.tar.gz", made_at=NOON - DAY + 60_000_000, size=1)
    assert choose_expired([made(0), early, late], 2, 0, 0) == [early]


@pytest.mark.parametrize("limits", [(0, 0, 0), (-1, -1, -1)])
def test_the_newest_and_the_newest_proven_stay_whatever_the_settings_say(limits: tuple[int, int, int]) -> None:
    found = [made(0), made(1, trouble="it is broken"), made(2), made(3, proven=True), made(4, proven=True)]
    assert list_ages(found, *limits) == [0, 3]


def test_nothing_is_known_of_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert list_backups(tmp_path / "none") == [] and count_days_unproven([], NOON) is None


def test_files_of_somebody_else_are_neither_listed_nor_removed(tmp_path: Path) -> None:
    ours = tmp_path / make_name(NOON)
    for path in (ours, tmp_path / "holiday.tar.gz", tmp_path / "gatepost.db", tmp_path / make_name(NOON - 90 * DAY)):
        path.write_bytes(b"no tar")
    (tmp_path / make_name(NOON - 300 * DAY)).mkdir()
    keep_proof(ours, BackupProof(at=NOON, seconds=2.5))
    assert [each.name for each in list_backups(tmp_path)] == [ours.name, make_name(NOON - 90 * DAY)]
    config = Config().with_values({KEEP_DAILY.name: 0, KEEP_WEEKLY.name: 0, KEEP_MONTHLY.name: 0}, "test")
    prune(tmp_path, config)
    left = sorted(each.name for each in tmp_path.iterdir())
    folder = make_name(NOON - 300 * DAY)
    assert left == sorted(["holiday.tar.gz", "gatepost.db", folder, ours.name, ours.name + PROOF])


def test_the_age_is_that_of_the_last_one_that_can_be_put_back() -> None:
    assert count_days_unproven([made(0), made(1, trouble="no"), made(5, proven=True)], NOON) == 5


@pytest.mark.parametrize("name", ["../gatepost-x.tar.gz", "/etc/passwd", "notes.tar.gz", "gatepost-none.tar.gz", ""])
def test_a_name_leads_to_no_other_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.tar.gz").touch()
    (tmp_path / "gatepost-link.tar.gz").symlink_to("/etc/passwd")
    with pytest.raises(NotFound):
        get_backup(tmp_path, name)
    with pytest.raises(NotFound):
        get_backup(tmp_path, "gatepost-link.tar.gz")


def test_the_folder_is_in_the_home_unless_a_whole_path_is_set(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert find_folder(home, Config()) == tmp_path / "backups"
    assert find_folder(home, Config().with_values({FOLDER.name: "/mnt/b"}, "test")) == Path("/mnt/b")
    with pytest.raises(Invalid, match="no whole path"):
        find_folder(home, Config().with_values({FOLDER.name: "b"}, "test"))


def test_a_folder_that_cannot_be_written_is_refused_and_one_that_is_not_there_yet_is_not(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "file").touch()
    for name, usable in (("new/one", True), ("file/one", False), ("file", False)):
        config = Config().with_values({FOLDER.name: str(tmp_path / name)}, "test")
        with nullcontext() if usable else pytest.raises(Invalid, match=r"backup\.folder"):
            assert find_usable_folder(home, config) == tmp_path / name
