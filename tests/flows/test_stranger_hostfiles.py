"""Files of a home and who owns them, with a whole gateway and real sandboxes: modes, a change of owner, folders that
go missing, one host uid a world."""

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatepost.app import Gateway
from gatepost.flow.groups import make_folder
from gatepost.messages.inbound import Attachment
from gatepost.sandboxes.bubblewrap import find_bwrap
from gatepost.store.sessions import sessions
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled

from .conftest import ROOM, add_group, add_looker, add_route

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only a gateway that is root has sandboxes of another uid"),
    pytest.mark.skipif(find_bwrap() is None, reason="bubblewrap is not installed: apt install bubblewrap"),
]
OTHER = "fake:room/2"
MEANT_FOR_OTHERS = ("plugins/providers",)  # loaded inside, by every sandbox's uid


def open_to_others(top: Path) -> Iterator[str]:
    """Yield what a user who owns nothing here can list or read, by the modes on the way to it."""
    waiting = [top]
    while waiting:
        path = waiting.pop()
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode) or stat.S_ISSOCK(found.st_mode):
            continue
        if found.st_mode & stat.S_IROTH:
            yield str(path.relative_to(top))
        if stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_IXOTH:
            waiting += path.iterdir()


def owners(top: Path) -> set[int]:
    return {path.lstat().st_uid for path in (top, *top.rglob("*"))}


async def ask(gateway: Gateway, channel: FakeChannel, text: str, room: str = ROOM) -> str:
    before = len(channel.texts(room))
    await channel.say(text, address=room, platform_id=f"in-{text}-{len(channel.texts())}-{id(channel)}")
    await channel.wait_for(lambda sent: sum(each.address == room for each in sent) > before)
    await wait_until_settled(gateway)
    return channel.texts(room)[-1]


async def test_stranger_14_nobody_else_on_the_machine_reads_a_file_of_the_home(
    tmp_path: Path, channel: FakeChannel
) -> None:
    home = tmp_path / "h"
    channels = {"fake": (channel.kind, channel)}
    async with running_gateway(home, channels, sandbox__kind="bubblewrap") as gateway:
        await open_room(gateway, "fake", ROOM)
        make_folder(gateway.home, "acme/eng", name="eng")
        await channel.say("hello", attachments=(Attachment(name="secret.txt", data=b"for the agent alone"),))
        await channel.wait_for(1)

        found = [path for path in open_to_others(home) if not path.startswith(MEANT_FOR_OTHERS)]
        assert found == []
        assert stat.S_IMODE(gateway.home.group("home").stat().st_mode) == 0o700
        assert stat.S_IMODE(gateway.home.group("acme").stat().st_mode) == 0o700


@pytest.mark.slow
def test_stranger_14_what_a_command_makes_is_closed_to_others_whatever_the_umask(tmp_path: Path) -> None:
    home = tmp_path / "h"
    command = [sys.executable, "-m", "gatepost", "--home", str(home), "group", "add", "acme"]
    subprocess.run(command, check=True, capture_output=True, umask=0)

    assert [path for path in open_to_others(home) if not path.startswith(MEANT_FOR_OTHERS)] == []


@pytest.mark.slow
def test_stranger_14_what_is_made_without_a_mode_is_closed_to_others_whatever_the_umask(tmp_path: Path) -> None:
    """Our own files are made with theirs; a plug-in, or a library, makes one without."""
    home = tmp_path / "h"
    command = [sys.executable, "-m", "gatepost", "--home", str(home)]
    subprocess.run([*command, "group", "add", "acme"], check=True, capture_output=True, umask=0)
    careless = home / "plugins" / "sandboxes" / "careless.py"
    careless.write_text(f"open({str(home / 'made')!r}, 'w').close()\n")
    subprocess.run([*command, "status"], check=False, capture_output=True, umask=0)

    assert stat.S_IMODE((home / "made").stat().st_mode) == 0o600


@pytest.mark.slow
async def test_stranger_22_a_conversation_goes_on_after_the_home_was_copied_by_root(
    tmp_path: Path, channel: FakeChannel
) -> None:
    later = FakeChannel()
    async with running_gateway(
        tmp_path / "h", {"fake": (channel.kind, channel)}, sandbox__kind="bubblewrap"
    ) as gateway:
        await open_room(gateway, "fake", ROOM)
        assert await ask(gateway, channel, "first") == "echo: first"
    shutil.copytree(tmp_path / "h", tmp_path / "copy", symlinks=True, ignore=shutil.ignore_patterns("run"))
    assert owners(tmp_path / "copy" / "sessions") == {0}

    async with running_gateway(tmp_path / "copy", {"fake": (later.kind, later)}, sandbox__kind="bubblewrap") as gateway:
        assert await ask(gateway, later, "second") == "echo: second"
        (session,) = await gateway.store.read(sessions.list_open, "home")
        for name in ("out", "state"):
            assert 0 not in owners(gateway.home.session(session.id) / name)
        assert 0 not in owners(gateway.home.group("home"))


