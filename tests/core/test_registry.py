import importlib
import sys
from collections.abc import Callable, Iterator
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


def test_of_many_names_an_error_names_those_that_are_like_the_mistyped_one() -> None:
    registry: Registry[int] = Registry("tool")
    for number in range(80):
        registry.add(f"tool_{number:02}", number, "one.py")
    registry.add("send", 1, "one.py")

    with pytest.raises(NotFound, match=r"no tool named 'sned'; did you mean 'send'\?"):
        registry["sned"]
    with pytest.raises(NotFound, match="there are 81, and none is like it"):
        registry["qqqq"]


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


@pytest.fixture
def deferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry[int]]:
    """Knows `slow` by name, and has not imported its file."""
    (tmp_path / "their_contract.py").write_text(
        "from gatepost.core.registry import Registry\nTHINGS = Registry('channel')\n"
    )
    (tmp_path / "slow_thing.py").write_text("from their_contract import THINGS\nTHINGS.add('slow', 7, __name__)\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry: Registry[int] = importlib.import_module("their_contract").THINGS
    registry.add("quick", 1, "quick.py")
    registry.defer("slow", "slow_thing")
    yield registry
    for name in ("their_contract", "slow_thing"):
        sys.modules.pop(name, None)


def test_what_is_deferred_has_its_name_and_is_imported_when_it_is_wanted(deferred: Registry[int]) -> None:
    assert (list(deferred), len(deferred), "slow" in deferred) == (["quick", "slow"], 2, True)
    assert deferred.list_loaded() == [("quick", 1)]
    assert deferred.get("quick") == 1 and deferred.get("other") is None
    assert "slow_thing" not in sys.modules

    assert deferred.get("slow") == deferred["slow"] == 7
    assert deferred.origin("slow") == "slow_thing"
    assert deferred.items() == deferred.list_loaded() == [("quick", 1), ("slow", 7)]


def test_a_list_of_all_and_a_copy_have_what_was_deferred(deferred: Registry[int]) -> None:
    assert deferred.copy().list_loaded() == [("quick", 1), ("slow", 7)]
    assert deferred.items() == [("quick", 1), ("slow", 7)]

    deferred.defer("slow", "slow_thing")  # as by a second look at the folder
    assert deferred["slow"] == 7


def test_the_name_of_what_is_deferred_is_not_free(deferred: Registry[int]) -> None:
    with pytest.raises(SetupError, match=r"two channels are named 'slow': slow_thing and plugins/slow\.py"):
        deferred.add("slow", 8, "plugins/slow.py")
    assert deferred["slow"] == 7


def test_a_file_that_does_not_add_its_own_name_is_told(deferred: Registry[int]) -> None:
    deferred.defer("json", "json")
    with pytest.raises(SetupError, match="json adds no channel 'json'"):
        deferred.get("json")


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry[int]]:
    """Names a package, which is not imported."""
    folder = tmp_path / "packed_things"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "contract.py").write_text(
        "from gatepost.core.registry import Registry\nTHINGS = Registry('page', 'packed_things')\n"
    )
    (folder / "some.py").write_text(
        "from packed_things.contract import THINGS\nTHINGS.add('one', 1, __name__)\nTHINGS.add('two', 2, __name__)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("packed_things.contract").THINGS
    for name in ("packed_things", "packed_things.contract", "packed_things.some"):
        sys.modules.pop(name, None)


def test_a_package_is_imported_when_something_is_wanted_that_is_not_there_yet(packed: Registry[int]) -> None:
    packed.add("known", 0, "known.py")
    assert (packed["known"], packed.get("known"), "known" in packed, packed.is_complete) == (0, 0, True, False)
    assert "packed_things.some" not in sys.modules

    assert packed["two"] == 2
    assert packed.is_complete and packed.origin("one") == "packed_things.some"
    with pytest.raises(NotFound, match="there are: known, one, two"):
        packed["three"]


@pytest.mark.parametrize(
    "look", [list, len, Registry.items, Registry.copy, Registry.complete, lambda all: "one" in all]
)
def test_every_look_at_all_of_a_package_imports_it(
    packed: Registry[int], look: Callable[[Registry[int]], object]
) -> None:
    look(packed)
    assert packed.list_loaded() == [("one", 1), ("two", 2)]
