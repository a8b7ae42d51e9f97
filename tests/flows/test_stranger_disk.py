"""What a sandbox can take of the disk: no large file, no hidden ones, no inodes, and never the last of it."""

import asyncio
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.core.errors import Unavailable
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.process.unix_sockets import bind_unix
from gatepost.flow.sessions import session_ending
from gatepost.flow.sessions.awake_session import AwakeSession
from gatepost.flow.sessions.host import disk_usage, host_shortage
from gatepost.flow.sessions.host.disk_usage import SHARE
from gatepost.sandboxes.bubblewrap import find_bwrap
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import inbox
from gatepost.store.money import ledger
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rooms import direct_rooms
from gatepost.store.sessions import groups
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.waiting import until

from .conftest import ROOM, add_group, add_looker, add_route

needs_bwrap = pytest.mark.skipif(find_bwrap() is None, reason="bubblewrap is not installed: apt install bubblewrap")
needs_podman = pytest.mark.skipif(shutil.which("podman") is None, reason="podman is not installed")
kinds = pytest.mark.parametrize(
    "kind",
    [
        "process",
        pytest.param("bubblewrap", marks=needs_bwrap),
        pytest.param("podman", marks=[needs_podman, pytest.mark.slow]),
    ],
)
OTHER = "fake:room/2"
BOSS, DIRECT = "fake:user/boss", "fake:direct/boss"
HOLD = "\ntime.sleep(60)"

