"""Files of results: measured before they are copied, and never copied larger than that."""

import os
from pathlib import Path

import pytest

from gatepost.core.errors import GatepostError, Invalid, Refused
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.flow.delivery import outgoing_messages
from gatepost.flow.delivery.outgoing_messages import LARGEST_FILE
from gatepost.flow.sessions.runner.result_files import MOST_FILES, copy_files, measure_files
from gatepost.store.messages import sent_files
from gatepost.store.messages.sent_files import NewSentFiles
from gatepost.store.port import Db

MB = 1024 * 1024
NOW = 1_800_000_000_000_000


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.prepare()
    (home.session("s-1") / "out" / "files" / "t-1-1-0").mkdir(parents=True)
    return home


def put(home: Home, name: str, size: int) -> None:
    with (home.session("s-1") / "out" / "files" / "t-1-1-0" / name).open("wb") as file:
        os.truncate(file.fileno(), size)


def test_stranger_07_holes_count_and_a_file_that_grows_is_not_taken(home: Home) -> None:
    put(home, "a", 3 * MB)
    put(home, "b", 10)
    sizes = measure_files(home, "s-1", "t-1-1-0", ["a", "b"])
    assert sizes == [3 * MB, 10]
    put(home, "b", 11)
    with pytest.raises(Invalid, match="larger than 10 bytes"):
        copy_files(home, "s-1", "t-1-1-0", ["a", "b"], sizes)
    assert not (home.media / "out" / "t-1-1-0").exists()

    put(home, "b", 10)
    assert [file.size for file in copy_files(home, "s-1", "t-1-1-0", ["a", "b"], sizes)] == sizes


def test_too_large_too_many_and_missing_files_are_refused_before_anything_is_copied(home: Home) -> None:
    put(home, "a", LARGEST_FILE + 1)
    for names in (["a"], ["a"] * (MOST_FILES + 1), ["missing"]):
        with pytest.raises(GatepostError):
            measure_files(home, "s-1", "t-1-1-0", names)


def test_stranger_07_bytes_are_set_aside_by_turn_and_group_until_a_refusal_names_the_limit(db: Db) -> None:
    config = Config({"files.turn_mb": 10, "files.group_mb": 15})

    def give(key: str, turn: str, size: int) -> None:
        new = NewSentFiles(key=key, folder="acme", session_id="s-1", turn_id=turn, bytes=size)
        outgoing_messages.reserve_file_bytes(db, config, new, "send_file", NOW)

    give("1", "t-1", 6 * MB)
    give("1", "t-1", 6 * MB)  # made again: the same bytes
    with pytest.raises(Refused, match=r"at most 10 MB are sent in one turn \(files\.turn_mb\); 6\.0 MB were"):
        give("2", "t-1", 5 * MB)
    give("3", "t-2", 9 * MB)
    with pytest.raises(Refused, match=r"at most 15 MB are sent of a group within 24 hours \(files\.group_mb\)"):
        give("4", "t-3", MB)
    sent_files.remove(db, "3")
    give("4", "t-3", MB)


def test_stranger_new_bytes_said_again_with_less_count_as_before(db: Db) -> None:
    def put(size: int) -> None:
        sent_files.put(db, NewSentFiles(key="1", folder="acme", session_id="s-1", turn_id="t-1", bytes=size), NOW)

    put(6 * MB)
    put(1)
    assert sent_files.count_group_bytes(db, "acme", NOW) == 6 * MB
