"""Real MCP clients through the real bridge, inside a real sandbox of a running gateway: the official Python client and
Claude Code. What a rule takes away while they are connected is gone, and they are told."""

import asyncio
import importlib.util
import json
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.sandboxes.bubblewrap import find_bwrap
from gatepost.store.engine.readonly import read_snapshot
from gatepost.store.money import costs
from gatepost.store.rights import audit, secrets
from gatepost.store.rights.secret_rows import SecretOwner
from gatepost.store.sessions import groups
from gatepost_testing.channel import FakeChannel
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.models import ModelEndpoint
from gatepost_testing.waiting import until

from .conftest import ROOM

PATIENCE = 60.0
SITE = sysconfig.get_paths()["purelib"]

pytestmark = pytest.mark.skipif(find_bwrap() is None, reason="bubblewrap is not installed")

# In the place of a model: runs the client beside itself, and says what it said.
PROVIDER = r"""
import asyncio, os, sys
from gatepost.inside import bridge
from gatepost.inside.providers.contract import TurnResult, ConversationStarted, Text, provider


@provider("client")
class Client:
    takes_pushes = False

    def __init__(self, place):
        self.place = place

    async def query(self, batch, resume):
        yield ConversationStarted(resume or "c-1")
        env = {**os.environ, **bridge.get_python_variables()}
        env |= {"PYTHONPATH": "/workspace/extra/site", "PYTHONDONTWRITEBYTECODE": "1"}
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(self.place.agent / "client.py"), batch.items[-1].text,
            *bridge.command(str(self.place.router)), env=env,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT)
        said, _ = await process.communicate()
        yield Text(said.decode(), batch.items[-1].seq)
        yield TurnResult()

    async def push(self, batch):
        raise NotImplementedError("one turn at a time")

    async def interrupt(self):
        pass

    async def close(self):
        pass
"""

# Inside, by the official library alone.
CLIENT = r"""
import asyncio, json, os, pathlib, sys
from mcp import Client, StdioServerParameters

mode, program, *arguments = sys.argv[1:]
library = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
server = StdioServerParameters(command=program, args=arguments, env=library)


async def names(client):
    return sorted(tool.name for tool in (await client.list_tools()).tools)


async def main():
    told = asyncio.Event()

    async def hear(message):
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            told.set()

    async with Client(server, mode=mode, message_handler=hear) as client:
        found = {"before": await names(client)}
        called = await client.call_tool("set_work", {"content": "of " + mode})
        found["called"] = not called.is_error
        here = pathlib.Path("/workspace/agent/listed")
        if mode == "legacy":
            here.write_text("listed")
            await asyncio.wait_for(told.wait(), 50)
        else:
            async with client.listen(tools_list_changed=True) as subscription:
                here.write_text("listed")
                async for event in subscription:
                    break
        found["after"] = await names(client)
        try:
            sent = await client.call_tool("send", {"text": "no"})
            found["send"] = "failed" if sent.is_error else "sent"
        except Exception as error:
            found["send"] = str(error)
    print(json.dumps(found))


asyncio.run(main())
"""


