"""`/stop` against an agent that will not: it spins, ignores every signal it can, has children that do the same, calls
tools without reading the answers, and waits for a model. All of it is dead, and people are told, at once."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.core.keyring import Keyring
from gatepost.flow.sessions.awake_session import AwakeSession
from gatepost.sandboxes.bubblewrap import find_bwrap
from gatepost.store.messages import inbox
from gatepost.store.money import reservations
from gatepost.store.people import users
from gatepost.store.rights import secrets
from gatepost.store.rights.secret_rows import SecretOwner
from gatepost.store.sessions import turns
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.models import ModelEndpoint

ROOM, OWNER = "fake:room/1", "fake:user/1"
PATIENCE = 60.0
TIMES = 10
HANG: dict[str, Any] = {"turns": [{"when": "hang", "do": [{"fault": "hang", "times": -1}]}]}

# Runs inside. The runner itself spins in the end, so it hears nothing any more, on no socket.
STUBBORN = r"""
import json, os, signal, socket, time
from gatepost.inside.providers.contract import TurnResult, ConversationStarted, Text, provider

ASK = {"model": "claude-sonnet-4-5", "max_tokens": 100, "messages": [{"role": "user", "content": "hang"}]}


def ignore_signals():
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass  # the two that nobody can ignore


def spin():
    while True:
        pass


def connect(path):
    line = socket.socket(socket.AF_UNIX)
    line.connect(str(path))
    return line


def call_without_reading(router):
    line = connect(router)
    call = {"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": {"name": "get_work", "arguments": {}}}
    for number in range(1 << 30):
        line.sendall(json.dumps({**call, "id": number}).encode() + b"\n")


def ask_a_model(egress):
    body = json.dumps(ASK).encode()
    line = connect(egress)
    line.sendall(b"POST /anthropic/v1/messages HTTP/1.1\r\nhost: x\r\nanthropic-version: 2023-06-01\r\n"
                 b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    line.recv(1)


def leave_and_spin():
    os.setsid()
    if os.fork() == 0:
        spin()
    time.sleep(1000)


@provider("stubborn")
class Stubborn:
    takes_pushes = False

    def __init__(self, place):
        self.place = place

    async def query(self, batch, resume):
        yield ConversationStarted(resume or "c-1")
        if "be quick" in batch.prompt:
            yield Text("here again")
            yield TurnResult()
            return
        ignore_signals()
        router = self.place.router
        work = (spin, leave_and_spin, lambda: call_without_reading(router),
                lambda: ask_a_model(router.parent / "egress.sock"))
        for act in work:
            if os.fork() == 0:
                try:
                    act()
                finally:
                    os._exit(1)
        (self.place.agent / "started").write_text("")
        spin()

    async def push(self, batch):
        raise NotImplementedError

    async def interrupt(self):
        pass

    async def close(self):
        pass
"""

pytestmark = pytest.mark.skipif(find_bwrap() is None, reason="bubblewrap is not installed")


@asynccontextmanager
async def a_stubborn_gateway(path: Path, channel: FakeChannel, endpoint: ModelEndpoint) -> AsyncIterator[Gateway]:
    path.parent.chmod(0o711)
    plugins = path / "plugins" / "providers"
    plugins.mkdir(parents=True)
    (plugins / "stubborn.py").write_text(STUBBORN)
    given: dict[str, Any] = {
        "sandbox__kind": "bubblewrap",
        "sessions__provider": "stubborn",
        "anthropic__base_url": endpoint.anthropic,
    }
    async with running_gateway(path, {"fake": (channel.kind, channel)}, **given) as gateway:
        keyring, now = Keyring(gateway.home), gateway.clock.now()
        await gateway.store.write(secrets.put, keyring, SecretOwner(), secrets.ANTHROPIC_API_KEY, "sk-for-tests", now)
        await gateway.store.write(users.add, OWNER, "owner", now)
        await gateway.store.write(users.add_role, OWNER, "owner", "", "test", now)
        await open_room(gateway, "fake", ROOM)
        yield gateway


def inhabitants(live: AwakeSession) -> set[int]:
    """Every process in its sandbox, seen from the host."""
    assert live.sandbox is not None
    everybody = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    return {pid for pid in everybody if live.sandbox.owns(pid)}


async def at_work(
    gateway: Gateway, channel: FakeChannel, endpoint: ModelEndpoint
) -> tuple[AwakeSession, set[int], int]:
    """Until all of it runs: the spinning ones, the one that does not read, and a model that is waited for."""
    asked = len(endpoint.calls)
    receipt = await channel.say("go")
    await endpoint.wait_for(asked + 1, timeout=PATIENCE)
    started = gateway.home.group("home") / "started"
    async with asyncio.timeout(PATIENCE):
        while not started.exists():  # noqa: ASYNC110  nobody rings for it
            await asyncio.sleep(0.01)
    started.unlink()
    (live,) = gateway.sessions.awake
    found = inhabitants(live)
    assert len(found) >= 6  # bwrap's own first process, the runner, four children and a grandchild
    return live, found, receipt.message_id


def alive(pids: set[int], namespace: int | None) -> set[int]:
    """Of these, by their pid namespace: a number may be given to somebody else."""
    left = set()
    for pid in pids:
        try:
            if Path(f"/proc/{pid}/ns/pid").stat().st_ino == namespace:
                left.add(pid)
        except OSError:
            continue
    return left


@pytest.mark.slow
async def test_an_agent_that_ignores_every_signal_is_dead_and_people_are_told(
    tmp_path: Path, figures: Callable[[str], None]
) -> None:
    channel = FakeChannel()
    took: list[float] = []
    async with ModelEndpoint(HANG) as endpoint, a_stubborn_gateway(tmp_path / "h", channel, endpoint) as gateway:
        for number in range(1, TIMES + 1):
            live, pids, message = await at_work(gateway, channel, endpoint)
            namespace = live.sandbox.pid_namespace if live.sandbox else None
            began = time.perf_counter()
            await channel.say("/stop")
            await channel.wait_for(number, timeout=PATIENCE)
            took.append(time.perf_counter() - began)

            assert alive(pids, namespace) == set()
            assert channel.texts() == ["Stopped."] * number
            account = await wait_until_settled(gateway)
            (entry,) = await gateway.store.read(inbox.list_for_message, message)
            turn = await gateway.store.read(turns.get, entry.turn_id or "")
            assert (entry.state, entry.reason) == ("cancelled", f"stopped by {OWNER}")
            assert turn is not None and turn.ended_at is not None and account.unaccounted == 0
            async with asyncio.timeout(PATIENCE):
                while gateway.sessions.awake or await gateway.store.read(reservations.sum_reserved):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        await channel.say("be quick")
        await channel.wait_for(TIMES + 1, timeout=PATIENCE)
        assert channel.texts()[-1] == "here again"
    figures(
        f"/stop to dead and told, an agent that ignores signals: median {median(took) * 1000:.0f} ms of {TIMES}"
        f" (worst {max(took) * 1000:.0f} ms)"
    )
