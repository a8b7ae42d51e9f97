"""The channel in docs/extend/channel.md, exactly as it is printed there, dropped into a plug-in folder and run."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gatepost.channels.contract import CHANNELS, Channel, ChannelDeps, ChannelKind, Receive, SupportsLookup
from gatepost.core import registry
from gatepost.core.clock import SystemClock
from gatepost.core.errors import NotFound
from gatepost.core.settings import SETTINGS, Config
from gatepost.messages.inbound import Inbound, Receipt
from gatepost.messages.outbound import Outbound
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost_testing.outbox_harness import OutboxHarness
from gatepost_testing.waiting import PATIENCE_S

EXAMPLE = Path(__file__).parents[2] / "docs" / "extend" / "examples" / "spool.py"
KEY = "turn/1/1"


@pytest.fixture
def kind(tmp_path: Path) -> Iterator[ChannelKind]:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "spool.py").write_text(EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
    registry.load_folder(plugins, "channels")
    kind = CHANNELS["spool"]
    yield kind
    CHANNELS.drop("spool")
    for setting in kind.settings:
        SETTINGS.drop(setting.name)


@pytest.fixture
def office(tmp_path: Path) -> Path:
    for name in ("in", "out"):
        (tmp_path / "spool" / "office" / name).mkdir(parents=True)
    return tmp_path / "spool" / "office"


@pytest.fixture
def channel(kind: ChannelKind, office: Path) -> Channel:
    values = {"channels.spool.folder": str(office.parent), "channels.spool.look_s": 0.01}
    return kind.make(ChannelDeps(instance="spool", config=Config(values), clock=SystemClock()))


class Spooled:
    """The documented channel, with its kind beside it."""

    def __init__(self, channel: Channel, kind: ChannelKind) -> None:
        self._channel, self.kind = channel, kind

    async def listen(self, receive: Receive) -> None:
        await self._channel.listen(receive)

    async def send(self, address: str, message: Outbound) -> str:
        return await self._channel.send(address, message)


@pytest.fixture
async def heard(channel: Channel) -> AsyncIterator["asyncio.Queue[Inbound]"]:
    heard: asyncio.Queue[Inbound] = asyncio.Queue()

    async def receive(inbound: Inbound) -> Receipt:
        heard.put_nowait(inbound)
        return Receipt(message_id=1, new=True, state="queued")

    task = asyncio.create_task(channel.listen(receive))
    yield heard
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_file_is_a_message_and_is_gone_once_it_is_durable(
    heard: "asyncio.Queue[Inbound]", office: Path
) -> None:
    path = office / "in" / "ann.7.part"
    path.write_text("hello")
    path.rename(office / "in" / "ann.7.txt")

    inbound = await asyncio.wait_for(heard.get(), PATIENCE_S)

    assert (inbound.address, inbound.platform_id, inbound.sender) == ("spool:office", "ann.7.txt", "spool:user/ann")
    async with asyncio.timeout(PATIENCE_S):
        while list((office / "in").iterdir()):  # noqa: ASYNC110  nobody rings for a file
            await asyncio.sleep(0.005)


async def test_an_answer_is_a_file_and_one_key_is_one_file(channel: Channel, office: Path) -> None:
    assert isinstance(channel, SupportsLookup)
    assert await channel.look_up("spool:office", KEY) is None
    for _ in range(2):
        name = await channel.send("spool:office", Outbound(key=KEY, text="hi"))

    assert [path.read_text() for path in (office / "out").iterdir()] == ["hi"]
    assert await channel.look_up("spool:office", KEY) == name


@pytest.mark.parametrize("address", ["spool:elsewhere", "spool:..", "spool:../office", "spool:/etc"])
async def test_an_address_that_leaves_the_folder_is_not_a_room(channel: Channel, office: Path, address: str) -> None:
    with pytest.raises(NotFound):
        await channel.send(address, Outbound(key=KEY, text="hi"))


async def test_the_pump_delivers_through_it(
    store: SqliteStore, channel: Channel, kind: ChannelKind, office: Path
) -> None:
    post = OutboxHarness(store, {"spool": Spooled(channel, kind)})
    async with post.running():
        await post.say("k", "hi there", instance="spool", address="spool:office")
        row = await post.ended("k")

    assert row.state == "sent"
    assert [path.read_text() for path in (office / "out").iterdir()] == ["hi there"]
