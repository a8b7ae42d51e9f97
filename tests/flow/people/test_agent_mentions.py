"""Files of agents that name a person are found within bounds, and nothing leads out of them."""

import os
from pathlib import Path

import pytest

from gatepost.core.home import Home
from gatepost.flow.people import agent_mentions
from gatepost.flow.people.agent_mentions import find_mentions


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.prepare()
    (home.groups / "acme" / "notes").mkdir(parents=True)
    return home


def test_files_that_hold_a_word_or_are_named_by_it_are_found(home: Home) -> None:
    (home.groups / "acme/notes/a.md").write_text("fake:user/9 likes tea")
    (home.groups / "acme/notes/b.md").write_text("fake:user/91 likes coffee")
    (home.groups / "acme/notes/Ann.md").write_text("nothing")
    assert find_mentions(home, ("fake:user/9", "Ann")) == (["groups/acme/notes/Ann.md", "groups/acme/notes/a.md"], True)
    assert find_mentions(home, ()) == ([], True)


def test_a_link_is_not_followed_and_a_pipe_does_not_hold_it_up(home: Home, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("fake:user/9")
    (home.groups / "acme/link").symlink_to(tmp_path / "outside")
    (home.groups / "acme/around").symlink_to(home.groups)
    os.mkfifo(home.groups / "acme/pipe")
    assert find_mentions(home, ("fake:user/9",)) == ([], True)


def test_too_many_or_too_large_files_are_told(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    with (home.groups / "acme/large").open("wb") as file:
        file.truncate(agent_mentions.LARGEST_FILE + 1)
    assert find_mentions(home, ("fake:user/9",)) == ([], False)
    (home.groups / "acme/large").unlink()
    monkeypatch.setattr(agent_mentions, "MOST_FILES", 3)
    for number in range(5):
        (home.groups / f"acme/{number}").write_text("x")
    assert find_mentions(home, ("fake:user/9",)) == ([], False)