@pytest.mark.slow
async def test_stranger_22_a_group_that_ran_without_walls_goes_on_behind_them(
    tmp_path: Path, channel: FakeChannel
) -> None:
    home, write = tmp_path / "h", "run open(place.agent / 'note', 'a').write('x'); answer = 'written'"
    add_looker(home)
    later = FakeChannel()
    async with running_gateway(home, {"fake": (channel.kind, channel)}, sessions__provider="looker") as gateway:
        await open_room(gateway, "fake", ROOM)
        assert await ask(gateway, channel, write) == "written"

    async with running_gateway(
        home, {"fake": (later.kind, later)}, sandbox__kind="bubblewrap", sessions__provider="looker"
    ) as gateway:
        assert await ask(gateway, later, write) == "written"
        assert (gateway.home.group("home") / "note").read_text() == "xx"


@pytest.mark.slow
@pytest.mark.parametrize("awake", [False, True])
async def test_stranger_22_the_next_message_is_answered_when_folders_were_deleted_meanwhile(
    tmp_path: Path, channel: FakeChannel, awake: bool
) -> None:
    async with running_gateway(
        tmp_path / "h", {"fake": (channel.kind, channel)}, sandbox__kind="bubblewrap"
    ) as gateway:
        await open_room(gateway, "fake", ROOM)
        if awake:
            assert await ask(gateway, channel, "first") == "echo: first"
            assert gateway.sessions.awake
        for gone in ("sessions", "run/s", "logs"):
            shutil.rmtree(gateway.home.path / gone)
        assert await ask(gateway, channel, "second") == "echo: second"


@pytest.mark.slow
async def test_stranger_08_two_worlds_have_a_host_uid_each_and_a_child_has_its_parents(
    tmp_path: Path, channel: FakeChannel
) -> None:
    home, who = tmp_path / "h", "run answer = open('/proc/self/uid_map').read().split()[1]"
    add_looker(home)
    async with running_gateway(
        home, {"fake": (channel.kind, channel)}, sandbox__kind="bubblewrap", sessions__provider="looker"
    ) as gateway:
        await open_room(gateway, "fake", ROOM)
        await open_room(gateway, "fake", OTHER)
        for folder in ("acme", "acme/eng"):
            await add_group(gateway, folder)
        await add_route(gateway, f"chat_jid={OTHER}", "acme/eng", seq=1)
        for room in (ROOM, OTHER):
            assert await ask(gateway, channel, who, room)
        awake = {live.session.folder: live.sandbox for live in gateway.sessions.awake if live.sandbox}
        uids = {folder: os.stat(f"/proc/{sandbox.inner_pid}").st_uid for folder, sandbox in awake.items()}

        assert len(set(uids.values())) == 2 and min(uids.values()) >= 70000
        assert owners(gateway.home.group("acme")) == {uids["acme/eng"]}
        assert owners(gateway.home.group("home")) == {uids["home"]}


INOTIFY = """run import ctypes  # numbers are kept, so they stay open
libc, kept = ctypes.CDLL(None), []
while (handle := libc.inotify_init()) >= 0 and len(kept) < {most}:
    kept.append(handle)
answer = len(kept)
"""


IN_FLIGHT = """run import socket
kept, sys.held = 0, []
try:
    while kept < {most}:
        sys.held += socket.socketpair()
        sys.held[-1].setblocking(False)
        for _ in range(20):
            some = [0] * min(200, {most} - kept)
            kept += len(some) if socket.send_fds(sys.held[-1], [b'x'], some) else 0
except OSError:
    pass
answer = kept
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("exhaust", "most"),
    [(INOTIFY, 900), (IN_FLIGHT, 100_000)],  # below what a process may have open, far above what may be in flight
    ids=["inotify instances", "descriptors in flight"],
)
async def test_stranger_08_what_one_world_has_of_a_users_is_not_anothers(
    tmp_path: Path, channel: FakeChannel, exhaust: str, most: int
) -> None:
    home = tmp_path / "h"
    add_looker(home)
    async with running_gateway(
        home, {"fake": (channel.kind, channel)}, sandbox__kind="bubblewrap", sessions__provider="looker"
    ) as gateway:
        await open_room(gateway, "fake", ROOM)
        await open_room(gateway, "fake", OTHER)
        await add_group(gateway, "acme")
        await add_route(gateway, f"chat_jid={OTHER}", "acme", seq=1)
        taken = int(await ask(gateway, channel, exhaust.format(most=most), ROOM))

        assert taken > 0 and await ask(gateway, channel, exhaust.format(most=1), OTHER) == "1"
