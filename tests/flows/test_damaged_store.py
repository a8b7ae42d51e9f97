"""A damaged store, a lost one and a disk that can only be read are told of, and nothing serves as if all were well."""

import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from gatepost.core.clock import SystemClock
from gatepost.core.errors import SetupError, Unavailable
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.flow import store_watch
from gatepost.flow.sessions.host import host_shortage
from gatepost.serve.alerts import alert_loop, alert_messages
from gatepost.store.engine.damage_check import check_tables
from gatepost.store.engine.open_store import prepare_store
from gatepost.store.engine.place import find_place
from gatepost.store.engine.readonly import get_version, read_store
from gatepost.store.engine.sqlite_copy import copy_store
from gatepost.store.money import ledger
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rooms import direct_rooms
from gatepost_testing.channel import FakeChannel
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.waiting import block_until, until

from .conftest import ROOM

BOSS, DIRECT = "fake:user/boss", "fake:direct/boss"


async def make_store(home: Path, channel: FakeChannel) -> Path:
    async with running_gateway(home, {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        await channel.say("hello")
        await channel.wait_for(1)
        await wait_until_settled(gateway)
    return home / "gatepost.db"


def damage(path: Path, table: str) -> None:
    """Overwrite the first page of a table."""
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(5000)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    (page,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchall()[0]
    size = connection.pragma("page_size")
    connection.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)


def add_owner(db: Db, now: int) -> None:
    users.add(db, BOSS, "Boss", now)
    users.add_role(db, BOSS, UserRole.OWNER, "", "test", now)
    direct_rooms.add(db, BOSS, "fake", DIRECT, now)


@pytest.mark.parametrize("table", ["messages", "inbox", "routes", "users", "sessions"])
async def test_a_gateway_does_not_start_on_a_damaged_store_and_says_the_way_back(
    tmp_path: Path, channel: FakeChannel, table: str
) -> None:
    path = await make_store(tmp_path / "h", channel)
    damage(path, table)
    with pytest.raises(SetupError, match=rf"damaged.*{table}.*restore a backup"):
        async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}):
            pass


def test_a_check_that_has_no_time_names_what_is_left_and_a_later_one_finds_the_damage(
    tmp_path: Path, store_path: Path
) -> None:
    connection = apsw.Connection(str(store_path))
    connection.set_busy_timeout(5000)
    connection.execute("CREATE TABLE aaa (value TEXT)")
    connection.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000)"
        " INSERT INTO aaa SELECT hex(randomblob(50)) FROM n"
    )
    connection.close()
    report = check_tables(store_path, within=0.0)
    assert report.damage == "" and "aaa" in report.unchecked and len(report.unchecked) > 5
    assert check_tables(store_path, report.unchecked).unchecked == ()
    damage(store_path, "routes")
    assert "routes" in check_tables(store_path, report.unchecked).damage


async def test_damage_that_is_met_while_it_runs_reaches_readiness_health_and_the_owner(
    tmp_path: Path, channel: FakeChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_watch, "LOOK_S", 0.05)
    monkeypatch.setattr(alert_loop, "LOOK_S", 0.05)

    def read_damaged(db: Db) -> None:
        raise apsw.CorruptError("database disk image is malformed")

    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await gateway.store.write(add_owner, gateway.clock.now())
        assert gateway.find_unready() == ""
        with pytest.raises(Unavailable, match="damaged"):
            await gateway.store.read(read_damaged)
        assert gateway.find_unready() == "the store is not well"
        findings = await gateway.health.list_findings()
        assert next(each.subject for each in findings if each.level == "fail") == "store"
        await channel.wait_for(lambda sent: any("is not well" in text for text in channel.texts(DIRECT)))


