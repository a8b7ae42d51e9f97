"""The files of a conversation in its session's folder."""

from pathlib import Path

from gatepost.core.home import Home
from gatepost.flow.sessions.runner.projection import stage_files
from gatepost.store.sessions.session_files import ConversationFile, ConversationFiles


def test_nothing_is_copied_twice_and_a_file_goes_with_its_original(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (home.mailbox("s-1") / "in" / "files" / "7").mkdir(parents=True)
    (home.mailbox("s-1") / "in" / "files" / "7" / "old").write_bytes(b"old")
    original = home.media / "in" / "f-1" / "a.csv"
    original.parent.mkdir(parents=True)
    original.write_bytes(b"1,2")
    files = ConversationFiles(rows={8: [ConversationFile("a.csv", "in/f-1/a.csv"), ConversationFile("b", "in/f-2/b")]})
    stage_files(home, "s-1", files)
    staged = home.mailbox("s-1") / "in" / "files" / "8" / "a.csv"
    made = staged.stat()
    stage_files(home, "s-1", files)

    assert staged.read_bytes() == b"1,2" and staged.stat().st_ino == made.st_ino
    assert not (home.mailbox("s-1") / "in" / "files" / "7").exists()
    original.unlink()
    stage_files(home, "s-1", files)
    assert not staged.exists()
