"""What the doctor says about what agents are given."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.home import Home
from gatepost.serve.health.agent_checks import may_read

Run = Callable[..., Any]


def about(run: Run, subject: str) -> list[tuple[str, str, str]]:
    found = run("doctor", "--json").json["findings"]
    return [(each["level"], each["text"], each["remedy"]) for each in found if each["subject"] == subject]


def provider(home: Home, declared: str) -> Path:
    path = home.plugins / "providers" / "parrot.py"
    path.write_text(f'@provider("parrot", {declared})\nclass Parrot: ...\n')
    path.chmod(0o644)
    return path


def test_the_key_ring_is_told_with_its_place_and_mode(run: Run, home: Home) -> None:
    run("group", "add", "acme")
    assert about(run, "key ring") == [("ok", "none yet; the first secret makes it", "")]

    run("secret", "set", "TOKEN", "value-0123")
    ((level, text, _),) = about(run, "key ring")
    assert level == "ok"
    assert text == f"{home.path}/keyring.json, mode 0600, 1 key, 1 secret"

    (home.path / "keyring.json").chmod(0o644)
    ((level, text, _),) = about(run, "key ring")
    assert level == "fail" and "chmod 600" in text

    (home.path / "keyring.json").unlink()
    ((level, text, _),) = about(run, "key ring")
    assert level == "fail" and "1 secret is sealed with it" in text


def test_a_key_ring_from_elsewhere_is_told_as_such(run: Run, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    run("secret", "set", "TOKEN", "value-0123")
    monkeypatch.setenv("GATEPOST_KEYRING", (home.path / "keyring.json").read_text())

    assert about(run, "key ring") == [("ok", "GATEPOST_KEYRING, read-only, 1 key, 1 secret", "")]


def test_the_programs_of_the_providers_in_use_are_told(run: Run, home: Home, tmp_path: Path) -> None:
    run("group", "add", "acme")
    provider(home, 'programs=("unheard-of",)')
    assert about(run, "programs") == []

    run("group", "set", "acme", "provider=parrot")
    ((level, text, remedy),) = about(run, "programs")
    assert level == "warn" and "parrot is in use and needs the program unheard-of" in text
    assert remedy.startswith("gatepost connect parrot")

    (home.path / "programs").mkdir()
    program = tmp_path / "unheard-of"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (home.path / "programs" / "unheard-of").symlink_to(program)
    assert about(run, "programs") == [("ok", f"parrot: unheard-of is {program}", "")]


def test_a_provider_that_asks_for_a_secret_is_told(run: Run, home: Home) -> None:
    run("group", "add", "acme")
    path = provider(home, 'env={"KEY": Need(secret="KEY")}')

    ((level, text, _),) = about(run, "plug-ins")
    assert level == "fail"
    assert str(path) in text and "wants the secret KEY" in text


@pytest.mark.skipif(os.geteuid() != 0, reason="the gateway as root")
def test_a_plug_in_that_sandboxes_cannot_read_is_told(run: Run, home: Home) -> None:
    run("group", "add", "acme")
    path = provider(home, "")
    path.parent.chmod(0o755)
    assert about(run, "plug-ins") == []

    path.chmod(0o600)
    ((level, text, remedy),) = about(run, "plug-ins")
    assert level == "warn"
    assert str(path) in text and "uid 64123" in text
    assert remedy == f"chmod -R go+rX {path.parent}"


def test_who_may_read_is_told_by_the_mode(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.touch(0o600)

    assert may_read(path, path.stat().st_uid)
    assert not may_read(path, path.stat().st_uid + 77)


@pytest.mark.on_disk
def test_a_mount_that_would_be_refused_is_told(run: Run, home: Home, tmp_path: Path) -> None:
    run("group", "add", "acme")
    (tmp_path / "books").mkdir()
    (home.path / "gatepost.toml").write_text(f'[sandbox]\nmounts_allowed = ["{tmp_path}/books"]\n')
    assert run("group", "set", "acme", f"mounts={tmp_path}/books:books").code == 0
    assert about(run, "mounts") == []

    (tmp_path / "books").rmdir()
    ((level, text, _),) = about(run, "mounts")
    assert level == "fail" and "group acme cannot start" in text


def test_stranger_08_the_doctor_says_of_each_limit_how_it_holds(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEPOST_SANDBOX_KIND", "process")
    run("group", "add", "acme")

    told = about(run, "limits")

    assert any(level == "note" and "process, memory: watched" in text for level, text, _ in told)
    assert any(level == "note" and "process, network: not limited" in text for level, text, _ in told)
    assert any(level == "ok" and "process, size of one file: enforced, RLIMIT_FSIZE" in text for level, text, _ in told)


@pytest.mark.on_disk
@pytest.mark.skipif(os.geteuid() != 0, reason="the gateway as root")
def test_stranger_08_the_doctor_names_a_folder_that_a_worlds_uid_may_not_write_to(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.setenv("GATEPOST_SANDBOX_MOUNTS_ALLOWED", f"{tmp_path}:rw")
    run("group", "add", "acme")
    run("group", "set", "acme", f"mounts={folder}:/workspace/extra/project:rw")

    ((level, text, remedy),) = about(run, "mounts")
    assert level == "warn" and str(folder) in text
    uid = int(remedy.split()[1])
    os.chown(folder, uid, uid)
    assert about(run, "mounts") == []


@pytest.mark.parametrize(
    ("written", "level", "said"),
    [
        ("", "note", "nothing makes transcripts"),
        (
            'transcribe = "gpt-4o-mini-transcribe"',
            "ok",
            "gpt-4o-mini-transcribe at the OpenAI endpoint of each group, $",
        ),
        ('transcribe = "unheard-of"', "warn", "has no price for a minute"),
        ('transcribe_base_url = "http://h:1"\ntranscribe_price = "0"', "ok", "whisper-1 at http://h:1/v1, at no cost"),
        ('transcribe_base_url = "http://h:1"\ntranscribe = "w"', "warn", "has no price for a minute"),
        ('transcribe_command = "head -c 4 {file}"', "ok", "inside each sandbox by head"),
        ('transcribe_command = "no-such-program"', "warn", "no-such-program, which is not here"),
    ],
)
def test_the_doctor_says_what_makes_transcripts(run: Run, home: Home, written: str, level: str, said: str) -> None:
    home.path.mkdir(exist_ok=True)
    (home.path / "gatepost.toml").write_text(f"[media]\n{written}\n")
    ((found, text, remedy),) = about(run, "voice")
    assert found == level and said in text and bool(remedy) == (level != "ok")


@pytest.mark.parametrize(
    ("written", "level", "said"),
    [
        ('[tts]\ncommand = "head"', "ok", "in a sandbox of its own by head"),
        ('[tts]\ncommand = "no-such-program"', "warn", "no-such-program, which is not here"),
        ('programs = ["speak=/opt/speak"]\n[tts]\ncommand = "speak"', "ok", "in a sandbox of its own by speak"),
    ],
)
def test_the_doctor_says_which_program_speaks(run: Run, home: Home, written: str, level: str, said: str) -> None:
    home.path.mkdir(exist_ok=True)
    (home.path / "gatepost.toml").write_text(f"{written}\n")
    ((found, text, remedy),) = about(run, "speech")
    assert found == level and said in text and bool(remedy) == (level != "ok")


def test_the_doctor_names_what_agreed_skills_lack(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "bake"
    folder.mkdir()
    front = "description: x\nrequires:\n  bins: [sh, no-such-oven]\n  env: [OVEN_KEY]"
    (folder / "SKILL.md").write_text(f"---\n{front}\n---\n")
    assert run("skill", "add", str(folder), "--yes").code == 0
    found = [each for each in run("doctor", "--json").json["findings"] if each["subject"] == "skills"]
    program, key = found
    assert program["level"] == "warn" and "bake of every agent needs no-such-oven, which is not here" in program["text"]
    assert key["level"] == "note" and "OVEN_KEY" in key["text"] and "gatepost secret bind" in key["remedy"]


def test_what_is_safe_is_mended_and_what_then_is_wrong_is_told(run: Run, home: Home) -> None:
    run("secret", "set", "TOKEN", "value-0123")
    for name in ("keyring.json", "gatepost.db"):
        (home.path / name).chmod(0o644)
    wide = run("doctor")
    assert wide.code == 1 and "chmod go-rw" in wide.out and "doctor --fix` mends" in wide.out

    fixed = run("doctor", "--fix")
    assert fixed.err.count("Close them to others") == 1  # two findings, one cure
    assert "may be read or written by others" not in fixed.out and "--fix" not in fixed.out
    assert [(home.path / name).stat().st_mode & 0o777 for name in ("keyring.json", "gatepost.db")] == [0o600] * 2


def test_a_mend_that_fails_is_said_and_hides_nothing(run: Run, home: Home, tmp_path: Path) -> None:
    (home.path / "backups").symlink_to("/proc")  # a folder in which nobody makes a file
    (home.path / "gatepost.toml").write_text("[backup]\nevery_hours = 24\n")
    fixed = run("doctor", "--fix")
    assert "could not be mended" in fixed.err and "Traceback" not in fixed.err
    assert "backups" in fixed.out
