from pathlib import Path

import pytest

from gatepost.core.errors import NotFound, SetupError
from gatepost.core.registry import Registry, load_folder


def test_a_second_thing_of_the_same_name_stops_the_start_and_names_both() -> None:
    registry: Registry[int] = Registry("channel")
    registry.add("ntfy", 1, "one.py")

    with pytest.raises(SetupError, match=r"two channels are named 'ntfy': one\.py and two\.py"):
        registry.add("ntfy", 2, "two.py")
    assert registry["ntfy"] == 1


def test_an_unknown_name_is_told_with_the_known_ones() -> None:
    registry: Registry[int] = Registry("channel")
    registry.add("ntfy", 1, "one.py")

    with pytest.raises(NotFound, match="no channel named 'x'; there are: ntfy"):
        registry["x"]


def test_a_folder_is_listed_in_order_and_hidden_files_are_left_out(tmp_path: Path) -> None:
    for name in ("b.py", "a.py", "_private.py", ".hidden.py", "notes.txt"):
        (tmp_path / name).write_text(f"NAME = {name!r}")
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("NAME = 'pack'")

    assert [module.NAME for module in load_folder(tmp_path, "tests")] == ["a.py", "b.py", "pack"]


def test_a_broken_plug_in_stops_the_start_by_name(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("1 / 0")

    with pytest.raises(SetupError, match=r"bad\.py does not load: ZeroDivisionError"):
        load_folder(tmp_path, "tests")


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert load_folder(tmp_path / "none", "tests") == []


def test_a_plug_in_is_loaded_once_by_a_process_and_a_broken_one_is_told_again(tmp_path: Path) -> None:
    """Several commands ask for the sandboxes' folder twice: `doctor`, and `connect` without a gateway."""
    count = tmp_path / "count"
    (tmp_path / "counted.py").write_text(f"open({str(count)!r}, 'a').write('x')\n")
    assert load_folder(tmp_path, "counts") == load_folder(tmp_path, "counts")
    assert count.read_text() == "x"

    (tmp_path / "two.py").write_text(
        "from gatepost.core.errors import SetupError\nraise SetupError('two things are named so')\n"
    )
    for _ in range(2):
        with pytest.raises(SetupError, match="two things"):
            load_folder(tmp_path, "counts")
