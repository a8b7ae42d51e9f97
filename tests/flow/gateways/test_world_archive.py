"""The files of a world as a stream: what is unpacked is what was packed, and the digest shows every difference."""

import os
from pathlib import Path

import pytest

from gatepost.flow.gateways import world_archive
from gatepost.flow.gateways.world_archive import ArchiveLimits, WorldPacker, WorldUnpacker

LIMITS = ArchiveLimits(bytes=10_000_000, entries=1000)
TOPS = ["groups/acme", "sessions/s-1", "sessions/s-2"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    group, session = tmp_path / "home" / "groups" / "acme", tmp_path / "home" / "sessions" / "s-1"
    for each in (group / "eng" / "closed", session / "state", session / "in", session / "out" / "files"):
        each.mkdir(parents=True)
    (group / "large").write_bytes(os.urandom(3_000_000))
    (group / "empty").touch()
    (group / "run").write_text("#!/bin/sh\n")
    (group / "run").chmod(0o750)
    (group / "away").symlink_to("/etc/passwd")
    (group / os.fsdecode(b"no-\xff-text")).write_text("x")
    (group / "eng" / "AGENTS.md").write_text("hello")
    (group / "eng" / "closed").chmod(0o500)
    (session / "state" / "c.jsonl").write_text("{}")
    (session / "in" / "inbound.db").write_text("mail")
    return tmp_path / "home"


def pack(home: Path, limits: ArchiveLimits = LIMITS, step: int = 1024 * 1024) -> tuple[list[bytes], WorldPacker]:
    packer = WorldPacker(home, TOPS, limits)
    pieces = []
    while True:
        pieces.append(packer.read(step))
        if len(pieces[-1]) < step:
            return pieces, packer


def unpack(folder: Path, pieces: list[bytes]) -> bool:
    for each in ("groups", "sessions"):
        (folder / each).mkdir(parents=True)
    with WorldUnpacker(folder) as unpacker:
        for piece in pieces:
            unpacker.feed(piece)
        return unpacker.ended


@pytest.mark.parametrize("step", [1024 * 1024, 4099])
def test_what_is_unpacked_is_what_was_packed(home: Path, tmp_path: Path, step: int) -> None:
    pieces, packer = pack(home, step=step)
    assert unpack(tmp_path / "new", pieces)
    found = world_archive.measure(tmp_path / "new", TOPS, LIMITS)
    assert found == packer.summary
    group = tmp_path / "new" / "groups" / "acme"
    assert os.readlink(group / "away") == "/etc/passwd"
    assert (group / "run").stat().st_mode & 0o777 == 0o750
    assert (group / "run").stat().st_mtime_ns == (home / "groups" / "acme" / "run").stat().st_mtime_ns
    assert (group / "eng" / "closed").stat().st_mode & 0o777 == 0o500
    assert (group / "large").read_bytes() == (home / "groups" / "acme" / "large").read_bytes()
    assert sorted(each.name for each in (tmp_path / "new" / "sessions" / "s-1").iterdir()) == ["state"]
