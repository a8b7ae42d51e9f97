"""Files that people name: what is wrong with one is said in a line."""

from pathlib import Path

import pytest

from gatepost.cli.given_files import read_text
from gatepost.core.errors import Invalid


def test_a_text_is_read_whole_and_within_its_bound(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text("grüß dich")
    assert read_text("FILE", str(file)) == read_text("FILE", str(file), 11) == "grüß dich"
    for most in (3, 10):  # the first cuts a letter in two
        with pytest.raises(Invalid, match=f"FILE: .*a.md has more than {most} bytes"):
            read_text("FILE", str(file), most)


def test_what_is_no_text_or_not_there_is_said_with_the_option(tmp_path: Path) -> None:
    (tmp_path / "raw").write_bytes(b"\xff\xfe")
    for name, said in (
        ("raw", "is no text in UTF-8"),
        ("none", "cannot be read: No such"),
        ("", "cannot be read: Is a"),
    ):
        with pytest.raises(Invalid, match=f"--script: .*{said}"):
            read_text("--script", str(tmp_path / name))
