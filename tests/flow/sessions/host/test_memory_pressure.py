"""Little memory: who makes way, and whether another may wake."""

from pathlib import Path

import pytest

from gatepost.flow.sessions.host.memory_pressure import HostMemory, MemoryVerdict, check_memory, read_memory

RESTING = [(300, "s-late"), (100, "s-early"), (200, "s-mid")]
MIB = 1024 * 1024


@pytest.mark.parametrize("memory", [HostMemory(512), HostMemory(100_000, stalled=40.0), None])
def test_with_room_or_where_it_cannot_be_known_nobody_makes_way(memory: HostMemory | None) -> None:
    assert check_memory(memory, 512, 3, RESTING) == MemoryVerdict()


def test_below_the_least_the_one_that_rests_longest_makes_way_and_no_further_one_is_woken() -> None:
    verdict = check_memory(HostMemory(511), 512, 3, RESTING)

    assert (verdict.end, verdict.wake) == ("s-early", False)
    assert "511 MB" in verdict.why


def test_one_that_waits_for_memory_counts_as_little_of_it() -> None:
    assert check_memory(HostMemory(100_000, stalled=41.0), 512, 3, RESTING).wake is False


def test_those_that_work_are_left_alone_and_one_may_always_be_awake() -> None:
    assert check_memory(HostMemory(1), 512, 2, []) == MemoryVerdict(
        wake=False, why=check_memory(HostMemory(1), 512, 2, []).why
    )
    assert check_memory(HostMemory(1), 512, 0, []).wake is True


def test_nought_switches_it_off() -> None:
    assert check_memory(HostMemory(1), 0, 3, RESTING) == MemoryVerdict()


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "pressure").mkdir()
    (tmp_path / "proc" / "meminfo").write_text("MemTotal: 4194304 kB\nMemFree: 1 kB\nMemAvailable: 2097152 kB\n")
    (tmp_path / "proc" / "pressure" / "memory").write_text("some avg10=12.50 avg60=0.00 avg300=0.00 total=3\n")
    return tmp_path


def test_what_is_free_is_the_machines(machine: Path) -> None:
    assert read_memory(machine / "proc", machine / "cgroup") == HostMemory(2048, 12.5)


@pytest.mark.parametrize(
    ("line", "folder", "limit", "used", "cache"),
    [
        ("4:memory:/box", "memory/box", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ("0::/box", "box", "memory.max", "memory.current", "inactive_file"),
    ],
)
def test_or_what_is_left_of_our_own_limit_where_that_is_less(
    machine: Path, line: str, folder: str, limit: str, used: str, cache: str
) -> None:
    own = machine / "cgroup" / folder
    own.mkdir(parents=True)
    (machine / "proc" / "self" / "cgroup").write_text(line + "\n")
    (own / limit).write_text(f"{1000 * MIB}\n")
    (own / used).write_text(f"{900 * MIB}\n")
    (own / "memory.stat").write_text(f"anon 5\n{cache} {200 * MIB}\n")

    assert read_memory(machine / "proc", machine / "cgroup") == HostMemory(300, 12.5)


def test_without_a_limit_or_without_such_figures_there_is_nothing_to_go_by(machine: Path) -> None:
    own = machine / "cgroup"
    own.mkdir()
    (machine / "proc" / "self" / "cgroup").write_text("0::/\n")
    (own / "memory.max").write_text("max\n")
    (own / "memory.current").write_text("5\n")

    assert read_memory(machine / "proc", own) == HostMemory(2048, 12.5)
    assert read_memory(machine / "nowhere", own) is None
