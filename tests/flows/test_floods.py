"""A sandbox that floods its sockets is ended, and whoever asked is told why."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.token_bucket import Rate
from gatepost.flow.sessions import awake_session
from gatepost.flow.sessions.runner.runner_socket import FLOOD as RUNNER_FLOOD
from gatepost.flow.sessions.runner.runner_socket import RunnerSocket
from gatepost.gate.tool_socket import FLOOD as TOOL_FLOOD
from gatepost.gate.tool_socket import ToolSocket
from gatepost.store.money import ledger
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.waiting import PATIENCE_S

from .conftest import ROOM, add_looker

RATE = Rate(per_second=1000, burst=500, patience_s=0.1)  # of the same kind as the real one, and sooner over

RUNNER = """run import socket
for name in os.listdir('/proc/self/fd'):
    try:
        line = socket.socket(fileno=os.dup(int(name)))
        if line.getpeername().endswith('runner.sock'):
            break
    except OSError:
        continue
line.setblocking(True)
while True:
    line.sendall(b'{"type":"ping"}\\n' * 1000)
"""
TOOLS = """run import socket, threading
line = socket.socket(socket.AF_UNIX)
line.connect(str(place.router))
threading.Thread(target=lambda: [line.recv(65536) for _ in iter(int, 1)], daemon=True).start()
while True:
    line.sendall(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\\n' * 1000)
"""


@pytest.mark.parametrize(("flood", "reason"), [(RUNNER, RUNNER_FLOOD), (TOOLS, TOOL_FLOOD)], ids=["runner", "tools"])
async def test_stranger_04_a_session_that_does_not_stop_flooding_is_ended_with_the_reason(
    tmp_path: Path, channel: FakeChannel, monkeypatch: pytest.MonkeyPatch, flood: str, reason: str
) -> None:
    monkeypatch.setattr(awake_session, "RunnerSocket", partial(RunnerSocket, rate=RATE))
    monkeypatch.setattr(awake_session, "ToolSocket", partial(ToolSocket, rate=RATE))
    add_looker(tmp_path / "h")
    given: dict[str, Any] = {"sessions__provider": "looker", "sessions__tries": 1}
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, **given) as gateway:
        await open_room(gateway, "fake", ROOM)
        receipt = await channel.say(flood)
        async with asyncio.timeout(PATIENCE_S):
            await wait_until_settled(gateway, 30)
        assert reason in str(await gateway.store.read(ledger.trace_message, receipt.message_id))
