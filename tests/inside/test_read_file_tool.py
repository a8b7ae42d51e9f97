"""The file reader of models behind an API."""

import os
from pathlib import Path

import pytest

from gatepost.inside.providers.contract import ProviderContext
from gatepost.inside.read_file_tool import LARGEST, read_file
from gatepost_testing.provider_context import make_context


@pytest.fixture
def place(tmp_path: Path) -> ProviderContext:
    (tmp_path / "ws" / "in" / "files").mkdir(parents=True)
    (tmp_path / "agent" / "skills").mkdir(parents=True)
    (tmp_path / "secret").write_text("not yours")
    return make_context(
        tmp_path / "ws", agent=tmp_path / "agent", start=tmp_path / "agent", router=tmp_path / "router.sock"
    )


def test_it_reads_its_own_folder_and_what_came_with_messages(place: ProviderContext) -> None:
    (place.agent / "skills" / "a.md").write_text("how to")
    (place.workspace / "in" / "files" / "b.txt").write_text("words")

    assert read_file(place, {"path": "skills/a.md"}).text == "how to"
    assert read_file(place, {"path": str(place.workspace / "in" / "files" / "b.txt")}).text == "words"


def test_a_long_file_comes_in_parts(place: ProviderContext) -> None:
    (place.agent / "a.md").write_text("x" * LARGEST + "end")
    first = read_file(place, {"path": "a.md"}).text

    assert f"3 characters left; go on with offset {LARGEST}" in first
    assert read_file(place, {"path": "a.md", "offset": LARGEST}).text == "end"


@pytest.mark.parametrize("path", ["../secret", "link", "missing", "pipe", "binary", "", ".", "a\0b", None])
def test_whatever_is_not_its_own_text_is_refused_in_words(place: ProviderContext, path: str | None) -> None:
    (place.agent / "link").symlink_to(place.agent.parent / "secret")
    (place.agent / "binary").write_bytes(b"\0\1\2")
    os.mkfifo(place.agent / "pipe")
    answer = read_file(place, {"path": path})

    assert answer.is_error and answer.text and "not yours" not in answer.text
