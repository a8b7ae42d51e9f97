import json
from pathlib import Path

import pytest

from gatepost.core.files.log_tail import BLOCK, LogLevel, read_last_lines


def make_line(number: int, level: str = "info", **facts: object) -> str:
    return json.dumps({"timestamp": "2026-01-01T00:00:00Z", "level": level, "event": f"event {number}", **facts})


def test_the_newest_lines_come_first_across_blocks(tmp_path: Path) -> None:
    path = tmp_path / "gatepost.log"
    lines = [make_line(number, text="ü" * 50) for number in range(3000)]
    path.write_text("\n".join(lines) + "\n")
    assert path.stat().st_size > 3 * BLOCK
    found = read_last_lines(path, 2500)
    assert [each.event for each in found] == [f"event {number}" for number in range(2999, 499, -1)]


def test_lines_are_chosen_by_level_and_words(tmp_path: Path) -> None:
    path = tmp_path / "gatepost.log"
    path.write_text("\n".join([make_line(1, "error", folder="acme"), make_line(2, "debug"), "half a li", "[1]"]))
    assert [each.event for each in read_last_lines(path, 10, LogLevel.INFO)] == ["event 1"]
    assert [each.event for each in read_last_lines(path, 10)] == ["event 2", "event 1"]
    [line] = read_last_lines(path, 10, words="ACME event")
    assert (line.facts, line.level) == ("folder=acme", "error")


def test_a_log_that_is_not_there_has_no_lines(tmp_path: Path) -> None:
    assert read_last_lines(tmp_path / "none.log", 10) == []


@pytest.mark.slow
def test_one_answer_reads_a_bounded_part_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "gatepost.log"
    path.write_text(make_line(1, "error") + "\n" + (make_line(2) + "\n") * 60_000)
    assert read_last_lines(path, 10, LogLevel.ERROR) == []
