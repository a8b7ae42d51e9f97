"""`make bench`: every figure beside its bare limit, measured in the same run. Prints a table, writes results.json.

Ratios are to be trusted before absolute times: the machine is shared, its limits are measured with the same load.
"""

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import uvloop

import adapters
import browser
import dashboard
import drafts
import embed
import gate
import growth
import limits
import message_trace
import neighbours
import pg_gateways
import pg_search
import postgres
import prompts
import recall
import schedule_tick
import search
import startup
import streamable
import telegram_rooms
from gatepost.app import Gateway
from gatepost.daemon import SWITCH_S
from gatepost.gate.tool_socket import ToolSocket
from gatepost.messages.inbound import Inbound
from gatepost.store.engine.sqlite_db import SqliteDb
from gatepost.store.messages import inbox, messages
from gatepost.store.messages.messages import NewMessage
from gatepost.store.messages.outbox import NewEffect, add
from gatepost.store.port import Db, Row
from gatepost.store.rooms import rooms
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.sessions import sessions, turn_claims
from gatepost.store.sessions.turns import Turn
from gatepost.tools.call import Caller
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.gateway import running_gateway
from instant import Instant
from measure import HERE, Figure, at_least, at_most, client, table, within

INITIALIZE = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        },
    }
)


def call(name: str, arguments: dict[str, str]) -> str:
    """A tools/call line whose id the client fills in."""
    line = {"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    return json.dumps(line).replace('"id": 0', '"id": @ID@')


async def opened(gateway: Gateway, *addresses: str) -> None:
    """Rooms that anybody may write in."""

    def make(db: Db) -> None:
        for address in addresses:
            rooms.add(db, "fake", address, address, False, RoomPolicy.PUBLIC, gateway.clock.now())

    await gateway.store.write(make)


async def heard(gateway: Gateway, text: str, address: str = "fake:room/1", number: int = 0) -> None:
    inbound = Inbound(
        address=address, platform_id=f"{text}-{number}", sender="fake:user/1", sender_name="someone", text=text
    )
    await gateway.intake.receive("fake", inbound)


async def replies(sandbox: str) -> dict[str, float]:
    """Latencies of a scripted echo, as somebody on the platform sees them."""
    channel, found = Instant(), {}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        given = {"sandbox__kind": sandbox, "sessions__most_awake": 20}
        async with running_gateway(Path(folder) / "h", {"fake": (channel.kind, channel)}, **given) as gateway:
            await opened(gateway, *(f"fake:room/{number}" for number in range(40)))
            found["cold"] = statistics.median([await _cold(gateway, channel, number) for number in range(30, 35)])
            found["warm"] = statistics.median(
                [await _reply(gateway, channel, f"warm {n}", "fake:room/30") for n in range(200)]
            )
            found["statements"] = await _statements(gateway, channel)
            found["burst50"] = await _burst(gateway, channel)
            found["wake20"] = await _wake_twenty(gateway, channel)
            found["turns16"] = await _turns_of_sixteen(gateway, channel)
            pids = [live.sandbox.pid for live in gateway.sessions.awake if live.sandbox is not None]
            found["session_rss"] = statistics.mean(limits.tree_rss_mb(pid) for pid in pids)
    return found


async def _reply(gateway: Gateway, channel: Instant, text: str, address: str) -> float:
    """One message and its answer; then a breath, so that the next one does not join the end of this turn."""
    answered = channel.expect(f"echo: {text}")
    start = time.perf_counter()
    await heard(gateway, text, address)
    async with asyncio.timeout(30):
        taken = (await answered - start) * 1000
    await asyncio.sleep(0.004)
    return taken


async def _cold(gateway: Gateway, channel: Instant, number: int) -> float:
    return await _reply(gateway, channel, f"cold {number}", f"fake:room/{number}")


async def _statements(gateway: Gateway, channel: Instant, count: int = 50) -> float:
    """SQL statements of one warm reply, whichever thread runs them."""
    plain, ran = SqliteDb.rows, 0

    def rows(self: SqliteDb, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        nonlocal ran
        ran += 1
        return plain(self, sql, params)

    SqliteDb.rows = rows  # type: ignore[method-assign]
    try:
        for number in range(count):
            await _reply(gateway, channel, f"counted {number}", "fake:room/30")
            await asyncio.sleep(0.02)
    finally:
        SqliteDb.rows = plain  # type: ignore[method-assign]
    return ran / count


async def _turns_of_sixteen(gateway: Gateway, channel: Instant, each: int = 40) -> float:
    """Turns a second of sixteen sessions that are awake, each asked again as soon as it has answered."""

    async def talk(room: int) -> None:
        for number in range(each):
            answered = channel.expect(f"echo: talk {room} {number}")
            await heard(gateway, f"talk {room} {number}", f"fake:room/{room}")
            async with asyncio.timeout(60):
                await answered

    start = time.perf_counter()
    await asyncio.gather(*(talk(room) for room in range(16)))
    return 16 * each / (time.perf_counter() - start)


async def _burst(gateway: Gateway, channel: Instant) -> float:
    """Fifty messages at once to one awake session, until the last is answered."""
    answers = [channel.expect(f"echo: burst {number}") for number in range(50)]
    start = time.perf_counter()
    await asyncio.gather(*(heard(gateway, f"burst {number}", "fake:room/30") for number in range(50)))
    async with asyncio.timeout(30):
        times = [await answer for answer in answers]
    return max(times) - start


async def _wake_twenty(gateway: Gateway, channel: Instant) -> float:
    """Twenty sleeping sessions at once, until each has given its first reply."""
    answers = [channel.expect(f"echo: wake {number}") for number in range(20)]
    start = time.perf_counter()
    await asyncio.gather(*(heard(gateway, f"wake {number}", f"fake:room/{number}") for number in range(20)))
    async with asyncio.timeout(60):
        times = [await answer for answer in answers]
    return max(times) - start


async def ingest_per_s(count: int = 6000, callers: int = 64) -> float:
    """Durable acceptance, routed and queued; nobody answers."""
    channel = Instant()
    with tempfile.TemporaryDirectory() as folder:
        given = {"sessions__most_awake": 0}
        async with running_gateway(Path(folder) / "h", {"fake": (channel.kind, channel)}, **given) as gateway:
            await opened(gateway, *(f"fake:room/{number}" for number in range(50)))
            await heard(gateway, "first")

            async def caller(first: int) -> None:
                for number in range(first, count, callers):
                    await heard(gateway, "a short message", f"fake:room/{number % 50}", number)

            start = time.perf_counter()
            await asyncio.gather(*(caller(number) for number in range(callers)))
            return count / (time.perf_counter() - start)


async def deliver_per_s(count: int = 6000, lanes: int = 50) -> float:
    """From committed rows to an instant channel, every state durable."""
    channel = Instant()
    with tempfile.TemporaryDirectory() as folder:
        async with running_gateway(Path(folder) / "h", {"fake": (channel.kind, channel)}) as gateway:

            def fill(db: Db) -> None:
                for number in range(count):
                    new = NewEffect(
                        key=f"bench/{number}",
                        op="send",
                        origin="notice",
                        instance="fake",
                        address=f"fake:room/{number % lanes}",
                        text="a short message",
                        payload={"text": "a short message"},
                    )
                    add(db, new, gateway.clock.now())

            await gateway.store.write(fill)
            start = time.perf_counter()
            for number in range(lanes):
                gateway.events.room("fake", f"fake:room/{number}")
            await channel.reached(count)
            return count / (time.perf_counter() - start)


async def tools(calls: int) -> dict[str, float]:
    """Round trips through the socket and the gate, and through the bridge, made within a turn as agents make them."""
    found: dict[str, float] = {}
    channel = Instant()
    with tempfile.TemporaryDirectory() as folder:
        given = {"sessions__most_results": 2 * calls}  # in one turn
        async with running_gateway(Path(folder) / "h", {"fake": (channel.kind, channel)}, **given) as gateway:
            turn = await gateway.store.write(_begin_turn, gateway.clock.now())
            caller = Caller(folder="home", session_id=turn.session_id, provider="scripted", running=lambda: turn)
            path = Path(folder) / "t.sock"
            socket = ToolSocket(gateway.dispatch, caller, lambda pid: True, None)
            await socket.open(path)
            read, effect = call("inspect_session", {"limit": None}), call("reply", {"text": "bench"})
            direct = await client(["socket", str(path)], [INITIALIZE], read, calls)
            found["read"] = direct["median_us"]
            found["effect"] = (await client(["socket", str(path)], [INITIALIZE], effect, calls // 4))["median_us"]
            bridge = [sys.executable, "-I", "-S", str(_bridge()), "--socket", str(path)]
            through = [await client(["pipe", *bridge], [INITIALIZE], read, calls // 4) for _ in range(5)]
            found["bridge"] = statistics.median(each["median_us"] for each in through)
            found["bridge_ready"] = statistics.median(each["ready_ms"] for each in through)
            await socket.close()
    return found


async def permission() -> tuple[float, tuple[float, float]]:
    with tempfile.TemporaryDirectory() as folder:
        agent = await gate.settled(Path(folder))
        try:
            return await gate.tools_list_ms(agent), await gate.call_us(agent)
        finally:
            agent.deps.store.close()  # type: ignore[attr-defined]


async def found() -> tuple[float, float, list[Figure]]:
    """The tool's, the bare question's, and those of PostgreSQL with the same million messages."""
    with tempfile.TemporaryDirectory() as folder:
        finding, bare = await search.find_ms(Path(folder))
        return finding, bare, await pg_search.figures(Path(folder) / "gatepost.db")


def _begin_turn(db: Db, now: int) -> Turn:
    """A session of `home` in the middle of a turn."""
    session = sessions.find_or_add(db, sessions.SessionMode.PER_THREAD, "home", "fake", "fake:room/1", "", now)
    new = NewMessage(
        instance="fake",
        address="fake:room/1",
        direction="in",
        kind="chat",
        sender="fake:user/1",
        text="hello",
        at=now,
        platform_id="1",
    )
    message_id = messages.accept(db, new, now)
    assert message_id is not None
    inbox.enqueue(db, message_id, session.id, "home", "member", now)
    claim = turn_claims.claim(db, session.id, "scripted", "bench", now, 3600_000_000, 1, ready=True)
    assert claim is not None
    return claim.turn


def _bridge() -> Path:
    return HERE.parent / "src" / "gatepost" / "inside" / "bridge.py"


async def idle_rss_mb() -> float:
    """The daemon, with its web page, after one answered message, at rest."""
    with tempfile.TemporaryDirectory() as folder:
        loop = asyncio.get_running_loop()
        daemon = DaemonProcess(Path(folder) / "h", sandbox_kind="process")
        await loop.run_in_executor(None, daemon.start)
        try:
            await asyncio.sleep(1)
            return limits.rss_mb(daemon.pid)
        finally:
            await loop.run_in_executor(None, daemon.stop)


async def figures() -> list[Figure]:
    echo = await limits.raw_echo_us(4000)
    commit, rows = limits.commit_us(), limits.rows_per_s()
    bwrap, python, loaded = limits.bwrap_ms(), limits.python_ms(), limits.loaded_python_ms()
    bare_rss = limits.python_rss_mb()
    sandbox = "bubblewrap" if bwrap is not None else "process"
    reply = await replies(sandbox)
    tool = await tools(4000)
    bare_way = (3 * commit + 2 * echo) / 1000
    listing, (gated, ungated) = await permission()
    finding, bare_finding, finding_on_server = await found()
    ingest = await ingest_per_s()
    version = limits.command_ms([sys.executable, "-m", "gatepost", "--version"])
    return [
        at_most("warm_reply_ms", reply["warm"], "ms", bare_way, 4),
        at_most("warm_statements", reply["statements"], "", 3, 30),
        at_least("turns16_per_s", reply["turns16"], "/s", limits.group_turns_per_s(16), 250),
        at_most("cold_reply_ms", reply["cold"], "ms", (bwrap or 0) + loaded, 300),
        at_most("burst50_s", reply["burst50"], "s", 50 * commit / 1e6, 1),
        at_most("wake20_s", reply["wake20"], "s", 20 * ((bwrap or 0) + loaded) / 2000, 5),
        at_least("ingest_per_s", ingest, "/s", rows, 5000),
        at_least("deliver_per_s", await deliver_per_s(), "/s", rows, 5000),
        within("tool_call_us", tool["read"], "µs", echo, 3.5),
        within("tool_effect_us", tool["effect"], "µs", echo, 15),
        within("bridge_call_us", tool["bridge"], "µs", echo, 5),
        at_most("bridge_ready_ms", tool["bridge_ready"], "ms", python, 40),
        at_least("authorize_per_s", gate.authorize_per_s(), "/s", limits.calls_per_s(), 200_000),
        at_most("tools_list_ms", listing, "ms", echo / 1000, 5),
        within("gated_read_us", gated, "µs", ungated, 1.5),
        at_most("find_messages_ms", finding, "ms", bare_finding, 30),
        at_most("idle_rss_mb", await idle_rss_mb(), "MB", bare_rss, 90),
        at_most("session_rss_mb", reply["session_rss"], "MB", bare_rss, 60),
        at_most("version_ms", version, "ms", python, 150),
        *prompts.figures(),
        *startup.figures(python),
        *adapters.figures(python),
        *await embed.figures(echo, python),
        *await streamable.figures(echo, python),
        *await telegram_rooms.figures(ingest),
        *await growth.figures(bwrap or 0, loaded, sandbox),
        *schedule_tick.figures(),
        *message_trace.figures(),
        *await dashboard.figures(),
        *await browser.figures(),
        *drafts.figures(echo),
        *finding_on_server,
        *await recall.figures(),
        *await postgres.figures(),
        *pg_gateways.figures(),
    ]


def main() -> None:
    sys.setswitchinterval(SWITCH_S)  # as in a gateway
    found = [*uvloop.run(figures()), *neighbours.figures()]
    print(table(found))
    (HERE / "results.json").write_text(
        json.dumps([each.as_json() for each in found], indent=2, ensure_ascii=False) + "\n"
    )


if __name__ == "__main__":
    main()
