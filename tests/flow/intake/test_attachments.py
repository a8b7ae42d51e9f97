"""Attachments: safe names, all or none, on the disk."""

import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.core.errors import Unavailable
from gatepost.flow.intake import attachments
from gatepost.flow.intake.attachments import LONGEST_NAME, remove_orphans, safe_name, write_attachments
from gatepost.messages.inbound import Attachment, Direction, MessageKind
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import messages
from gatepost.store.messages.messages import NewMessage


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
    made = attachments.make_safe_names(files)
    assert made == ["a.txt", "A-2.TXT", "a-3.txt", "a-2-2.txt"]
    assert len({name.casefold() for name in made}) == 4


def test_files_are_kept_for_their_owner_alone(tmp_path: Path) -> None:
    kept = attachments.write_attachments(tmp_path, [Attachment(name="a.txt", mime="text/plain", data=b"hi")])
    path = tmp_path / kept[0].path
    assert path.read_bytes() == b"hi"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    attachments.remove_attachments(tmp_path, kept)
    assert os.listdir(tmp_path / "in") == []


def test_a_disk_that_takes_nothing_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("in the way")
    with pytest.raises(Unavailable, match="could not be stored"):
        attachments.write_attachments(tmp_path, [Attachment(name="a.txt", data=b"hi")])


async def test_a_folder_that_no_message_names_is_swept_unless_it_is_young(store: SqliteStore, tmp_path: Path) -> None:
    media = tmp_path / "media"
    named, orphan, young = (write_attachments(media, [Attachment(name="a.txt", data=b"x")])[0] for _ in range(3))
    for kept in (named, orphan):
        folder = (media / kept.path).parent
        os.utime(folder, (folder.stat().st_mtime - 3600,) * 2)
    (media / "in" / "of-somebody-else").mkdir()
    content = json.dumps({"text": "", "attachments": [{"name": "a.txt", "path": named.path}]})
    message = NewMessage(
        instance="fake",
        address="fake:room/1",
        direction=Direction.IN,
        kind=MessageKind.CHAT,
        sender="fake:user/1",
        text="",
        at=1,
        platform_id="m-1",
        content=content,
    )
    await store.write(messages.accept, message, 1)

    assert await remove_orphans(store, media) == 1
    assert [(media / kept.path).exists() for kept in (named, orphan, young)] == [True, False, True]
    assert (media / "in" / "of-somebody-else").is_dir()
