"""New files of the owner's alone: nothing is replaced, and one that failed leaves nothing behind."""

import os
import stat
import tempfile
from pathlib import Path

import pytest

from gatepost.core.errors import Invalid, SetupError
from gatepost.core.files.private_files import make_private_file, make_private_folder, make_whole_file


def test_a_new_file_is_its_owners_alone_and_replaces_nothing(tmp_path: Path) -> None:
    file = tmp_path / "key"
    with make_private_file("--file", file) as out:
        out.write(b"secret")
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("secret", 0o600)
    with pytest.raises(Invalid, match=r"--file: .*is there already"), make_private_file("--file", file):
        pass
    assert file.read_text() == "secret"
    with pytest.raises(SetupError, match="cannot be made"), make_private_file("--file", tmp_path / ("x" * 300)):
        pass


def test_a_folder_that_is_not_there_is_named_rather_than_the_file_in_it(tmp_path: Path) -> None:
    missing = f"there is no folder {tmp_path / 'no'}; make it"
    for make in (make_private_file, make_whole_file):
        with pytest.raises(Invalid, match=missing), make("--file", tmp_path / "no" / "x"):
            pass


def test_of_what_failed_nothing_stays(tmp_path: Path) -> None:
    file = tmp_path / "key"
    with pytest.raises(KeyError), make_private_file("--file", file) as out:
        out.write(b"half")
        raise KeyError
    assert not file.exists()


def _leave_closed_folders(place: str) -> None:
    """As an ordinary user, in a child of this process: root may remove everything."""
    pid = os.fork()
    if pid == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(64123)
                os.setuid(64123)
            with make_private_folder(Path(place)) as folder:
                for mode in (0, 0o500):
                    closed = folder / "groups" / f"closed-{mode}"
                    (closed / "below").mkdir(parents=True)
                    (closed / "below" / "large").write_bytes(bytes(1000))
                    (closed / "below").chmod(mode)
                    closed.chmod(mode)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def test_folders_that_an_agent_closed_are_removed_as_well() -> None:
    """Where a backup is tried out and put back, copies of agents' files are laid out and must not pile up."""
    with tempfile.TemporaryDirectory() as place:
        if os.geteuid() == 0:
            os.chown(place, 64123, 64123)
        _leave_closed_folders(place)
        assert os.listdir(place) == []
