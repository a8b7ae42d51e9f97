"""The embedding library's figures: the socket alone, the whole way through a bridge, and a bridge's start.

.venv/bin/python bench/embed.py        alone, beside the raw socket of the same run
"""

import asyncio
import json
import statistics

import uvloop

import limits
from gatepost.embed import ToolHost
from measure import Figure, all_of, at_most, client, table

INITIALIZE = json.dumps(
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}}}
)
CALL = '{"jsonrpc":"2.0","id":@ID@,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%s"}}}' % (
    "x" * 32
)
FRAME = '{"id":@ID@,"method":"call_tool","params":{"name":"echo","arguments":{"text":"%s"}}}' % ("x" * 32)


async def echo(text: str) -> str:
    """Say it again."""
    return text


async def socket_us(host: ToolHost, calls: int) -> float:
    """From another process, frames with ids."""
    return (await client(["frames", str(host.socket_path)], [], FRAME, calls))["median_us"]


async def concurrent(host: ToolHost, count: int = 50) -> int:
    """How many of so many calls at once got their own answer."""
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(*host.command(), stdin=pipe, stdout=pipe)
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write(INITIALIZE.encode() + b"\n")
    await child.stdout.readline()
    for number in range(count):
        child.stdin.write(CALL.replace("@ID@", str(number)).replace("x" * 32, f"n{number}").encode() + b"\n")
    answers = [json.loads(await child.stdout.readline()) for _ in range(count)]
    child.stdin.close()
    await child.wait()
    return sum(each["result"]["content"][0]["text"] == f"n{each['id']}" for each in answers)


async def figures(echo_us: float, python_ms: float, calls: int = 4000) -> list[Figure]:
    """Beside the raw socket and the bare interpreter of the same run."""
    bare = await limits.raw_echo_us(calls, "frames")
    async with ToolHost([echo]) as host:
        direct = statistics.median([await socket_us(host, calls) for _ in range(3)])
        runs = [await client(["pipe", *host.command()], [INITIALIZE], CALL, calls // 2) for _ in range(5)]
        right = await concurrent(host)
    return [
        at_most("embed_socket_us", direct, "µs", bare, 60),
        at_most("embed_bridge_us", statistics.median(each["median_us"] for each in runs), "µs", echo_us, 200),
        at_most("embed_p99_us", statistics.median(each["p99_us"] for each in runs), "µs", echo_us, 1000),
        at_most("embed_ready_ms", statistics.median(each["ready_ms"] for each in runs), "ms", python_ms, 40),
        all_of("embed_right_of_50", right, 50),
    ]


async def alone() -> list[Figure]:
    return await figures(await limits.raw_echo_us(4000), limits.python_ms())


if __name__ == "__main__":
    print(table(uvloop.run(alone())))
