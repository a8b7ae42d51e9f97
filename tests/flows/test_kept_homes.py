"""Homes that earlier versions left when they were killed at work: they come up, converse, and lose nothing.

`scripts/make_kept_home.py` made them with those versions.
"""

import json
import shutil
from pathlib import Path

import pytest

from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.servers.postgres import PACKAGE, PostgresServer, find_programs

pytestmark = pytest.mark.slow

HOMES = sorted((Path(__file__).parents[1] / "stores").glob("*.tar.gz"))


def unpack(kept: Path, tmp_path: Path, **settings: str) -> DaemonProcess:
    shutil.unpack_archive(kept, tmp_path / "home", filter="data")
    return DaemonProcess(tmp_path / "home", sessions_provider="demo", **settings)


def run(daemon: DaemonProcess, *words: str) -> str:
    done = daemon.gatepost(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def converse(daemon: DaemonProcess) -> None:
    notes = run(daemon, "chat", "-m", "notes", "--wait")
    assert "The ferry goes at six." in notes
    is_held = bool(json.loads(run(daemon, "permit", "ls", "--json")))  # a version that knows copies asks first
    assert is_held or "The bins go on Tuesday." in notes
    found = json.loads(run(daemon, "ledger", "check", "--json"))
    assert found["unaccounted"] == 0
    assert "The bins go on Tuesday." in run(daemon, "ledger", "list", "--json")
    assert json.loads(run(daemon, "audit", "verify", "--json"))


@pytest.mark.parametrize("kept", HOMES, ids=lambda path: path.name.partition(".")[0])
def test_a_home_of_an_earlier_version_comes_up_and_converses(kept: Path, tmp_path: Path) -> None:
    with unpack(kept, tmp_path) as daemon:
        converse(daemon)
        assert "acme" in run(daemon, "group", "list", "--json")


@pytest.mark.skipif(find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}")
@pytest.mark.parametrize("kept", HOMES, ids=lambda path: path.name.partition(".")[0])
def test_the_same_on_a_database(kept: Path, tmp_path: Path) -> None:
    daemon = unpack(kept, tmp_path)
    with daemon:
        converse(daemon)
    with PostgresServer() as server:
        daemon.env |= {"GATEPOST_STORE_URL": server.add_database("kept"), "GATEPOST_STORE_UNSAFE": "true"}
        assert "the same on both sides" in run(daemon, "store", "copy", "sqlite", "postgres")
        with daemon:
            converse(daemon)


def test_homes_of_both_releases_are_kept_and_small() -> None:
    names = {each.name for each in HOMES}
    assert {"home_0_1.tar.gz", "home_0_2.tar.gz"} <= names and len(names) > 2
    assert all(each.stat().st_size < 200_000 for each in HOMES)
