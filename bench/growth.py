"""Age and crowds: what a reply costs in a store that is full, what a quiet room waits while another group floods, and
how fast new rooms are answered. Each beside the same in the same run without the load."""

import asyncio
import itertools
import statistics
import tempfile
import time
from pathlib import Path

import aged
from gatepost.app import Gateway
from gatepost.core.clock import SystemClock
from gatepost.messages.inbound import Inbound
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.port import Db
from gatepost.store.rooms import rooms, routes
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.sessions import groups, sessions
from gatepost_testing.gateway import running_gateway
from instant import Instant
from measure import Figure, at_least, within

OLD_ROOM, OTHER_ROOMS = 25_000, 100  # messages in the room that is measured; further rooms
QUIET = "fake:quiet/1"


async def figures(bwrap_ms: float, python_ms: float, sandbox: str) -> list[Figure]:
    young, old = await warm_replies(400_000)
    alone, beside = await quiet_beside_flood(sandbox)
    answered = await new_rooms_per_s(sandbox)
    return [
        within("warm_reply_400k_ms", old, "ms", young, 1.3),
        within("quiet_in_flood_ms", beside, "ms", alone, 3),
        at_least("new_rooms_per_s", answered, "/s", 2000 / (bwrap_ms + python_ms), 8),
    ]


async def warm_replies(messages: int, replies: int = 200) -> tuple[float, float]:
    """Medians in an empty store and in a full one, milliseconds. Measured by turns, so that both see the same load."""
    with tempfile.TemporaryDirectory() as folder:
        homes = [Path(folder) / "young", Path(folder) / "old"]
        async with running_gateway(homes[1]):
            pass  # makes the defaults
        await asyncio.get_running_loop().run_in_executor(None, fill, homes[1] / "gatepost.db", messages)
        channels = [Instant(), Instant()]
        taken: list[list[float]] = [[], []]
        async with (
            running_gateway(homes[0], {"fake": (channels[0].kind, channels[0])}) as young,
            running_gateway(homes[1], {"fake": (channels[1].kind, channels[1])}) as old,
        ):
            for each in (young, old):
                await each.store.write(rooms.add, "fake", QUIET, QUIET, False, RoomPolicy.PUBLIC, each.clock.now())
            both = list(enumerate((young, old)))
            for number in range(replies + 10):
                for place, gateway in both if number % 2 else reversed(both):  # neither is always the second
                    found = await reply(gateway, channels[place], f"reply {number}", QUIET, 0.02)
                    taken[place] += [found] if number >= 10 else []
        return statistics.median(taken[0]), statistics.median(taken[1])


def fill(path: Path, messages: int) -> None:
    """A store with that many messages: a share of them in the room that is measured, the rest in others."""
    connection = connect(path)
    connection.execute("PRAGMA synchronous=OFF")
    db, start = SqliteDb(connection), SystemClock().now() - 10**14
    groups.add(db, "loud", "loud", "scripted", 1)
    there = [sessions.find_or_add(db, sessions.SessionMode.PER_THREAD, "home", "fake", QUIET, "", start)]
    there += [
        sessions.find_or_add(db, sessions.SessionMode.PER_THREAD, "loud", "fake", f"fake:loud/{n}", "", start)
        for n in range(OTHER_ROOMS)
    ]
    own = min(OLD_ROOM, messages // 2)
    for session in there:
        share = own if session is there[0] else (messages - own) // OTHER_ROOMS
        aged.age(connection, session, share // 2, start)
    connection.close()


async def quiet_beside_flood(sandbox: str, replies: int = 150, crowd: int = 100) -> tuple[float, float]:
    """The 95th percentile of one room's replies, milliseconds: alone, and while another group floods many rooms."""
    channel = Instant()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        given = {"sandbox__kind": sandbox, "sessions__idle_s": 600.0}
        async with running_gateway(Path(folder) / "h", {"fake": (channel.kind, channel)}, **given) as gateway:
            await gateway.store.write(_two_groups, crowd, gateway.clock.now())
            (Path(folder) / "h/groups/loud").mkdir(exist_ok=True)
            await reply(gateway, channel, "first", QUIET)
            alone = [await reply(gateway, channel, f"alone {number}", QUIET, 0.05) for number in range(replies)]
            async with asyncio.TaskGroup() as tasks:
                flood = [tasks.create_task(_flood(gateway, channel, f"fake:loud/{n}")) for n in range(crowd)]
                await asyncio.sleep(2)
                beside = [await reply(gateway, channel, f"beside {number}", QUIET, 0.05) for number in range(replies)]
                for each in flood:
                    each.cancel()
    return _p95(alone), _p95(beside)


async def new_rooms_per_s(sandbox: str, count: int = 60) -> float:
    """Rooms that nobody has written in before, all at once, until each has its answer."""
    channel = Instant()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        given = {"sandbox__kind": sandbox}
        async with running_gateway(Path(folder) / "h", {"fake": (channel.kind, channel)}, **given) as gateway:
            await gateway.store.write(_two_groups, count, gateway.clock.now())
            (Path(folder) / "h/groups/loud").mkdir(exist_ok=True)
            await reply(gateway, channel, "first", QUIET)
            start = time.perf_counter()
            await asyncio.gather(*(reply(gateway, channel, f"new {n}", f"fake:loud/{n}") for n in range(count)))
            return count / (time.perf_counter() - start)


def _two_groups(db: Db, crowd: int, now: int) -> None:
    """`home` answers the quiet room, `loud` many others."""
    groups.add(db, "loud", "loud", "scripted", now)
    routes.add(
        db, routes.Route(seq=-1, match="room=loud/*", target="loud", folder="loud", created_by="bench", created_at=now)
    )
    for address in (QUIET, *(f"fake:loud/{number}" for number in range(crowd))):
        rooms.add(db, "fake", address, address, False, RoomPolicy.PUBLIC, now)


async def _flood(gateway: Gateway, channel: Instant, address: str) -> None:
    for number in itertools.count():
        await reply(gateway, channel, f"flood {address} {number}", address, timeout=300)


async def reply(
    gateway: Gateway, channel: Instant, text: str, address: str, pause: float = 0.004, timeout: float = 60
) -> float:
    """One message and its answer, in milliseconds; then a pause, lest the next join the end of this turn."""
    answered = channel.expect(f"echo: {text}")
    start = time.perf_counter()
    inbound = Inbound(
        address=address, platform_id=f"{text}-{start}", sender="fake:user/1", sender_name="someone", text=text
    )
    await gateway.intake.receive("fake", inbound)
    async with asyncio.timeout(timeout):
        taken = (await answered - start) * 1000
    await asyncio.sleep(pause)
    return taken


def _p95(taken: list[float]) -> float:
    return sorted(taken)[int(len(taken) * 0.95)]
