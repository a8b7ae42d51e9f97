"""The bridge to a real daemon that is killed again and again under calls: each is answered once, and the next works."""

import asyncio
import json
from asyncio.subprocess import PIPE, Process
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gatepost.serve.agents import bridge
from gatepost.serve.agents.bridge.http import HUNG_UP
from gatepost_testing.daemon import DaemonProcess

PATIENCE_S = 60.0
KILLS = 4
AT_ONCE = 12
OPENING = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


class Client:
    """Says what it is told, and keeps what it hears."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout
        self._asked = 0
        self._heard = asyncio.Condition()
        self.answers: dict[int, dict[str, Any]] = {}
        self.count: Counter[int] = Counter()

    async def hear(self) -> None:
        while line := await self._stdout.readline():
            message = json.loads(line)
            if "id" in message and "method" not in message:
                async with self._heard:
                    self.count[message["id"]] += 1
                    self.answers[message["id"]] = message
                    self._heard.notify_all()

    def ask(self, method: str, params: dict[str, Any]) -> int:
        self._asked += 1
        self._say({"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params})
        return self._asked

    def call(self, times: int = 1) -> list[int]:
        return [self.ask("tools/call", {"name": "list_agents", "arguments": {}}) for _ in range(times)]

    async def open(self) -> None:
        await self.answer(self.ask("initialize", OPENING))
        self._say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def answer(self, request: int) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S), self._heard:
            await self._heard.wait_for(lambda: request in self.answers)
        return self.answers[request]

    def _say(self, message: dict[str, Any]) -> None:
        self._stdin.write(json.dumps(message).encode() + b"\n")

    def end(self) -> None:
        self._stdin.close()


@pytest.mark.slow
async def test_over_kills_of_the_daemon_each_call_is_answered_once_and_the_next_works(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path / "home")
    await asyncio.to_thread(daemon.start)
    command = bridge.command(f"unix:{tmp_path / 'home' / 'run' / 'control.sock'}:/mcp/agents")
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, limit=2**24)
    client = Client(process)
    hearing = asyncio.create_task(client.hear())
    asked: list[int] = []
    try:
        await client.open()
        asked += client.call()
        assert "result" in await client.answer(asked[0])
        for kill in range(KILLS):
            asked += client.call(AT_ONCE)
            await asyncio.to_thread(daemon.kill)
            asked += client.call(AT_ONCE)
            await asyncio.to_thread(daemon.start)
            if kill % 2:  # while they open another session
                asked += client.call(AT_ONCE)
                await asyncio.to_thread(daemon.kill)
                asked += client.call(AT_ONCE)
                await asyncio.to_thread(daemon.start)
            fresh = client.call()
            asked += fresh
            assert "result" in await client.answer(fresh[0]), client.answers[fresh[0]]
        for request in asked:
            await client.answer(request)
        client.end()
        assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0
        await asyncio.wait_for(hearing, PATIENCE_S)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await asyncio.to_thread(daemon.stop)
    assert all(client.count[request] == 1 for request in asked)
    reasons = {answer["error"]["message"] for answer in client.answers.values() if "error" in answer}
    assert all(reason == HUNG_UP or reason.startswith("no gateway answers") for reason in reasons), reasons
