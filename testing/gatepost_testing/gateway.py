"""A whole gateway on a temporary home: real store, real mailboxes, real sandboxes, fake platforms.

    async with running_gateway(tmp_path, channel) as gateway:
        await channel.say("hello")
        await channel.wait_for(1)

Nothing of it is a stand-in but the channel; it has no lock, no web address and no signals.
"""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from gatepost.app import Gateway, load_plugins
from gatepost.channels.contract import Channel, ChannelKind, ChannelState
from gatepost.core import settings
from gatepost.core.clock import Clock, SystemClock
from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.flow.channel_health import ChannelReport
from gatepost.flow.channel_specs import parse_stored
from gatepost.messages.inbound import Quote, Receipt
from gatepost.store.engine.migrate import migrate
from gatepost.store.money import ledger
from gatepost.store.money.ledger import LedgerStatus
from gatepost.store.port import Db
from gatepost.store.rooms import channel_instances, rooms
from gatepost.store.rooms.channel_instances import StoredChannel
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost_testing.channel import FakeChannel
from gatepost_testing.waiting import PATIENCE_S

QUICK: Mapping[str, Any] = {
    "sandbox.kind": "process",
    "sandbox.least_free_mb": 0,  # whatever else runs on this machine
    "alerts.backup_days": 0,  # the clock of a test may be years from when its store was made
    "sessions.provider": "scripted",
    "sessions.retry_s": 0.05,
    "sessions.look_s": 0.2,
    "delivery.retry_base_s": 0.05,
}


@asynccontextmanager
async def running_gateway(
    path: Path,
    extra: Mapping[str, tuple[ChannelKind, Channel]] | None = None,
    *,
    clock: Clock | None = None,
    **given: Any,
) -> AsyncIterator[Gateway]:
    """A gateway that runs for the length of the block. Settings are given with `__` for the dots."""
    home = Home(path)
    home.prepare()
    _add_store(home)
    _load_once(home)
    memory = {"restore.state_folder": str(path.parent / "state")}  # what the machine remembers, never the user's own
    values = {**QUICK, **memory, **{name.replace("__", "."): value for name, value in given.items()}}
    config = settings.load(home.path, environ={}, given=values)
    async with Gateway(home, config, clock or SystemClock(), extra).running() as gateway:
        yield gateway


@cache
def _make_empty_store() -> bytes:
    """As a first start leaves it. Migrations took half of the time of a start, so they run once in a process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gatepost.db"
        migrate(path, SystemClock())
        return path.read_bytes()


def _add_store(home: Home) -> None:
    """Unless it has one: then the gateway brings that up to date."""
    with suppress(FileExistsError), open(home.store, "xb", opener=partial(os.open, mode=0o600)) as file:
        file.write(_make_empty_store())


def _load_once(home: Home) -> None:
    """Registries are filled on import, which happens once in a process however many gateways it runs."""
    load_plugins(home)


async def start_channel(
    gateway: Gateway,
    kind: str,
    settings: Mapping[str, Any] | None = None,
    secrets: Mapping[str, str] | None = None,
    *,
    instance: str = "",
) -> Channel:
    """An instance of a registered kind, as `gatepost channel add` would have made it, but for the check. `settings` and
    `secrets` have their last names (`api_url`, `token`). It is started when this returns; what it then receives and
    sends goes through the gateway. A second call with the same instance changes it."""
    now = gateway.clock.now()
    row = StoredChannel(instance or kind, kind, dict(settings or {}), True, now, "test")
    spec = parse_stored(row)

    def put(db: Db) -> None:
        channel_instances.put(db, row)
        channel_instances.put_secrets(db, Keyring(gateway.home), row.instance, secrets or {}, now)

    await gateway.store.write(put)
    await gateway.supervisor.start(spec)
    channel = gateway.adapters.get(row.instance)
    if channel is None:
        raise AssertionError(f"{row.instance} did not start: {gateway.supervisor.find_trouble(row.instance)}")
    return channel


async def wait_for_channel(
    gateway: Gateway, instance: str, state: ChannelState, timeout: float = PATIENCE_S
) -> ChannelReport:
    """Its report, once it is in this state."""
    async with asyncio.timeout(timeout):
        while True:
            report = gateway.supervisor.find_report(instance)
            if report is not None and report.state is state:
                return report
            await asyncio.sleep(0.01)


async def open_room(gateway: Gateway, instance: str, address: str) -> None:
    """A room in which anybody may speak, as an operator would have declared it."""
    await gateway.store.write(rooms.add, instance, address, address, False, RoomPolicy.PUBLIC, gateway.clock.now())


async def wait_until_settled(gateway: Gateway, timeout: float = PATIENCE_S) -> LedgerStatus:
    """Wait until nothing is in flight; the ledger's account of it."""
    async with asyncio.timeout(timeout):
        while True:
            account = await gateway.store.read(ledger.check, gateway.clock.now())
            if not account.in_flight:
                return account
            await asyncio.sleep(0.02)


async def reply_to_card(gateway: Gateway, channel: FakeChannel, text: str, *, sender: str) -> Receipt:
    """Reply to the newest card of a request that waits, once it counts as delivered."""
    address, platform_id = await wait_for_shown_card(gateway)
    return await channel.say(text, address=address, sender=sender, direct=True, reply_to=Quote(platform_id=platform_id))


async def wait_for_shown_card(gateway: Gateway) -> tuple[str, str]:
    """Wait until a card of a request counts as delivered; the room and the platform's id of the newest."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            card = await gateway.store.read(_find_shown_card)
            if card is not None:
                return card
            await asyncio.sleep(0.02)


def _find_shown_card(db: Db) -> tuple[str, str] | None:
    row = db.row(
        "SELECT m.address, m.platform_id FROM request_cards c JOIN messages m ON m.id = c.message_id"
        " JOIN outbox o ON o.message_id = m.id WHERE c.open = 1 AND o.state = 'sent' ORDER BY m.id DESC LIMIT 1"
    )
    return (str(row[0]), str(row[1])) if row else None
