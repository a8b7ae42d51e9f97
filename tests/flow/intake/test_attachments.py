"""Attachments: safe names, all or none, on the disk."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.core.errors import Unavailable
from gatepost.flow.intake import attachments
from gatepost.flow.intake.attachments import LONGEST_NAME, safe_name
from gatepost.messages.inbound import Attachment


@pytest.mark.parametrize(
    ("given_name", "safe"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\a.txt", "a.txt"),
        (".bashrc", "bashrc"),
        ("a\x00b\n.txt", "ab.txt"),
        ("über uns.txt", "über uns.txt"),
        ("evil\u202etxt.exe", "eviltxt.exe"),
        ("x/", "file.pdf"),
        ("..", "file.pdf"),
    ],
)
def test_a_name_is_made_safe(given_name: str, safe: str) -> None:
    assert safe_name(given_name, "application/pdf") == safe


@given(st.text(max_size=300))
def test_no_name_leaves_its_folder(name: str) -> None:
    made = safe_name(name)
    assert made and "/" not in made and "\x00" not in made and not made.startswith(".")
    assert len(made.encode()) <= LONGEST_NAME


def test_equal_names_are_numbered_also_where_case_does_not_count() -> None:
    files = [Attachment(name=name) for name in ("a.txt", "A.TXT", "a.txt", "a-2.txt")]
    made = attachments.names(files)
    assert made == ["a.txt", "A-2.TXT", "a-3.txt", "a-2-2.txt"]
    assert len({name.casefold() for name in made}) == 4


def test_files_are_kept_for_their_owner_alone(tmp_path: Path) -> None:
    kept = attachments.keep(tmp_path, [Attachment(name="a.txt", mime="text/plain", data=b"hi")])
    path = tmp_path / kept[0].path
    assert path.read_bytes() == b"hi"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    attachments.remove(tmp_path, kept)
    assert os.listdir(tmp_path / "in") == []


def test_a_disk_that_takes_nothing_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("in the way")
    with pytest.raises(Unavailable, match="could not be stored"):
        attachments.keep(tmp_path, [Attachment(name="a.txt", data=b"hi")])