LARGE = """run pass
try:
    handle = os.open(place.agent / 'large', os.O_CREAT | os.O_WRONLY)
    os.posix_fallocate(handle, 0, 64 << 20)
    answer = 'it is there'
except OSError as error:
    answer = error.strerror
"""
DELETED = """run pass
kept = []
for number in range(3):
    kept.append(open(place.agent / 'deleted', 'wb', 0))
    os.unlink(place.agent / 'deleted')
    kept[-1].write(bytes(6 << 20))
"""
MANY = """run pass
for number in range(3000):
    open(place.agent / str(number), 'w').close()
"""
FILL = """run pass
kept = []
try:
    while True:
        kept.append(open(place.agent / 'deleted', 'wb', 0))
        os.unlink(place.agent / 'deleted')
        os.posix_fallocate(kept[-1].fileno(), 0, 4 << 20)
except OSError:
    pass
"""
EXHAUST = """run pass
number = 0
try:
    while True:
        open(place.agent / f'n{number}', 'w').close()
        number += 1
except OSError:
    pass
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A home on a file system of its own, which can be filled."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256m,nr_inodes=20000,mode=755", "gatepost-test", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("this user may not mount a tmpfs")
    yield place / "h"
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def settings(kind: str = "bubblewrap", **given: int) -> dict[str, Any]:
    return {"sandbox__kind": kind, "sessions__provider": "looker", "sessions__tries": 1, **given}


async def end_of(gateway: Gateway, channel: FakeChannel, text: str) -> str:
    """Say something that ends badly; everything that the ledger knows about it."""
    receipt = await channel.say(text + HOLD)
    await wait_until_settled(gateway, 40)
    return str(await gateway.store.read(ledger.trace_message, receipt.message_id))


@pytest.mark.slow
@kinds
async def test_stranger_06_no_file_becomes_larger_than_the_limit(
    tmp_path: Path, channel: FakeChannel, kind: str
) -> None:
    add_looker(tmp_path / "h")
    channels = {"fake": (channel.kind, channel)}
    async with running_gateway(tmp_path / "h", channels, **settings(kind, sandbox__disk_mb=8)) as gateway:
        await open_room(gateway, "fake", ROOM)
        await channel.say(LARGE)
        await channel.wait_for(1)
        assert channel.texts() == ["File too large"]


@pytest.mark.slow
@needs_bwrap
@pytest.mark.parametrize(
    ("attack", "reason"),
    [(DELETED, "take more than 8 MB of the disk"), (MANY, "more than 2000 files and folders")],
    ids=["deleted", "many"],
)
async def test_stranger_06_deleted_files_and_empty_ones_count(
    tmp_path: Path, channel: FakeChannel, attack: str, reason: str
) -> None:
    add_looker(tmp_path / "h")
    channels = {"fake": (channel.kind, channel)}
    async with running_gateway(
        tmp_path / "h", channels, **settings(sandbox__disk_mb=8, sandbox__files=2000)
    ) as gateway:
        await open_room(gateway, "fake", ROOM)
        assert reason in await end_of(gateway, channel, attack)


@pytest.mark.slow
@needs_bwrap
async def test_stranger_06_a_childs_folder_is_not_charged_to_its_parent(tmp_path: Path, channel: FakeChannel) -> None:
    add_looker(tmp_path / "h")
    channels = {"fake": (channel.kind, channel)}
    async with running_gateway(tmp_path / "h", channels, **settings(sandbox__disk_mb=8)) as gateway:
        await open_room(gateway, "fake", ROOM)
        for folder in ("acme", "acme/eng"):
            await add_group(gateway, folder)
        await add_route(gateway, f"chat_jid={ROOM}", "acme", seq=1)
        (gateway.home.group("acme/eng") / "large").write_bytes(bytes(20 << 20))
        await channel.say("run answer = 'fine'")
        await channel.wait_for(1)
        await gateway.sessions.host_limits.watch_trees()
        assert [live.ending for live in gateway.sessions.awake] == [None], "the child's files are its own"

        large = "run open(place.agent / 'eng' / 'x', 'wb').write(bytes(1 << 20)); answer = 'written'"
        await channel.say(large)
        await channel.wait_for(2)
        await until(
            lambda: all(live.ending is not None and "8 MB" in live.ending.cause for live in gateway.sessions.awake),
            "a parent that fills them to be ended",
        )


@pytest.mark.slow
@needs_bwrap
async def test_stranger_06_who_fills_the_disk_is_ended_and_his_neighbour_goes_on(
    small_disk: Path, channel: FakeChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_usage, "MOST_OF_ONE", 1)  # it is not seen before it has filled all
    add_looker(small_disk)
    channels = {"fake": (channel.kind, channel)}
    async with running_gateway(small_disk, channels, **settings()) as gateway:
        for room in (ROOM, OTHER):
            await open_room(gateway, "fake", room)
        await add_group(gateway, "other")
        await add_route(gateway, f"chat_jid={OTHER}", "other", seq=1)
        await channel.say("run answer = 'awake'", address=OTHER)
        await channel.wait_for(1)
        (neighbour,) = gateway.sessions.awake

        life = await end_of(gateway, channel, FILL)

        assert "the disk is nearly full" in life and "grew most" in life
        assert neighbour in gateway.sessions.awake and not neighbour.ending
        await channel.say("run answer = 'still'", address=OTHER)
        await channel.wait_for(lambda sent: any(each.message.text == "still" for each in sent))


def is_frozen(live: AwakeSession) -> bool:
    """Its first process, by a signal or by its cgroup."""
    assert live.sandbox is not None
    pid = live.sandbox.inner_pid
    if Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("T"):
        return True
    places = [line.split(":", 2)[2] for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    states = [Path(f"/sys/fs/cgroup/freezer{place}/freezer.state") for place in places]
    switches = [Path(f"/sys/fs/cgroup{place}/cgroup.freeze") for place in places]
    told = [each.read_text().strip() for each in (*states, *switches) if each.is_file()]
    return any(each in ("FROZEN", "FREEZING", "1") for each in told)


@needs_bwrap
async def test_stranger_06_nothing_runs_while_it_is_measured_who_fills_the_disk(
    small_disk: Path, channel: FakeChannel
) -> None:
    add_looker(small_disk)
    async with running_gateway(small_disk, {"fake": (channel.kind, channel)}, **settings()) as gateway:
        await open_room(gateway, "fake", ROOM)
        await channel.say("run answer = 'awake'")
        await channel.wait_for(1)
        (live,) = gateway.sessions.awake
        measured = threading.Event()
        measuring = asyncio.create_task(gateway.sessions.deps.usage.run_measurement(measured.wait, 60))
        space = os.statvfs(small_disk)
        floor = space.f_blocks * space.f_frsize // SHARE
        with (small_disk / "large").open("wb") as large:
            os.posix_fallocate(large.fileno(), 0, space.f_bavail * space.f_frsize - floor * 3 // 4)

        await until(lambda: is_frozen(live), "the sandbox to be frozen")
        measured.set()
        await measuring
        await until(lambda: not is_frozen(live), "the sandbox to go on")
        (small_disk / "large").unlink()
        assert live in gateway.sessions.awake and not live.ending, "it has not filled the disk"


NAMED = """run pass
number = 0
try:
    while True:
        handle = os.open(place.agent / f'n{number}', os.O_CREAT | os.O_WRONLY)
        number += 1
        os.posix_fallocate(handle, 0, 4 << 20)
        os.close(handle)
