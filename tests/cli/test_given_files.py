"""Files that people name: what is wrong with one is said in a line, and one that failed leaves nothing behind."""

import stat
from pathlib import Path

import pytest

from gatepost.cli.given_files import make_private_file, read_text
from gatepost.core.errors import Invalid, SetupError


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


def test_a_new_file_is_its_owners_alone_and_replaces_nothing(tmp_path: Path) -> None:
    file = tmp_path / "key"
    with make_private_file("--file", file) as out:
        out.write(b"secret")
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("secret", 0o600)
    with pytest.raises(Invalid, match=r"--file: .*is there already"), make_private_file("--file", file):
        pass
    assert file.read_text() == "secret"
    with pytest.raises(SetupError, match="cannot be made"), make_private_file("--file", tmp_path / "no" / "x"):
        pass


def test_of_what_failed_nothing_stays(tmp_path: Path) -> None:
    file = tmp_path / "key"
    with pytest.raises(KeyError), make_private_file("--file", file) as out:
        out.write(b"half")
        raise KeyError
    assert not file.exists()
