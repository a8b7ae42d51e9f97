"""MCP over Streamable HTTP on a Unix socket: a call in each era of the protocol, and through `gatepost bridge`.

.venv/bin/python bench/streamable.py        alone, beside the raw socket of the same run
"""

import asyncio
import json
import statistics
import sys
import tempfile
from pathlib import Path

import uvloop
from starlette.applications import Starlette
from starlette.routing import Mount

import limits
from gatepost.core.clock import SystemClock
from gatepost.core.process.listen_address import ListenAddress
from gatepost.serve.agents.mcp_endpoint import LARGEST
from gatepost.serve.agents.mcp_servers import GROUPS_PATH, make_groups_app
from gatepost.serve.http import HttpServer, bind
from gatepost.store.engine.migrate import migrate
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost_testing.gate_agent import GateAgent
from gatepost_testing.sample_tools import FEW
from measure import Figure, all_of, at_most, client, table

META = "io.modelcontextprotocol/"
ENVELOPE = {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {}}
MODERN = ("MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: echo")
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}


def line(method: str, params: dict[str, object]) -> str:
    message = {"jsonrpc": "2.0", "id": 0, "method": method, "params": params}
    return json.dumps(message).replace('"id": 0', '"id": @ID@')


OPENING = line("initialize", INITIALIZE).replace("@ID@", "1")
CALL: dict[str, object] = {"name": "echo", "arguments": {"text": "x" * 100}}


async def measured(path: Path, calls: int) -> dict[str, float]:
    """Medians of five runs, in microseconds."""
    target = ["http", str(path), f"{GROUPS_PATH}/acme/eng"]
    old, new = line("tools/call", CALL), line("tools/call", {**CALL, "_meta": ENVELOPE})
    runs = {
        "2025": lambda: client(target, [OPENING], old, calls),
        "2026": lambda: client([*target, *MODERN], [], new, calls),
    }
    found = {name: statistics.median([(await run())["median_us"] for _ in range(5)]) for name, run in runs.items()}
    bridged = [await client(["pipe", *bridge(path)], [OPENING], old, calls // 2) for _ in range(5)]
    found |= {name: statistics.median(each[name] for each in bridged) for name in ("median_us", "p99_us", "ready_ms")}
    return found | {"right": await concurrent(path)}


def bridge(path: Path) -> list[str]:
    """As `gatepost mcp config` has it."""
    return [str(Path(sys.executable).parent / "gatepost"), "bridge", "--url", f"unix:{path}:{GROUPS_PATH}/acme/eng"]


async def concurrent(path: Path, count: int = 50) -> int:
    """How many of so many calls at once, through one bridge, got their own answer."""
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(*bridge(path), stdin=pipe, stdout=pipe)
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write(OPENING.encode() + b"\n")
    await child.stdout.readline()
    for number in range(count):
        asked = line("tools/call", {"name": "echo", "arguments": {"text": f"n{number}"}})
        child.stdin.write(asked.replace("@ID@", str(number)).encode() + b"\n")
    answers = [json.loads(await child.stdout.readline()) for _ in range(count)]
    child.stdin.close()
    await child.wait()
    return sum(f"n{each['id']}" == each["result"]["content"][0]["text"].strip('"') for each in answers)


async def figures(echo_us: float, python_ms: float, calls: int = 2000) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        migrate(Path(folder) / "store.db", SystemClock())
        store = SqliteStore(Path(folder) / "store.db")
        agent = await GateAgent.create(Path(folder) / "home", store, tools=FEW)
        endpoint = make_groups_app(agent.dispatch, agent.deps, LARGEST)
        path = Path(folder) / "c.sock"
        server = HttpServer(Starlette(routes=[Mount(GROUPS_PATH, endpoint)]), bind(ListenAddress("unix", path=path)))
        tasks = [asyncio.create_task(server.run()), asyncio.create_task(agent.dispatch.run())]
        try:
            found = await measured(path, calls)
        finally:
            await endpoint.close()
            server.stop()
            tasks[1].cancel()
            await asyncio.wait(tasks)
            store.close()
    return [
        at_most("http_call_us", found["2025"], "µs", echo_us, 500),
        at_most("http_2026_us", found["2026"], "µs", echo_us, 500),
        at_most("http_bridge_us", found["median_us"], "µs", echo_us, 700),
        at_most("http_bridge_p99_us", found["p99_us"], "µs", echo_us, 2000),
        at_most("http_ready_ms", found["ready_ms"], "ms", python_ms, 60),
        all_of("http_right_of_50", int(found["right"]), 50),
    ]


async def alone() -> list[Figure]:
    return await figures(await limits.raw_echo_us(4000), limits.python_ms())


if __name__ == "__main__":
    print(table(uvloop.run(alone())))
