"""`gatepost backup`: what is in it, what never is, and who can read it."""

import io
import json
import os
import shutil
import stat
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatepost.core.files.private_files import UNDER_WAY
from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.serve.backups import archive
from gatepost.serve.backups.backup_folder import BackupProof, keep_proof
from gatepost.serve.backups.backup_runs import LARGEST_REPORT, MadeBackup
from gatepost.serve.backups.emergency_kit import open_kit, read_sealed
from gatepost.serve.backups.sealed_files import is_sealed, make_identity, measure_digest
from gatepost.store.engine.readonly import read_snapshot
from gatepost.store.memory import memories
from gatepost.store.memory.memories import MemoryFilter
from gatepost.store.rights import secrets

Run = Callable[..., Any]


@pytest.fixture
def home(bare_home: Home) -> Home:
    """One of these tests is about a home without a store."""
    return bare_home


def names(path: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(path) as tar:
        return {each.name: each for each in tar.getmembers()}


@pytest.fixture
def used(run: Run, home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    run("group", "add", "acme")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"hunter2hunter2")))
    assert run("secret", "set", "WEATHER").code == 0
    (home.path / "control.token").write_text("a-token-of-thirty-two-characters")
    (home.path / "gatepost.toml").write_text('timezone = "Europe/Berlin"\n')
    return home


def test_stranger_14_a_backup_is_the_owners_alone_and_has_neither_key_ring_nor_token(
    run: Run, used: Home, tmp_path: Path
) -> None:
    before = os.umask(0)
    try:
        told = run("backup", "create", str(tmp_path / "b.tar.gz"))
    finally:
        os.umask(before)

    assert told.code == 0 and "keyring.json" in told.out
    assert stat.S_IMODE((tmp_path / "b.tar.gz").stat().st_mode) == 0o600
    found = names(tmp_path / "b.tar.gz")
    assert {"gatepost.db", "gatepost.toml", "groups/acme/AGENTS.md", "groups/acme/CLAUDE.md"} <= set(found)
    assert not {"keyring.json", "control.token", "run", "logs", "gatepost.lock"} & set(found)
    assert [each.name for each in tmp_path.iterdir()] == ["b.tar.gz"]


def test_a_backup_has_what_agents_remember_and_its_file(run: Run, used: Home, tmp_path: Path) -> None:
    assert run("memory", "add", "acme", "The bins go on Tuesday.").code == 0
    assert run("memory", "sync", "acme").code == 0
    assert run("backup", "create", str(tmp_path / "b.tar.gz")).code == 0
    with tarfile.open(tmp_path / "b.tar.gz") as tar:
        tar.extractall(tmp_path / "back", filter="data")

    found = read_snapshot(tmp_path / "back" / "gatepost.db", memories.list_chosen, MemoryFilter(), 2**60)
    assert [each.text for each in found] == ["The bins go on Tuesday."]
    assert "Tuesday" in (tmp_path / "back" / "groups" / "acme" / "MEMORY.md").read_text()


def test_a_backup_in_the_home_holds_neither_itself_nor_an_earlier_one(run: Run, used: Home) -> None:
    (used.path / "notes.tar.gz").write_bytes(b"no backup")
    for name in ("b1.tar.gz", "second"):
        assert run("backup", "create", str(used.path / name)).code == 0
    found = set(names(used.path / "second"))
    assert {"gatepost.db", "notes.tar.gz"} <= found and not {"b1.tar.gz", "second"} & found


@pytest.mark.slow
def test_the_keys_of_devices_are_left_out_and_it_is_said_whose(run: Run, used: Home, tmp_path: Path) -> None:
    """They open encrypted rooms, and an old copy of them must not be used again."""
    for name in ("matrix", "empty"):
        (used.channels / name).mkdir(parents=True)
    (used.channels / "matrix" / "keys.db").write_text("keys")
    told = run("backup", "create", str(tmp_path / "b.tar.gz"))

    assert "without the keys of devices: matrix are linked anew after a restore" in told.out
    assert not [each for each in names(tmp_path / "b.tar.gz") if each.startswith("channels")]
    assert run("backup", "create", str(tmp_path / "c.tar.gz"), "--json").json["devices"] == ["matrix"]


