"""Backups of a real gateway: made while it works, tried out, put back; and a process that dies at any moment."""

import json
import os
import random
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext
from tests.browsers import needs_chromium

from gatepost.core.clock import DAY
from gatepost.core.files.private_files import UNDER_WAY
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.serve.backups.backup_folder import COMMAND, EVERY_HOURS, BackupProof, keep_proof, list_backups, make_name
from gatepost.serve.backups.backup_runs import BackupLoop
from gatepost.serve.backups.group_restoring import PLACE
from gatepost.serve.backups.sealed_files import make_identity
from gatepost.store.engine.readonly import read_snapshot
from gatepost.store.gateways import incarnations
from gatepost.store.gateways.incarnations import IncarnationReason
from gatepost_testing.clock import FixedClock
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.servers.postgres import PACKAGE, PostgresServer, find_programs

from .dashboard_desk import DashboardDesk, open_desk

KILLS = 8

pytestmark = pytest.mark.slow


@pytest.fixture
def daemon(tmp_path: Path) -> DaemonProcess:
    return DaemonProcess(tmp_path / "home", sessions_provider="demo")


def run(daemon: DaemonProcess, *words: str) -> str:
    done = daemon.gatepost(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_backup_of_a_gateway_at_work_is_proven_and_put_back(daemon: DaemonProcess) -> None:
    with daemon:
        run(daemon, "chat", "-m", "note The ferry goes at six.", "--wait")
        run(daemon, "backup", "create", "--prove")
        (found,) = json.loads(run(daemon, "backup", "list", "--json"))
        assert found["proof"]["trouble"] == "" and found["version"]
        run(daemon, "chat", "-m", "note The ferry is late.", "--wait")
        refused = daemon.gatepost("backup", "restore", found["name"], "--replace")
        assert refused.returncode == 1 and "`gatepost down` first" in refused.stderr
    told = run(daemon, "backup", "restore", found["name"], "--replace", "--json")
    assert Path(json.loads(told)["before"]).is_dir()
    with daemon:
        notes = run(daemon, "chat", "-m", "notes", "--wait")
        assert "The ferry goes at six." in notes and "late" not in notes
    begun = read_snapshot(daemon.home / "gatepost.db", incarnations.get_current)
    assert begun is not None and begun.reason is IncarnationReason.RESTORED


def test_the_trial_of_a_backup_says_what_is_wrong_with_it(daemon: DaemonProcess, tmp_path: Path) -> None:
    with daemon:
        run(daemon, "chat", "-m", "hello", "--wait")
        run(daemon, "backup", "create", str(tmp_path / "b.tar.gz"))
    whole = (tmp_path / "b.tar.gz").read_bytes()
    (tmp_path / "cut.tar.gz").write_bytes(whole[: len(whole) // 2])
    with tarfile.open(tmp_path / "b.tar.gz") as tar:
        tar.extractall(tmp_path / "parts", filter="data")
    store = tmp_path / "parts" / "gatepost.db"
    data = bytearray(store.read_bytes())
    data[8192:60_000] = os.urandom(60_000 - 8192)
    store.write_bytes(data)
    with tarfile.open(tmp_path / "torn.tar.gz", "w:gz") as tar:
        tar.add(store, "gatepost.db")
    for name, said in (("cut", "damaged"), ("torn", "does not start with it")):
        done = daemon.gatepost("backup", "verify", str(tmp_path / f"{name}.tar.gz"))
        assert done.returncode == 1 and said in done.stdout, (name, done.stdout, done.stderr)


def test_the_trial_reaches_no_channel_and_runs_no_task(daemon: DaemonProcess, tmp_path: Path) -> None:
    """What is in the store of the copy would speak to people: it is not there, and the home's own work goes on."""
    with daemon:
        run(daemon, "task", "add", "home", "--room", "terminal:main", "--text", "Good morning.", "--every", "60s")
        run(daemon, "panic", "--reason", "smoke")
        run(daemon, "backup", "create", str(tmp_path / "b.tar.gz"), "--prove")
        assert not (tmp_path / "b.tar.gz.d").exists()
        assert json.loads(run(daemon, "status", "--json"))["store"]["panic"] is not None
    assert not list(Path("/tmp").glob(f"gp-*/{daemon.home.name}"))


@pytest.mark.parametrize("step", ["create", "verify", "restore", "group"])
def test_a_process_that_is_killed_leaves_the_old_or_the_new(daemon: DaemonProcess, tmp_path: Path, step: str) -> None:
    with daemon:
        run(daemon, "chat", "-m", "hello", "--wait")
        for number in range(40):
            (daemon.home / "groups" / "home" / f"{number}.bin").write_bytes(os.urandom(100_000))
        run(daemon, "backup", "create", str(tmp_path / "b.tar.gz"))
    (daemon.home / "groups" / "home" / "later.txt").write_text("after the backup")
    chance, seen = random.Random(7), set[str]()
    backup = str(tmp_path / "b.tar.gz")
    words = {
        "create": ("create",),
        "verify": ("verify", backup),
        "restore": ("restore", backup, "--replace"),
        "group": ("restore", backup, "--group", "home", "--yes"),
    }[step]
    command = [sys.executable, "-m", "gatepost", "--home", str(daemon.home), "backup", *words]
    for _ in range(KILLS):
        process = subprocess.Popen(command, env=daemon.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.2, 1.2))  # the moment of the kill is the test's own matter
        process.send_signal(signal.SIGKILL)
        process.wait()
        home = Home(daemon.home)
        assert home.store.is_file(), "neither the old nor the new home is there"
        is_old = (home.group("home") / "later.txt").exists()
        seen.add("old" if is_old else "new")
        assert is_old or step == "group" or (home.path / "restored").exists()
        assert all(each.version for each in list_backups(home.path / "backups")), "half a backup is listed"
        if step == "group":
            with daemon:  # what had begun is done, and the agent is whole
                assert not (home.path / PLACE).exists() or is_old
                names = {each.name for each in home.group("home").iterdir()}
                assert {f"{number}.bin" for number in range(40)} <= names
    with daemon:
        assert "hello" in run(daemon, "ledger", "list", "--json")
    assert seen <= {"old", "new"}


async def test_backups_are_made_when_they_are_due_and_owners_hear_of_a_failure_once(
    daemon: DaemonProcess, tmp_path: Path
) -> None:
    with daemon:
        run(daemon, "chat", "-m", "hello", "--wait")
    clock, told = FixedClock(), dict[str, str]()

    async def tell(key: str, text: str) -> None:
        told[key] = text

    taken = tmp_path / "taken"
    values = {EVERY_HOURS.name: 24.0, COMMAND.name: ("cp", "{file}", str(taken))}
    home = Home(daemon.home)
    loop = BackupLoop(home, Config().with_values(values, "test"), clock, tell)
    folder = home.path / "backups"
    folder.mkdir(exist_ok=True)
    await loop.check()
    (made,) = list_backups(folder)
    assert told == {}
    assert made.is_proven and taken.stat().st_size == made.size
    await loop.check()
    assert len(list_backups(folder)) == 1  # not due

    (folder / made.name).unlink()
    keep_proof(folder / make_name(clock.now() - DAY), BackupProof(at=1))
    home.store.write_bytes(b"no store at all" * 1000)
    clock.advance(2 * 3600)
    await loop.check()
    (text,) = told.values()
    assert "The backup of today failed" in text
    told.clear()
    await loop.check()
    assert told == {}  # it is tried again after an hour, and not at each look


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path_factory.mktemp("backups") / "home", sessions_provider="demo") as running:
        assert running.gatepost("chat", "-m", "hello", "--wait").returncode == 0
        yield running


@pytest.fixture
async def desk(served: DaemonProcess, window: BrowserContext) -> AsyncIterator[DashboardDesk]:
    async with open_desk(served, window) as desk:
        yield desk


@needs_chromium
@pytest.mark.page("backups", "backup.create: Back up now", "backup.verify: Try it out", "backup.prune: Remove old ones")
async def test_a_backup_is_made_tried_and_cleared_away_on_the_page(desk: DashboardDesk) -> None:
    await desk.open("/backups")
    await desk.press("Back up now", "backup.create")
    (found,) = desk.ask("backup.list")
    await desk.press("Try it out", "backup.verify")
    (again,) = desk.ask("backup.list")
    assert again["proof"]["at"] > found["proof"]["at"] and again["proof"]["trouble"] == ""
    await desk.press("Remove old ones", "backup.prune")
    assert len(desk.ask("backup.list")) == 1  # the newest stays


@pytest.mark.skipif(find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}")
def test_rows_of_a_database_come_back_to_an_empty_one_and_what_was_under_way_is_held(tmp_path: Path) -> None:
    with PostgresServer() as server:
        url = server.add_database("first")
        daemon = DaemonProcess(tmp_path / "home", sessions_provider="demo", store_unsafe="true", store_url=url)
        with daemon:
            run(daemon, "chat", "-m", "note The ferry goes at six.", "--wait")
            run(daemon, "backup", "create", str(tmp_path / "b.tar.gz"))
        refused = daemon.gatepost("backup", "restore", str(tmp_path / "b.tar.gz"), "--replace")
        assert refused.returncode == 1 and "needs an empty one" in refused.stderr
        daemon.env["GATEPOST_STORE_URL"] = server.add_database("second")
        told = run(daemon, "backup", "restore", str(tmp_path / "b.tar.gz"), "--replace")
        assert "its rows are in" in told
        with daemon:
            assert "The ferry goes at six." in run(daemon, "chat", "-m", "notes", "--wait")
            assert json.loads(run(daemon, "ledger", "check", "--json"))["unaccounted"] == 0


def test_an_encrypted_backup_is_proven_before_and_opens_with_its_identity_alone(
    daemon: DaemonProcess, tmp_path: Path
) -> None:
    identity, recipient = make_identity()
    (tmp_path / "key").write_text(identity)
    daemon.env["GATEPOST_BACKUP_RECIPIENTS"] = recipient
    with daemon:
        run(daemon, "chat", "-m", "note The ferry goes at six.", "--wait")
        made = json.loads(run(daemon, "backup", "create", "--prove", "--json"))
        assert made["proof"]["trouble"] == "" and made["file"].endswith(".age")
        assert "byte for byte" in run(daemon, "backup", "verify")
        assert "is proven: it was put back" in run(daemon, "backup", "verify", "--identity", str(tmp_path / "key"))
    run(daemon, "backup", "restore", Path(made["file"]).name, "--replace", "--identity", str(tmp_path / "key"))
    with daemon:
        assert "The ferry goes at six." in run(daemon, "chat", "-m", "notes", "--wait")
    assert not list(daemon.home.glob(f"{UNDER_WAY}*"))


@pytest.mark.skipif(find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}")
def test_one_agent_comes_back_into_a_database_which_goes_on(tmp_path: Path) -> None:
    with PostgresServer() as server:
        url = server.add_database("first")
        daemon = DaemonProcess(tmp_path / "home", sessions_provider="demo", store_unsafe="true", store_url=url)
        with daemon:
            run(daemon, "chat", "-m", "hello", "--wait")
            run(daemon, "memory", "add", "home", "The bins go on Tuesday.")
            run(daemon, "backup", "create", str(tmp_path / "b.tar.gz"))
            run(daemon, "memory", "add", "home", "The bins go on Friday.")
            refused = daemon.gatepost("backup", "restore", str(tmp_path / "b.tar.gz"), "--group", "home", "--yes")
            assert refused.returncode == 1 and "gatepost down" in refused.stderr
        (daemon.home / "groups" / "home" / "later.txt").write_text("later")
        assert "is put back" in run(daemon, "backup", "restore", str(tmp_path / "b.tar.gz"), "--group", "home", "--yes")
        assert not (daemon.home / "groups" / "home" / "later.txt").exists()
        with daemon:
            kept = run(daemon, "memory", "list", "home")
            assert "Tuesday" in kept and "Friday" not in kept
            run(daemon, "chat", "-m", "hello again", "--wait")
            assert json.loads(run(daemon, "ledger", "check", "--json"))["unaccounted"] == 0
