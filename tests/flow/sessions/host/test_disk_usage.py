"""What is done when the disk is nearly full, judged from figures."""

from pathlib import Path

from gatepost.core.files.untrusted_files import TreeUsage
from gatepost.flow.sessions.host.disk_usage import (
    DiskBaseline,
    DiskGrowth,
    DiskTree,
    FileSystemSpace,
    SpaceLevel,
    check_space,
    find_breach,
    group_tree,
    measure_growth,
    pick_heaviest,
    read_space,
)
from gatepost.flow.sessions.sandbox.group_limits import GroupLimits

MIB = 1024 * 1024
GIB = 1024 * MIB
LIMITS = GroupLimits(memory_mb=64, cpu_percent=0, processes=8, turn_s=1, disk_mb=8, files=100)
PLACE, BELOW = Path("/g/acme"), Path("/g/acme/eng")


def level(free: int, whole: int, free_files: int = 10**6, files: int = 10**7) -> SpaceLevel:
    return check_space([FileSystemSpace(free, whole, free_files, files)], 512, 10_000).level


def test_the_floor_is_that_of_the_settings_and_at_most_a_fiftieth() -> None:
    assert level(513 * MIB, 100 * GIB) is SpaceLevel.ENOUGH
    assert level(511 * MIB, 100 * GIB) is SpaceLevel.LOW
    assert level(255 * MIB, 100 * GIB) is SpaceLevel.EMPTY
    assert level(21 * MIB, GIB) is SpaceLevel.ENOUGH
    assert level(19 * MIB, GIB) is SpaceLevel.LOW


def test_inodes_have_a_floor_too_where_they_are_counted() -> None:
    assert level(50 * GIB, 100 * GIB, 9_999) is SpaceLevel.LOW
    assert level(50 * GIB, 100 * GIB, 4_999) is SpaceLevel.EMPTY
    assert level(50 * GIB, 100 * GIB, 0, 0) is SpaceLevel.ENOUGH


def test_the_worst_file_system_counts_and_zero_switches_it_off() -> None:
    spaces = [FileSystemSpace(50 * GIB, 100 * GIB), FileSystemSpace(MIB, 100 * GIB)]
    assert check_space(spaces, 512, 0).level is SpaceLevel.EMPTY
    assert check_space(spaces, 0, 0).level is SpaceLevel.ENOUGH


def test_who_grew_most_is_ended_and_a_small_growth_is_nobodys_fault() -> None:
    shortage = check_space([FileSystemSpace(300 * MIB, 100 * GIB)], 512, 0)
    assert pick_heaviest({"a": DiskGrowth(size=40 * MIB), "b": DiskGrowth(size=900 * MIB)}, shortage) == "b"
    assert pick_heaviest({"a": DiskGrowth(size=MIB, files=10**6)}, shortage) == ""
    assert pick_heaviest({}, shortage) == ""


def test_nobody_is_ended_on_a_small_disk_for_what_a_mailbox_and_a_conversation_take() -> None:
    of_bytes = check_space([FileSystemSpace(0, 48 * MIB)], 512, 0)
    assert pick_heaviest({"a": DiskGrowth(size=300 * 1024)}, of_bytes) == ""
    assert pick_heaviest({"a": DiskGrowth(size=2 * MIB)}, of_bytes) == "a"
    of_files = check_space([FileSystemSpace(GIB, 2 * GIB, 0, 1000)], 0, 10_000)
    assert pick_heaviest({"a": DiskGrowth(files=20)}, of_files) == ""
    assert pick_heaviest({"a": DiskGrowth(files=500)}, of_files) == "a"


def test_the_space_of_a_folder_that_is_missing_is_not_asked(tmp_path: Path) -> None:
    assert len(read_space([tmp_path, tmp_path / "missing", tmp_path.parent])) == 1


def test_a_group_answers_for_its_own_tree_and_what_it_deleted() -> None:
    own = [DiskTree(PLACE)]
    assert find_breach({PLACE: TreeUsage(5 * MIB, 9)}, own, 0, LIMITS, DiskBaseline()) == ""
    assert "disk_mb" in find_breach({PLACE: TreeUsage(5 * MIB, 9)}, own, 4 * MIB, LIMITS, DiskBaseline())
    assert "sandbox.files" in find_breach({PLACE: TreeUsage(MIB, 101)}, own, 0, LIMITS, DiskBaseline())


def test_a_childs_tree_counts_only_if_it_grew() -> None:
    before = DiskBaseline({BELOW: TreeUsage(20 * MIB, 9)})
    assert find_breach({BELOW: TreeUsage(20 * MIB, 9)}, [DiskTree(PLACE)], 0, LIMITS, before) == ""
    assert "disk_mb" in find_breach({BELOW: TreeUsage(21 * MIB, 10)}, [DiskTree(PLACE)], 0, LIMITS, before)


def test_stranger_06_a_folder_that_stays_closed_ends_the_sandbox() -> None:
    before, now = DiskBaseline(), {PLACE: TreeUsage(0, 1, "hidden")}
    assert find_breach(now, [DiskTree(PLACE)], 0, LIMITS, before) == ""
    assert "acme/hidden" in find_breach(now, [DiskTree(PLACE)], 0, LIMITS, before)


def test_growth_is_what_came_since_the_start() -> None:
    before = DiskBaseline({PLACE: TreeUsage(100, 10)})
    assert measure_growth({PLACE: TreeUsage(150, 12)}, 7, before) == DiskGrowth(57, 2)
    assert measure_growth({PLACE: TreeUsage(50, 2)}, 0, before) == DiskGrowth(0, 0)


def test_the_trees_of_groups_below_are_left_out() -> None:
    assert group_tree(PLACE, "acme", ["acme", "acme/eng", "acme/eng/a", "acmeb"]).skip == ("eng", "eng/a")