@contextmanager
def a_daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    tmp_path.chmod(0o711)
    daemon = DaemonProcess(
        tmp_path / "h",
        sandbox_kind="bubblewrap",
        sessions_provider="client",
        sandbox_mounts_allowed=SITE,
        sandbox_least_free_mb="0",
    )
    plugin = daemon.home / "plugins" / "providers" / "client.py"
    plugin.parent.mkdir(parents=True)
    plugin.write_text(PROVIDER)
    with daemon:
        yield daemon


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_the_official_client_lists_calls_and_is_told_when_a_grant_is_withdrawn(tmp_path: Path, mode: str) -> None:
    with a_daemon(tmp_path) as daemon:
        group = Home(daemon.home).group("home")
        (group / "client.py").write_text(CLIENT)
        mounted = daemon.gatepost(
            "group", "set", "home", f"mounts={SITE}:/workspace/extra/site", "options.tool_groups=all"
        )
        assert mounted.returncode == 0, mounted.stderr
        chat = [sys.executable, "-m", "gatepost", "chat", "-m", mode, "--wait"]
        asked = await asyncio.create_subprocess_exec(*chat, env=daemon.env, stdout=subprocess.PIPE)
        try:
            listed = group / "listed"
            await until(lambda: listed.exists() or asked.returncode is not None, "the first list")
            granted = daemon.gatepost("grant", "add", "home", "!send")
            said, _ = await asyncio.wait_for(asked.communicate(), PATIENCE)
        finally:
            if asked.returncode is None:
                asked.kill()
                await asked.wait()

        assert granted.returncode == 0, granted.stderr
        assert said.startswith(b"{"), said
        found = json.loads(said)
        tools = [each["name"] for each in daemon.json("tools", "--folder", "home")]
    assert "send" in found["before"] and found["called"]
    assert found["after"] == sorted(tools) == sorted(set(found["before"]) - {"send"})
    assert "Unknown tool: send" in found["send"]
    assert (group / "work.md").read_text() == f"of {mode}"
    rows = [
        (row[3], row[4])
        for row in read_snapshot(daemon.home / "gatepost.db", audit.list_latest, 50)
        if row[2] == "agent:home"
    ]
    assert rows[::-1] == [("set_work", "allowed"), ("send", "refused")]
    assert daemon.gatepost("audit", "verify").returncode == 0


