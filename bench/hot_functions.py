"""`python bench/hot_functions.py [PATH …]`: where the time of a hot path goes, by function.

Every thread has a profiler of its own, so that the writer of the store is seen, too. Profiling makes small functions
look larger than they are: the shares tell what is left, `make bench` tells how long it takes.
"""

import cProfile
import pstats
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvloop

import gate
import run
from gatepost.daemon import SWITCH_S
from gatepost_testing.gateway import running_gateway
from instant import Instant

SHOWN = 16  # functions of a path
WARM, CALLS, MANY = 600, 2000, 6000
WAITS = (
    "'get' of '_queue.SimpleQueue'",
    "'acquire' of '_thread.lock'",
    "run_until_complete",
)  # nothing is done in them


async def _warm() -> None:
    channel = Instant()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        async with running_gateway(Path(folder) / "h", {"fake": (channel.kind, channel)}) as gateway:
            await run.opened(gateway, "fake:room/1")
            for number in range(WARM):
                await run._reply(gateway, channel, f"warm {number}", "fake:room/1")


async def _gated() -> None:
    with tempfile.TemporaryDirectory() as folder:
        agent = await gate.settled(Path(folder))
        await gate.call_us(agent, CALLS)
        agent.deps.store.close()  # type: ignore[attr-defined]


PATHS: dict[str, tuple[int, Callable[[], Awaitable[Any]]]] = {
    "ingest": (MANY, lambda: run.ingest_per_s(MANY)),
    "deliver": (MANY, lambda: run.deliver_per_s(MANY)),
    "warm": (WARM, _warm),
    "tool calls": (CALLS, lambda: run.tools(CALLS)),
    "gated": (CALLS, _gated),
}


def profile(work: Callable[[], Awaitable[Any]]) -> pstats.Stats:
    found = [cProfile.Profile()]
    plain = threading.Thread.run

    def profiled(thread: threading.Thread) -> None:
        own = cProfile.Profile()
        found.append(own)
        own.enable()
        try:
            plain(thread)
        finally:
            own.disable()

    threading.Thread.run = profiled  # type: ignore[method-assign]
    try:
        found[0].runcall(uvloop.run, work())
    finally:
        threading.Thread.run = plain  # type: ignore[method-assign]
    stats = pstats.Stats(found[0])
    for each in found[1:]:
        each.create_stats()
        if each.stats:  # type: ignore[attr-defined]
            stats.add(each)
    return stats


def show(name: str, count: int, stats: pstats.Stats) -> None:
    """Show only what runs for every unit: a start of the gateway is no part of the path."""
    rows = [
        (own / count * 1e6, calls / count, f"{Path(file).name}:{function}" if line else function)
        for (file, line, function), (_, calls, own, _, _) in stats.stats.items()  # type: ignore[attr-defined]
        if calls >= count / 2 and not any(each in function for each in WAITS)
    ]
    rows.sort(reverse=True)
    print(f"\n{name}: {sum(row[0] for row in rows):,.0f} µs of {len(rows)} functions for each of {count}")
    for own, calls, function in rows[:SHOWN]:
        print(f"{own:>9.1f} µs {calls:>7.1f} ×  {function}")


if __name__ == "__main__":
    sys.setswitchinterval(SWITCH_S)
    for wanted in sys.argv[1:] or PATHS:
        number, path = PATHS[wanted]
        show(wanted, number, profile(path))