except OSError:
    pass
"""


@needs_bwrap
@pytest.mark.slow
@pytest.mark.parametrize(
    ("attack", "part"),
    [(NAMED, 1), (EXHAUST, 1), (EXHAUST, disk_usage.MOST_OF_ONE)],
    ids=["named files", "empty files", "empty files, and its share of the disk is watched"],
)
async def test_who_has_filled_a_small_disk_sleeps_and_everybody_else_is_woken(
    small_disk: Path, channel: FakeChannel, monkeypatch: pytest.MonkeyPatch, attack: str, part: int
) -> None:
    """Below its own limits. Its files stay, its message is not run again, and its room and the owner are told."""
    monkeypatch.setattr(disk_usage, "MOST_OF_ONE", part)  # 1: it is not seen before it has filled all
    add_looker(small_disk)
    channels = {"fake": (channel.kind, channel)}

    def add_owner(db: Db) -> None:
        users.add(db, BOSS, "Boss", 1)
        users.add_role(db, BOSS, UserRole.OWNER, "", "test", 1)
        direct_rooms.add(db, BOSS, "fake", DIRECT, 1)

    async with running_gateway(small_disk, channels, **settings() | {"sessions__tries": 5}) as gateway:
        await gateway.store.write(add_owner)
        for room in (ROOM, OTHER):
            await open_room(gateway, "fake", room)
        await add_group(gateway, "other")
        await add_route(gateway, f"chat_jid={OTHER}", "other", seq=1)
        reserve = small_disk / "reserve"
        await until(reserve.is_dir, "the reserve")
        life = await end_of(gateway, channel, attack)
        filled = "the disk is nearly full" in life and "grew most" in life
        assert (filled or (part > 1 and "half of" in life)) and life.count("'given'") == 1

        await channel.say("run answer = 'still'", address=OTHER)
        await channel.wait_for(lambda sent: any(each.message.text == "still" for each in sent))
        assert any("could not answer" in text for text in channel.texts(ROOM))
        assert [text for text in channel.texts(DIRECT) if "The agent home was stopped" in text]
        if not filled:  # it was seen before it had come so far
            return
        await until(lambda: not reserve.exists(), "the reserve to be given up")
        receipt = await channel.say("run answer = 'late'")
        await until(lambda: is_waiting(gateway, receipt.message_id), "the filler to be kept asleep")
        for path in gateway.home.group("home").glob("n*"):
            path.unlink()
        await until(reserve.is_dir, "the reserve to be made again")
        await until(lambda: not gateway.sessions.host_limits.find_why_asleep("home"), "the filler to be let go on")


def is_waiting(gateway: Gateway, message_id: int) -> bool:
    assert isinstance(gateway.store, SqliteStore)
    entries = gateway.store.read_now(inbox.list_for_message, message_id)
    return any(each.state == "retry" and "grew most" in each.reason for each in entries)


@needs_bwrap
@pytest.mark.slow
async def test_stranger_06_on_a_full_disk_that_no_agent_filled_nothing_runs_and_messages_wait_for_space(
    small_disk: Path, channel: FakeChannel
) -> None:
    add_looker(small_disk)
    channels = {"fake": (channel.kind, channel)}
    async with running_gateway(small_disk, channels, **settings()) as gateway:
        await open_room(gateway, "fake", ROOM)
        large = small_disk / "large"

        def fill() -> None:
            space = os.statvfs(small_disk)
            with large.open("ab") as file:
                os.posix_fallocate(file.fileno(), file.tell(), space.f_bavail * space.f_frsize - (1 << 20))

        fill()
        if (small_disk / "reserve").exists():  # it is given up first
            await until(lambda: not (small_disk / "reserve").exists(), "the reserve to be given up")
            fill()
        await until(lambda: bool(gateway.sessions.host_limits.low), "the gateway to see that the disk is full")
        await channel.say("run answer = 'late'")
        await until(lambda: "nearly full" in gateway.sessions.held_back, "the gateway to say why nothing runs")
        assert channel.texts() == []
        large.unlink()
        await channel.wait_for(lambda sent: any(each.message.text == "late" for each in sent))


@pytest.mark.slow
@needs_bwrap
async def test_stranger_06_who_writes_where_nothing_is_counted_ends_before_the_others(
    small_disk: Path, channel: FakeChannel
) -> None:
    add_looker(small_disk)
    channels, outside = {"fake": (channel.kind, channel)}, small_disk.parent / "project"
    outside.mkdir(mode=0o777)
    outside.chmod(0o777)
    given = settings() | {"sandbox__mounts_allowed": (f"{outside}:rw",)}
    async with running_gateway(small_disk, channels, **given) as gateway:
        for room in (ROOM, OTHER):
            await open_room(gateway, "fake", room)
        await add_group(gateway, "other")
        await add_route(gateway, f"chat_jid={OTHER}", "other", seq=1)
        await gateway.store.write(groups.update, "home", {"mounts": [f"{outside}:/workspace/extra/project:rw"]})
        await channel.say("run answer = 'awake'", address=OTHER)
        await channel.wait_for(1)
        (neighbour,) = gateway.sessions.awake
        await channel.say("run answer = 'awake, too'")
        await channel.wait_for(2)
        (writer,) = [live for live in gateway.sessions.awake if live is not neighbour]
        space = os.statvfs(small_disk)
        with (outside / "large").open("wb") as large:
            os.posix_fallocate(large.fileno(), 0, space.f_bavail * space.f_frsize - (1 << 20))

        await until(
            lambda: writer.ending is not None and "nearly full" in writer.ending.cause,
            "the one who writes outside to be ended",
        )
        assert not neighbour.ending
        (outside / "large").unlink()
        assert writer.ending is not None and "grew most" not in writer.ending.cause


@pytest.mark.slow
def test_stranger_06_a_full_disk_is_passing_trouble(small_disk: Path) -> None:
    """No message fails for good because a folder, a file or a socket could not be made just now."""
    sessions = small_disk / "sessions"
    sessions.mkdir(parents=True)
    with open_untrusted(sessions) as root:
        root.write_bytes("file", b"x")
        filled = [small_disk / str(number) for number in range(20_000)]
        with suppress(OSError):
            for path in filled:
                path.touch()
        with pytest.raises(Unavailable):
            root.make_dir("s-1", 0o700)
        with pytest.raises(Unavailable):
            root.write_bytes("file", b"y")
        with pytest.raises(Unavailable):
            bind_unix(small_disk / "x.sock")
        assert root.read_bytes("file", 10) == b"x"


async def test_a_turn_that_breaks_again_and_again_while_the_disk_is_full_is_answered_and_nobody_gets_an_apology(
    tmp_path: Path, channel: FakeChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_shortage, "LEAST_FREE", 1 << 62)  # any disk is full
    monkeypatch.setattr(session_ending, "SPARED_PAUSE", 1000)
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        script = ScriptBuilder().otherwise().crash(2).say("done")
        script.write(gateway.home.group("home")).chmod(0o644)
        await channel.say("hello", address=ROOM)
        await wait_until_settled(gateway)

    assert channel.texts(ROOM) == ["done"]