async def test_owners_are_told_of_a_store_that_took_nothing_as_soon_as_a_notice_can_be_written(
    tmp_path: Path, channel: FakeChannel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(store_watch, "LOOK_S", 0.01)
    monkeypatch.setattr(alert_loop, "LOOK_S", 0.01)

    def fail(*_: object) -> None:
        raise apsw.FullError("database or disk is full")

    def read_damaged(db: Db) -> None:
        raise apsw.CorruptError("database disk image is malformed")

    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await gateway.store.write(add_owner, gateway.clock.now())
        with monkeypatch.context() as full:
            full.setattr(alert_messages, "send", fail)
            with pytest.raises(Unavailable, match="damaged"):
                await gateway.store.read(read_damaged)
            await until(lambda: "alerts cannot be written down" in caplog.text, "a notice that cannot be written")
        await channel.wait_for(lambda sent: any("not well" in text for text in channel.texts(DIRECT)))
        assert len(channel.texts(DIRECT)) == 1


async def test_trouble_that_comes_and_goes_between_two_looks_is_told_to_owners_once(
    tmp_path: Path, channel: FakeChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_watch, "LOOK_S", 0.1)
    monkeypatch.setattr(alert_loop, "LOOK_S", 0.1)

    def fail(db: Db) -> None:
        raise apsw.FullError("database or disk is full")

    def read_damaged(db: Db) -> None:
        raise apsw.CorruptError("database disk image is malformed")

    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await gateway.store.write(add_owner, gateway.clock.now())
        with pytest.raises(Unavailable, match="the disk is full"):
            await gateway.store.write(fail)
        await gateway.store.write(users.add, BOSS, "Boss", gateway.clock.now())
        assert gateway.store_watch.find_trouble() == ""
        await channel.wait_for(lambda sent: bool(channel.texts(DIRECT)))
        with pytest.raises(Unavailable, match="damaged"):
            await gateway.store.read(read_damaged)
        await channel.wait_for(lambda sent: len(channel.texts(DIRECT)) > 1)
    first, second = channel.texts(DIRECT)
    assert "The disk is full" in first and "damaged" in second


async def test_a_full_disk_that_refused_no_write_and_is_free_again_is_told_to_owners(
    tmp_path: Path, channel: FakeChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_watch, "LOOK_S", 0.05)
    monkeypatch.setattr(alert_loop, "LOOK_S", 0.05)
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await gateway.store.write(add_owner, gateway.clock.now())
        with monkeypatch.context() as full:
            full.setattr(host_shortage, "LEAST_FREE", 1 << 62)
            await gateway.sessions.host_limits.watch_floor()
        await channel.wait_for(lambda sent: any("The disk is full" in text for text in channel.texts(DIRECT)))
        assert gateway.find_unready() == ""


async def test_a_store_whose_file_is_removed_while_it_runs_is_told_of_and_saved(
    tmp_path: Path, channel: FakeChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_watch, "LOOK_S", 0.05)
    home = Home(tmp_path / "h")
    async with running_gateway(home.path, {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        assert gateway.find_unready() == ""
        home.store.unlink()
        await until(lambda: gateway.find_unready() == "the store is not well", "the loss to be noticed")
        assert "gatepost-saved.db" in gateway.store_watch.find_trouble()
        await until((home.path / "gatepost-saved.db").exists, "the store to be saved")
        await channel.say("hello")  # what comes after it is in the store that is saved at the stop
        await channel.wait_for(1)
        await wait_until_settled(gateway)
    for act in (lambda: prepare_store(home, Config(), SystemClock()), lambda: read_store(home, get_version)):
        with pytest.raises(SetupError, match=r"gatepost-saved\.db.*--new-store"):
            act()
    (home.path / "gatepost-saved.db").rename(home.store)
    async with running_gateway(home.path, {"fake": (channel.kind, channel)}) as gateway:
        assert gateway.find_unready() == ""
        assert gateway.life is not None and not gateway.life.said
        status = await gateway.store.read(ledger.check, gateway.clock.now())
        assert status.unaccounted == 0
        await channel.say("again")
        await channel.wait_for(2)


async def test_a_store_that_was_replaced_while_it_ran_is_neither_started_read_nor_backed_up_instead(
    tmp_path: Path, channel: FakeChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other file would be taken for all that there is, and what was said since for never said."""
    monkeypatch.setattr(store_watch, "LOOK_S", 0.05)
    home, older = Home(tmp_path / "h"), tmp_path / "older.db"
    async with running_gateway(home.path, {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        copy_store(find_place(home), older)
        await channel.say("precious words")
        await channel.wait_for(1)
        for name in ("", "-wal", "-shm"):
            Path(f"{home.store}{name}").unlink(missing_ok=True)
        shutil.copy(older, home.store)
        await until((home.path / "gatepost-saved.db").exists, "the store to be saved")
    for act in (
        lambda: prepare_store(home, Config(), SystemClock()),
        lambda: read_store(home, get_version),
        lambda: copy_store(find_place(home), tmp_path / "copy.db"),
    ):
        with pytest.raises(SetupError, match=r"two stores.*rename gatepost-saved\.db.*move gatepost-saved\.db away"):
            act()
    (home.path / "gatepost-saved.db").rename(home.store)
    assert read_store(home, lambda db: db.row("SELECT COUNT(*) FROM messages WHERE text = 'precious words'")) == (1,)


async def test_the_way_back_from_a_damaged_or_lost_store_names_the_log_that_must_go_first(
    tmp_path: Path, channel: FakeChannel
) -> None:
    """A leftover log is written into whatever file is put beside it."""
    home = Home(tmp_path / "h")
    path = await make_store(home.path, channel)
    damage(path, "routes")
    with pytest.raises(SetupError, match=r"damaged.*gatepost\.db-wal and gatepost\.db-shm"):
        async with running_gateway(home.path, {"fake": (channel.kind, channel)}):
            pass
    path.unlink()
    with pytest.raises(SetupError, match=r"missing.*gatepost\.db-wal and gatepost\.db-shm"):
        prepare_store(home, Config(), SystemClock())


@pytest.mark.parametrize("left", ["empty", "missing"])
@pytest.mark.slow
def test_a_home_that_has_lost_its_store_is_refused_until_somebody_asks_for_a_new_one(tmp_path: Path, left: str) -> None:
    daemon = DaemonProcess(tmp_path / "h", sessions_provider="scripted")
    with daemon:
        daemon.gatepost("user", "add", "fake:user/9", "--name", "Nine")
    store = Home(tmp_path / "h").store
    store.unlink()
    for name in ("-wal", "-shm"):
        store.with_name(store.name + name).unlink(missing_ok=True)
    if left == "empty":
        store.touch()
    ended = daemon.gatepost("up")
    assert ended.returncode != 0 and "--new-store" in ended.stderr and "backup" in ended.stderr
    told = daemon.gatepost("user", "add", "fake:user/8")
    assert told.returncode != 0 and "--new-store" in told.stderr
    assert "--new-store" in daemon.gatepost("status").stdout
    for words in (
        ("doctor",),
        ("ledger", "check"),
        ("group", "list"),
        ("backup", "create", str(tmp_path / "b.tar.gz")),
    ):
        told = daemon.gatepost(*words)
        assert told.returncode != 0 and "--new-store" in told.stdout + told.stderr, (words, told)
    assert not store.exists() or store.stat().st_size == 0
    assert daemon.gatepost("up", "--new-store", "--listen", "nonsense:port").returncode != 0  # the store is made first
    with daemon:
        assert daemon.json("status")["store"]["groups"] == 2


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Whoever opens something below a folder by its path finds a disk that can only be read."""
    if subprocess.run(["mount", "--bind", str(folder), str(folder)], capture_output=True).returncode:
        pytest.skip("this user may not mount anything")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.slow
def test_on_a_disk_that_can_only_be_read_status_doctor_and_down_work_and_say_so(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path / "h", sessions_provider="scripted", sandbox_kind="process")
    daemon.start()
    try:
        listen = daemon.json("status")["listen"]
        with read_only(tmp_path / "h"):
            block_until(lambda: "can only be read" in daemon.gatepost("status").stdout, "the status to say it")
            with pytest.raises(urllib.error.HTTPError, match="503"):
                urllib.request.urlopen(f"http://{listen}/readyz", timeout=10)
            told = daemon.gatepost("doctor")
            assert "can only be read" in told.stdout and "should not happen" not in told.stderr, told.stderr
            done = daemon.gatepost("down")
            assert done.returncode == 0 and "is down" in done.stdout, done.stderr
            assert "Traceback" not in daemon.stderr()
            told = daemon.gatepost("status")
            assert "can only be read" in told.stdout and "should not happen" not in told.stderr, told
            refused = daemon.gatepost("up")
            assert refused.returncode != 0 and "Read-only file system" in refused.stderr, refused.stderr
    finally:
        daemon.kill()