def test_stranger_14_a_token_that_lies_elsewhere_in_the_home_is_left_out(
    run: Run, used: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (used.plugins / "token").write_text("a-token-of-thirty-two-characters")
    monkeypatch.setenv("GATEPOST_CONTROL_TOKEN_FILE", str(used.plugins / "token"))
    run("backup", "create", str(tmp_path / "b.tar.gz"))

    assert "plugins/token" not in names(tmp_path / "b.tar.gz")


def test_stranger_14_a_backup_follows_no_link_and_is_held_up_by_no_pipe(run: Run, used: Home, tmp_path: Path) -> None:
    place = used.group("acme")
    (place / "shadow").symlink_to("/etc/passwd")
    os.mkfifo(place / "pipe")
    told = run("backup", "create", str(tmp_path / "b.tar.gz"), "--json").json

    link = names(tmp_path / "b.tar.gz")["groups/acme/shadow"]
    assert link.issym() and link.linkname == "/etc/passwd"
    assert told["skipped"] == ["groups/acme/pipe"]


def test_an_agent_makes_no_report_of_a_backup_longer_than_the_gateway_reads(
    run: Run, used: Home, tmp_path: Path
) -> None:
    """The report of what could not be taken along. A gateway that cannot read it calls its own backups failed, takes
    none elsewhere and removes no old one."""
    fd = os.open(used.groups / "acme", os.O_RDONLY)
    for _ in range(10):
        os.mkdir(b"\xff" * 250, dir_fd=fd)
        below = os.open(b"\xff" * 250, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    for number in range(400):
        os.mkfifo(f"pipe-{number}", dir_fd=fd)
    os.close(fd)

    told = run("backup", "create", str(tmp_path / "b.tar.gz"), "--json")
    made = msgspec.json.decode(told.out.encode()[:LARGEST_REPORT], type=MadeBackup)
    assert made.file == str(tmp_path / "b.tar.gz")
    assert json.loads(told.out)["skipped_in_all"] == 400

    shown = run("backup", "create", str(tmp_path / "c.tar.gz"))
    assert "and 390 more" in shown.out and len(shown.out) < 10_000


def test_stranger_14_a_file_that_is_there_is_not_overwritten(run: Run, used: Home, tmp_path: Path) -> None:
    (tmp_path / "b.tar.gz").write_text("mine")
    told = run("backup", "create", str(tmp_path / "b.tar.gz"))

    assert told.code == 1 and "is there already" in told.err
    assert (tmp_path / "b.tar.gz").read_text() == "mine"


def test_stranger_14_without_a_store_there_is_nothing_to_back_up(run: Run, tmp_path: Path) -> None:
    told = run("backup", "create", str(tmp_path / "b.tar.gz"))

    assert told.code == 1 and "there is no store" in told.err
    assert list(tmp_path.glob("*.tar.gz")) == []


@pytest.mark.slow
def test_stranger_new_an_agent_cannot_make_a_backup_endless_nor_get_a_tree_left_out(
    run: Run, used: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Holes cost an agent nothing: its files could be 200,000 of 2 GiB each. Very many names in a folder are no reason
    to leave it out, and neither is one hole in a file."""
    monkeypatch.setattr(archive, "MOST_HOLES", 5 << 20, raising=False)
    place = used.group("acme")
    for name in ("a.bin", "b.bin"):
        (place / name).write_bytes(b"x" * 4096)
        os.truncate(place / name, 4 << 20)
    (used.media / "web").mkdir(parents=True, exist_ok=True)
    for number in range(10_001):
        (used.media / "web" / str(number)).touch()
    deep = os.open(place, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=deep)
        below = os.open("d", os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = below
    os.close(deep)
    told = run("backup", "create", str(tmp_path / "b.tar.gz"), "--json").json

    found = names(tmp_path / "b.tar.gz")
    assert {"groups/acme/a.bin", "media/web/10000"} <= set(found) and "groups/acme/b.bin" not in found
    assert max(each.count("/d") for each in found) < 150
    assert [each.replace("/d", "") for each in told["skipped"]] == ["groups/acme/b.bin", "groups/acme"]


PASSPHRASE = "correct horse battery"


def type_lines(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("".join(f"{each}\n" for each in lines).encode())))


def test_a_whole_home_comes_back_on_an_empty_machine_from_a_backup_and_the_kit_alone(
    run: Run, used: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    type_lines(monkeypatch, PASSPHRASE, PASSPHRASE)
    made = run("backup", "kit", str(tmp_path / "kit"), "--new-identity")
    assert made.code == 0 and "encrypted to age1" in made.out
    kit = (tmp_path / "kit").read_bytes()
    assert stat.S_IMODE((tmp_path / "kit").stat().st_mode) == 0o600 and PASSPHRASE.encode() not in kit
    backup = run("backup", "create", "--json").json["file"]
    assert backup.endswith(".tar.gz.age") and (run("backup", "list", "--json").json)[0]["encrypted"]
    assert "AGE-SECRET-KEY" not in "".join(each.read_text("latin1") for each in used.path.rglob("*") if each.is_file())
    shutil.copy(backup, tmp_path / "b.age")
    shutil.rmtree(used.path)

    refused = run("--home", str(tmp_path / "new"), "backup", "restore", str(tmp_path / "b.age"))
    assert refused.code == 1 and "--kit" in refused.err and not (tmp_path / "new").exists()
    type_lines(monkeypatch, "another passphrase")
    refused = run(
        "--home", str(tmp_path / "new"), "backup", "restore", str(tmp_path / "b.age"), "--kit", str(tmp_path / "kit")
    )
    assert refused.code == 1 and "does not open with this passphrase" in refused.err
    type_lines(monkeypatch, PASSPHRASE)
    done = run(
        "--home", str(tmp_path / "new"), "backup", "restore", str(tmp_path / "b.age"), "--kit", str(tmp_path / "kit")
    )
    assert done.code == 0, done.err
    new = Home(tmp_path / "new")
    assert (new.group("acme") / "AGENTS.md").is_file() and "Berlin" in (new.path / "gatepost.toml").read_text()
    assert stat.S_IMODE((new.path / "keyring.json").stat().st_mode) == 0o600
    (opened,) = read_snapshot(new.store, secrets.open_all, Keyring(new))
    assert (opened[1], opened[3]) == ("WEATHER", b"hunter2hunter2")


def test_the_trial_of_an_encrypted_backup_comes_before_it_and_counts_as_long_as_the_file_is_the_same(
    run: Run, used: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity, recipient = make_identity()
    (tmp_path / "key").write_text(identity)
    assert run("settings", "set", "backup.recipients", recipient).code == 0
    file = Path(run("backup", "create", "--json").json["file"])
    untried = run("backup", "verify", file.name)
    assert untried.code == 1 and "was not tried out before" in untried.err
    keep_proof(file, BackupProof(at=1, digest=measure_digest(file), steps=("an agent answered",)))
    assert "byte for byte" in run("backup", "verify", file.name).out
    file.write_bytes(file.read_bytes() + b"x")
    changed = run("backup", "verify", file.name)
    assert changed.code == 1 and "is not the one that was encrypted" in changed.out
    assert run("backup", "list", "--json").json[0]["proof"]["trouble"] != ""


def test_an_encrypted_backup_whose_name_does_not_say_so_is_said_to_be(run: Run, used: Home, tmp_path: Path) -> None:
    said = "it is encrypted, so no tar opens it, whatever its name: better {}.age"
    plain, sealed, rightly = (tmp_path / name for name in ("plain.tar.gz", "x.tar.gz", "y.tar.gz.age"))
    assert "encrypted" not in run("backup", "create", str(plain)).out
    assert run("settings", "set", "backup.recipients", make_identity()[1]).code == 0
    assert said.format(sealed.name) in run("backup", "create", str(sealed)).out and is_sealed(sealed)
    assert "encrypted" not in run("backup", "create", str(rightly)).out and is_sealed(rightly)


def test_a_kit_that_would_open_no_backup_or_is_easily_guessed_is_not_made(
    run: Run, used: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit, key = tmp_path / "kit", tmp_path / "key"
    for lines, said in (((PASSPHRASE, "another one"), "not the same"), (("short", "short"), "shorter than 12")):
        type_lines(monkeypatch, *lines)
        told = run("backup", "kit", str(kit))
        assert told.code == 1 and said in told.err
    key.write_text(make_identity()[0])
    assert run("settings", "set", "backup.recipients", make_identity()[1]).code == 0
    for words in ((), ("--identity", str(key)), ("--new-identity",)):
        told = run("backup", "kit", str(kit), *words)
        assert told.code == 1 and "identity" in told.err
    assert not kit.exists()


@pytest.mark.slow
def test_the_page_to_print_opens_as_the_kit_does(
    run: Run, used: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "kit.html"
    type_lines(monkeypatch, PASSPHRASE, PASSPHRASE)
    assert run("backup", "kit", str(page), "--print").code == 0
    text = page.read_text()
    assert "--kit FILE" in text and str(used.path) in text and "current" not in text
    found = open_kit(read_sealed(page), PASSPHRASE)
    assert found.keys == Keyring(used).read() and found.folder == str(used.path / "backups")
    (tmp_path / "no").write_text("no kit")
    refused = run("backup", "restore", str(page), "--kit", str(tmp_path / "no"))
    assert refused.code == 1 and "is no emergency kit" in refused.err


def test_a_file_is_a_backup_when_it_is_whole_and_what_a_killed_maker_left_is_removed(
    run: Run, used: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = used.path / "backups"
    folder.mkdir()
    for name in (f"{UNDER_WAY}1-gatepost-20260101T000000Z.tar.gz", f"{UNDER_WAY}2"):
        (folder / name).write_text("half of one") if "Z" in name else (folder / name).mkdir()
        os.utime(folder / name, (1, 1))
    assert run("backup", "list", "--json").json == []
    assert run("backup", "create").code == 0
    (left,) = folder.iterdir()
    assert left.name.endswith(".tar.gz")


def test_one_agent_is_put_back_only_when_that_is_said_and_what_is_there_is_backed_up_first(
    run: Run, used: Home
) -> None:
    note = used.group("acme") / "note.txt"
    note.write_text("then")
    file = Path(run("backup", "create", "--json").json["file"])
    before = file.rename(file.with_name("gatepost-20260101T000000Z.tar.gz"))  # the next may come in the same second
    note.write_text("now")
    asked = run("backup", "restore", before.name, "--group", "acme")
    assert asked.code == 0 and "--yes does it" in asked.out and note.read_text() == "now"
    assert asked.out.startswith("what changes if acme is put back"), asked.out
    done = run("backup", "restore", before.name, "--group", "acme", "--yes")
    assert done.code == 0 and "acme is put back" in done.out and note.read_text() == "then"
    (made,) = [each for each in file.parent.iterdir() if each != before]
    with tarfile.open(made) as tar:
        found = tar.extractfile("groups/acme/note.txt")
        assert found is not None and found.read() == b"now"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name a backup"),
        (("--at", "yesterday"), "is no time"),
        (("--at", "2020-01-01"), "there is no backup"),
        (("x.tar.gz", "--at", "2020-01-01"), "give one of them"),
        (("./b", "--group", "../acme"), "is no agent's folder"),
        (("./b", "--group", "acme", "--replace"), "for a whole home"),
    ],
)
def test_what_cannot_be_meant_is_said(
    run: Run, used: Home, words: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(used.path)
    (used.path / "b").touch()
    told = run("backup", "restore", *words)
    assert told.code == 1 and said in told.err


def test_a_backup_or_a_kit_for_a_folder_that_is_not_there_names_the_folder_and_asks_nothing(
    run: Run, used: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)  # whoever would read a passphrase from it fails
    for words in (("create",), ("kit",)):
        told = run("backup", *words, str(tmp_path / "usb" / "file"))
        assert told.code == 1 and f"there is no folder {tmp_path / 'usb'}; make it, or name another place" in told.err


def test_whoever_removes_the_home_that_was_moved_aside_still_has_the_backups(run: Run, used: Home) -> None:
    made = Path(run("backup", "create", "--json").json["file"])
    done = run("backup", "restore", made.name, "--replace")
    assert done.code == 0 and "remove it once all is well; its backups are in the new one" in done.out, done.out
    shutil.rmtree(used.path.with_name(f"{used.path.name}.before-restore-1"))
    assert [each["name"] for each in run("backup", "list", "--json").json] == [made.name]