@pytest.mark.skipif(
    importlib.util.find_spec("claude_agent_sdk") is None,
    reason="claude-agent-sdk is not installed: pip install '.[claude]'",
)
@pytest.mark.slow
async def test_claude_code_lists_and_calls_and_its_next_request_lacks_what_was_withdrawn(tmp_path: Path) -> None:
    """It has servers of its own as well, which run inside and do not stand in the place of ours."""
    channel = FakeChannel()
    tmp_path.chmod(0o711)
    script: dict[str, Any] = {
        "tools": True,
        "turns": [
            {"when": "begin", "do": [{"call": "send", "with": {"text": "sent"}}, {"say": "begun"}]},
            {"when": "go on", "do": [{"call": "mcp__notes__note"}, {"say": "gone on"}]},
        ],
    }
    async with ModelEndpoint(script) as endpoint:
        given: dict[str, Any] = {
            "sandbox__kind": "bubblewrap",
            "sessions__provider": "claude",
            "anthropic__base_url": endpoint.anthropic,
        }
        async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, **given) as gateway:
            await gateway.store.write(
                groups.update, "home", {"model": "claude-sonnet-4-5", "options": {"own_mcp": True}}
            )
            keyring, now = Keyring(gateway.home), gateway.clock.now()
            await gateway.store.write(
                secrets.put, keyring, SecretOwner(), secrets.ANTHROPIC_API_KEY, "sk-for-tests", now
            )
            folder = gateway.home.group("home")
            (folder / "notes.py").write_text(NOTES)
            python = f"/opt/gatepost/python/bin/python{sys.version_info.major}.{sys.version_info.minor}"
            own = {"command": python, "args": ["-I", "-S", "/workspace/agent/notes.py"]}
            servers = {"notes": own, "gatepost": {"command": "/bin/false"}}
            (folder / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
            await open_room(gateway, "fake", ROOM)
            await channel.say("begin now")
            await channel.wait_for(2, timeout=PATIENCE)
            await wait_until_settled(gateway)

            await gateway.store.write(add_rule, gateway.clock.now())
            gateway.events.tools(None)
            await channel.say("go on")
            await channel.wait_for(3, timeout=PATIENCE)
            await wait_until_settled(gateway)

            assert channel.texts() == ["sent", "begun", "gone on"]
            assert (folder / "noted").read_text() == "/workspace/agent"
    first, last = endpoint.calls[0].tools, endpoint.calls[-1].tools
    assert {"mcp__gatepost__send", "mcp__gatepost__reply", "mcp__notes__note"} <= set(first)
    assert "mcp__gatepost__send" not in last and {"mcp__gatepost__reply", "mcp__notes__note"} <= set(last)


# An agent loop of another kind: it ends its turn itself, over the tool socket, and is not sure that it was heard.
SUBMITTER = r"""
import asyncio, json
from gatepost.inside.providers.contract import TurnResult, ConversationStarted, provider


@provider("submitter")
class Submitter:
    takes_pushes = False

    def __init__(self, place):
        self.place = place

    async def query(self, batch, resume):
        yield ConversationStarted(resume or "c-1")
        reader, writer = await asyncio.open_unix_connection(str(self.place.router))
        answers = []
        for params in ({"turn_id": batch.turn, "result": "once"}, {"turn_id": batch.turn, "result": "once"}, {}):
            request = {"jsonrpc": "2.0", "id": len(answers), "method": "submit_turn", "params": params}
            writer.write(json.dumps(request).encode() + b"\n")
            answers.append(json.loads(await reader.readline()))
        (self.place.agent / "answers.new").write_text(json.dumps(answers))
        (self.place.agent / "answers.new").replace(self.place.agent / "answers.json")  # its end may come at any moment
        yield TurnResult()

    async def push(self, batch):
        raise NotImplementedError("one turn at a time")

    async def interrupt(self):
        pass

    async def close(self):
        pass
"""


@pytest.mark.slow
async def test_stranger_e_submit_turn_is_bounded_and_the_next_message_is_answered(tmp_path: Path) -> None:
    channel, home = FakeChannel(), tmp_path / "h"
    folder = home / "plugins" / "providers"
    folder.mkdir(parents=True)
    given = '{"turn_id": batch.turn, "result": "once"}'
    long = [
        '{"turn_id": batch.turn, "session_id": "c" * 900_000}',
        '{"turn_id": "t" * 900_000, "result": "x"}',
        '{"turn_id": batch.turn, "result": "x" * 900_000}',
        '{"turn_id": batch.turn, "error": "x" * 900_000, "status": "error"}',
        '{"turn_id": batch.turn, "status": "x" * 900_000}',
    ]
    (folder / "submitter.py").write_text(
        SUBMITTER.replace(f"({given}, {given}, {{}})", f"({', '.join(long)}, {given})")
    )
    async with running_gateway(home, {"fake": (channel.kind, channel)}, sessions__provider="submitter") as gateway:
        await open_room(gateway, "fake", ROOM)
        for number in (1, 2):
            await channel.say(f"go {number}")
            await channel.wait_for(number, timeout=PATIENCE)
        await wait_until_settled(gateway)

        *refused, taken = json.loads((gateway.home.group("home") / "answers.json").read_text())
        assert channel.texts() == ["once", "once"]
        assert [each["error"]["code"] for each in refused] == [-32602] * len(long)
        assert taken["result"] == {"ok": True}


async def test_arizuko_31_submit_turn_twice_brings_one_message_and_no_second_cost(tmp_path: Path) -> None:
    channel, home = FakeChannel(), tmp_path / "h"
    folder = home / "plugins" / "providers"
    folder.mkdir(parents=True)
    (folder / "submitter.py").write_text(SUBMITTER)
    async with running_gateway(home, {"fake": (channel.kind, channel)}, sessions__provider="submitter") as gateway:
        await open_room(gateway, "fake", ROOM)
        await channel.say("go")
        await channel.wait_for(1, timeout=PATIENCE)
        said = gateway.home.group("home") / "answers.json"
        await until(said.exists, "the answers")
        account = await wait_until_settled(gateway)
        spent = await gateway.store.read(costs.list_sums, "group")

        first, second, third = json.loads(said.read_text())
        assert channel.texts() == ["once"] and account.unaccounted == 0
        assert first["result"] == second["result"] == {"ok": True}
        assert third["error"]["code"] == -32602
        assert spent == []


def add_rule(db: Any, now: int) -> int:
    from gatepost.flow import grant_changes

    return grant_changes.add_rule(db, "home", "!send", "test", now)


# A group's own server: it says where it runs by writing there.
NOTES = r"""
import json, os, sys

for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = {}
    if asked["method"] == "initialize":
        result = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "notes", "version": "1"}}
    elif asked["method"] == "tools/list":
        result = {"tools": [{"name": "note", "description": "Note.", "inputSchema": {"type": "object"}}]}
    elif asked["method"] == "tools/call":
        open("/workspace/agent/noted", "w").write(os.getcwd())
        result = {"content": [{"type": "text", "text": "noted"}]}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}) + "\n")
    sys.stdout.flush()
"""
