"""What a runner is told first: Welcome, whatever else there is to say."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import apsw

from gatepost.core.records import replace
from gatepost.core.registry import Registry
from gatepost.core.settings import Config
from gatepost.flow.sessions.sandbox.extra_mounts import WORKSPACE
from gatepost.flow.sessions.sandbox.sandbox_plan import RUN
from gatepost.mailbox import runner_frames
from gatepost.sandboxes.contract import SandboxKind, SandboxPlan
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, running_gateway
from gatepost_testing.waiting import PATIENCE_S


class Room:
    """A sandbox with nobody in it: the test itself is the runner."""

    isolated = True
    pid = inner_pid = os.getpid()
    pid_namespace = None

    def __init__(self) -> None:
        self.plan: SandboxPlan | None = None
        self.started, self._ended = asyncio.Event(), asyncio.Event()

    def trouble(self) -> str | None:
        return None

    async def start(self, plan: SandboxPlan) -> "Room":
        self.plan = plan
        self.started.set()
        return self

    def sweep(self, prefix: str) -> int:
        return 0

    async def wait(self) -> int:
        await self._ended.wait()
        return -signal.SIGKILL

    def kill(self) -> None:
        self._ended.set()

    def end_start(self) -> None: ...

    def owns(self, pid: int) -> bool:
        return pid == self.pid

    def place(self, target: str) -> Path:
        assert self.plan is not None
        return next(mount.source for mount in self.plan.mounts if mount.target == target)


def waiting(inbox: Path) -> int:
    db = apsw.Connection(str(inbox), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        db.set_busy_timeout(5000)  # a thread of the host is at its projection
        return int(db.execute("SELECT COUNT(*) FROM messages_in").fetchall()[0][0])
    finally:
        db.close()


async def test_a_runner_that_says_hello_again_and_again_is_welcomed_once(tmp_path: Path) -> None:
    """A welcome is long: who reads none of many must not fill the gateway with them."""
    channel, room = FakeChannel(), Room()
    registry: Registry[Callable[[Config], SandboxKind]] = Registry("sandbox")
    registry.add("process", lambda _: room, "test")
    hello = runner_frames.encode_frame(runner_frames.HelloFrame(protocol=runner_frames.PROTOCOL, pid=os.getpid()))
    claim = runner_frames.encode_frame(runner_frames.ClaimFrame(id=7, rows=[], ready=True))
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        gateway.sessions.deps = replace(gateway.sessions.deps, sandboxes=registry)
        await open_room(gateway, "fake", "fake:room/1")
        await channel.say("first")
        await room.started.wait()
        reader, writer = await asyncio.open_unix_connection(str(room.place(RUN) / "runner.sock"))
        writer.write(hello * 100 + claim)
        heard: list[runner_frames.FromHost] = []
        async with asyncio.timeout(PATIENCE_S):
            while not heard or not isinstance(heard[-1], runner_frames.ClaimReplyFrame):
                heard.append(runner_frames.read_from_host(await reader.readline()))
        writer.close()

    assert [type(each) for each in heard].count(runner_frames.WelcomeFrame) == 1


async def test_stranger_22_the_host_never_rings_before_its_welcome(tmp_path: Path) -> None:
    channel, room = FakeChannel(), Room()
    registry: Registry[Callable[[Config], SandboxKind]] = Registry("sandbox")
    registry.add("process", lambda _: room, "test")
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        gateway.sessions.deps = replace(gateway.sessions.deps, sandboxes=registry)
        await open_room(gateway, "fake", "fake:room/1")
        await channel.say("first")
        await room.started.wait()
        reader, writer = await asyncio.open_unix_connection(str(room.place(RUN) / "runner.sock"))
        inbox = room.place(f"{WORKSPACE}/in") / "inbound.db"
        async with asyncio.timeout(PATIENCE_S):
            for number in range(2, 5):  # each rings, and is projected before the bell would be sent
                await channel.say(f"number {number}")
                while waiting(inbox) < number:  # noqa: ASYNC110  nobody rings for it
                    await asyncio.sleep(0.005)
        writer.write(
            runner_frames.encode_frame(runner_frames.HelloFrame(protocol=runner_frames.PROTOCOL, pid=os.getpid()))
        )
        first, second = [runner_frames.read_from_host(await reader.readline()) for _ in range(2)]
        writer.close()

    assert isinstance(first, runner_frames.WelcomeFrame)
    assert isinstance(second, runner_frames.BellFrame)
