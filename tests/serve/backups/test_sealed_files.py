"""Sealed backups: opened by their identity and by `age` alone, and what was changed or cut does not open."""

import io
import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest

from gatepost.core.errors import Invalid, SetupError
from gatepost.serve.backups import sealed_files
from gatepost.serve.backups.sealed_files import (
    ARMORED,
    find_recipients,
    make_identity,
    measure_digest,
    open_plain,
    parse_recipients,
    read_identity,
    seal,
    seal_by_passphrase,
)

DATA = os.urandom(300_000)
needs_age = pytest.mark.skipif(shutil.which("age") is None, reason="age is not installed: apt-get install age")


@pytest.fixture(scope="module")
def identity() -> tuple[str, str]:
    return make_identity()


def make_sealed(path: Path, recipient: str, data: bytes = DATA) -> str:
    with path.open("wb") as file:
        return seal(io.BytesIO(data), file, [recipient])


def read_whole(path: Path, identity: str) -> bytes:
    with open_plain(path, identity) as file:
        return file.read()


def test_what_is_sealed_opens_with_its_identity_and_has_the_digest_that_was_said(
    tmp_path: Path, identity: tuple[str, str]
) -> None:
    digest = make_sealed(tmp_path / "s", identity[1])
    assert read_whole(tmp_path / "s", identity[0]) == DATA and measure_digest(tmp_path / "s") == digest
    assert find_recipients(identity[0]) == [identity[1]]


@pytest.mark.parametrize("spoil", [lambda data: data[:-1000], lambda data: data[:-1] + b"x", lambda data: data[:150]])
def test_what_was_cut_or_changed_does_not_pass_for_whole(tmp_path: Path, identity: tuple[str, str], spoil) -> None:
    make_sealed(tmp_path / "s", identity[1])
    (tmp_path / "s").write_bytes(spoil((tmp_path / "s").read_bytes()))
    with pytest.raises(SetupError, match="does not open"), open_plain(tmp_path / "s", identity[0]) as file:
        file.read(10)


def test_another_identity_or_none_opens_nothing_and_says_what_is_wanted(
    tmp_path: Path, identity: tuple[str, str]
) -> None:
    make_sealed(tmp_path / "s", identity[1])
    with pytest.raises(SetupError, match="does not open"):
        read_whole(tmp_path / "s", make_identity()[0])
    with pytest.raises(Invalid, match="--identity"):
        read_whole(tmp_path / "s", "")


def test_a_reader_that_stops_early_leaves_no_thread_waiting(tmp_path: Path, identity: tuple[str, str]) -> None:
    make_sealed(tmp_path / "s", identity[1])
    with pytest.raises(ValueError, match="no more"), open_plain(tmp_path / "s", identity[0]) as file:
        assert file.read(10) == DATA[:10]
        raise ValueError("no more")


def test_an_identity_in_the_place_of_a_recipient_is_refused_and_not_repeated(identity: tuple[str, str]) -> None:
    with pytest.raises(Invalid, match="keep it elsewhere") as refused:
        parse_recipients([identity[0]])
    assert identity[0][20:] not in str(refused.value)
    with pytest.raises(Invalid, match="is no recipient"):
        parse_recipients(["bob"])


@pytest.mark.parametrize("text", ["", "# only words\n", "age1notsecret\n", "AGE-SECRET-KEY-1AAAA\n"])
def test_a_file_that_holds_no_identity_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "key").write_text(text)
    with pytest.raises(Invalid, match="no identity"):
        read_identity(tmp_path / "key")


def test_without_the_library_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed_files, "MODULE", "no_such_library_of_age")
    with pytest.raises(SetupError, match=r"pip install 'gatepost\[backup\]'"):
        make_identity()


@needs_age
def test_age_opens_what_we_seal_and_we_open_what_age_seals(tmp_path: Path, identity: tuple[str, str]) -> None:
    make_sealed(tmp_path / "s", identity[1])
    (tmp_path / "key").write_text(f"# made for a test\n{identity[0]}\n")
    found = subprocess.run(["age", "-d", "-i", tmp_path / "key", tmp_path / "s"], capture_output=True, check=True)
    assert found.stdout == DATA
    subprocess.run(["age", "-r", identity[1], "-o", tmp_path / "t"], input=DATA, check=True)
    assert read_whole(tmp_path / "t", read_identity(tmp_path / "key")) == DATA


@needs_age
@pytest.mark.slow
def test_age_opens_what_a_passphrase_seals(tmp_path: Path) -> None:
    sealed = seal_by_passphrase(b"what is in the kit", "correct horse battery")
    assert sealed.startswith(ARMORED)
    (tmp_path / "kit").write_bytes(sealed)
    assert b"what is in the kit" in ask_age(tmp_path / "kit", b"correct horse battery\n")


def ask_age(path: Path, answer: bytes) -> bytes:
    """It asks on a terminal alone."""
    child, terminal = pty.fork()
    if child == 0:
        os.execvp("age", ["age", "-d", str(path)])
    said = b""
    while b"passphrase" not in said:
        said += os.read(terminal, 1024)
    os.write(terminal, answer)
    try:
        while piece := os.read(terminal, 1024):
            said += piece
    except OSError:  # the terminal closes with its program
        pass
    os.waitpid(child, 0)
    return said
