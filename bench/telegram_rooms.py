"""A thousand rooms on one emulated Telegram, a process of its own: in through the adapter, and out at its pace.

.venv/bin/python bench/telegram_rooms.py        alone
"""

import asyncio
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from gatepost.app import Gateway
from gatepost.channels.contract import CHANNELS
from gatepost.store.messages.outbox import NewEffect, add
from gatepost.store.port import Db
from gatepost.store.rooms import rooms
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost_testing.gateway import running_gateway
from gatepost_testing.platforms.base import PlatformFault
from gatepost_testing.platforms.telegram import TelegramPlatform
from gatepost_testing.platforms.wiring import make_channel
from measure import Figure, at_least, table

PATIENCE_S = 120
RECEIVED = "SELECT count(*) FROM messages WHERE instance = 'telegram' AND direction = 'in'"


class RemoteTelegram(TelegramPlatform):
    """The same rooms, served by the other process. Only names are asked of it here."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.port = port


def name_rooms(platform: TelegramPlatform, count: int) -> list[str]:
    return [platform.get_address(f"room{number}") for number in range(count)]


def serve(count: int, messages: int) -> None:
    """The other process. It does what each line on stdin says, and tells how long that took, by its own record."""
    with TelegramPlatform() as platform:
        assert isinstance(platform, TelegramPlatform)
        name_rooms(platform, count)
        print(platform.port, flush=True)
        for line in sys.stdin:
            if line.strip() == "receive":
                platform.fault(PlatformFault.HELD_POLL)
                for number in range(messages):
                    platform.send(f"message {number}", room=f"room{number % count}")
                began = time.perf_counter()
                platform.heal()
                assert platform.wait_for(lambda: not platform.updates, PATIENCE_S)
            else:
                began, wanted = time.perf_counter(), int(line)
                assert platform.wait_for(lambda wanted=wanted: len(platform.record) >= messages + wanted, PATIENCE_S)  # type: ignore[misc]
            print(time.perf_counter() - began, flush=True)


async def measured(count: int, messages: int, answers: int) -> tuple[float, float]:
    """(messages confirmed a second, messages sent a second)."""
    pipe = asyncio.subprocess.PIPE
    command = [sys.executable, __file__, str(count), str(messages)]
    child = await asyncio.create_subprocess_exec(*command, stdout=pipe, stdin=pipe)
    output, orders = child.stdout, child.stdin
    assert output is not None and orders is not None

    async def order(words: str) -> float:
        orders.write(f"{words}\n".encode())
        async with asyncio.timeout(2 * PATIENCE_S):
            return float(await output.readline())

    try:
        platform = RemoteTelegram(int(await output.readline()))
        channel, _ = make_channel(platform)
        given = {"sessions__most_awake": 0}
        with tempfile.TemporaryDirectory() as folder:
            extra = {"telegram": (CHANNELS["telegram"], channel)}
            async with running_gateway(Path(folder) / "h", extra, **given) as gateway:
                addresses = name_rooms(platform, count)
                await open_rooms(gateway, addresses)
                received = messages / await order("receive")
                assert (await gateway.store.read(lambda db: db.rows(RECEIVED, ())))[0][0] == messages
                await fill_outbox(gateway, addresses[:answers])
                sent = answers / await order(str(answers))
        return received, sent
    finally:
        orders.close()
        await child.wait()


async def open_rooms(gateway: Gateway, addresses: list[str]) -> None:
    def make(db: Db) -> None:
        for address in addresses:
            rooms.add(db, "telegram", address, address, False, RoomPolicy.PUBLIC, gateway.clock.now())

    await gateway.store.write(make)


async def fill_outbox(gateway: Gateway, addresses: list[str]) -> None:
    def fill(db: Db) -> None:
        for address in addresses:
            new = NewEffect(
                key=f"bench/{address}",
                op="send",
                origin="notice",
                instance="telegram",
                address=address,
                text="a short message",
                payload={"text": "a short message"},
            )
            add(db, new, gateway.clock.now())

    await gateway.store.write(fill)
    for address in addresses:
        gateway.events.room("telegram", address)


async def figures(ingest: float, count: int = 1000, messages: int = 5000, answers: int = 120) -> list[Figure]:
    """`ingest`: what the same intake takes a second without a platform."""
    received, sent = await measured(count, messages, answers)
    pace = CHANNELS["telegram"].pace.everywhere
    return [
        at_least("telegram_ingest_per_s", received, "/s", ingest, 1000),
        at_least("telegram_send_per_s", sent, "/s", pace, 0.9 * pace),
    ]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve(int(sys.argv[1]), int(sys.argv[2]))
    else:
        print(table(uvloop.run(figures(1000))))
