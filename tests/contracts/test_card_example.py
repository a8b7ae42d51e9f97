"""The channel with cards in docs/extend/channel.md, exactly as it is printed there, in a running gateway."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gatepost.channels.contract import CHANNELS, ChannelDeps, ChannelKind
from gatepost.core import registry
from gatepost.core.clock import SystemClock
from gatepost.core.settings import SETTINGS, Config
from gatepost.flow import grant_changes
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rooms import direct_rooms
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.waiting import PATIENCE_S

EXAMPLE = Path(__file__).parents[2] / "docs" / "extend" / "examples" / "board.py"
ANN, OFFICE = "board:user/ann", "board:office"


@pytest.fixture
def kind(tmp_path: Path) -> Iterator[ChannelKind]:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "board.py").write_text(EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
    registry.load_folder(plugins, "channels")
    kind = CHANNELS["board"]
    yield kind
    CHANNELS.drop("board")
    for setting in kind.settings:
        SETTINGS.drop(setting.name)


def settle_ann(db: Db, now: int) -> None:
    users.add(db, ANN, "Ann", now)
    users.add_role(db, ANN, UserRole.OWNER, "", "test", now)
    direct_rooms.add(db, ANN, "board", OFFICE, now)
    grant_changes.add_rule(db, "home", "hold send", "test", now)


async def find(office: Path, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first file on the board that this holds of, once there is one."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            for path in sorted((office / "out").glob("*.json")):
                if wanted(shown := json.loads(path.read_text(encoding="utf-8"))):
                    return dict(shown)
            await asyncio.sleep(0.01)  # nobody rings for a file


def press(office: Path, number: int, button: str) -> None:
    part = office / "clicks" / f"ann.{number}.part"
    part.write_text(button)
    part.rename(office / "clicks" / f"ann.{number}.txt")


async def test_a_card_is_shown_and_a_click_on_it_decides(kind: ChannelKind, tmp_path: Path) -> None:
    office = tmp_path / "board" / "office"
    for name in ("out", "clicks"):
        (office / name).mkdir(parents=True)
    values = {"channels.board.folder": str(office.parent), "channels.board.look_s": 0.01}
    board = kind.make(ChannelDeps(instance="board", config=Config(values), clock=SystemClock()))
    fake = FakeChannel()
    async with running_gateway(tmp_path / "h", {"fake": (fake.kind, fake), "board": (kind, board)}) as gateway:
        await open_room(gateway, "fake", "fake:room/1")
        await gateway.store.write(settle_ann, gateway.clock.now())
        gateway.events.tools()
        script = ScriptBuilder().turn("go").call("send", text="the plan").say("asked")
        script.write(gateway.home.group("home")).chmod(0o644)
        await fake.say("go")

        card = await find(office, lambda shown: bool(shown.get("buttons")))
        assert card["fields"]["text"] == "the plan"
        button = next(each for each, label in card["buttons"].items() if label == "Allow once")
        press(office, 1, "made-up:0")
        assert await find(office, lambda shown: "not known any more" in shown["text"])
        press(office, 2, button)

        decided = await find(office, lambda shown: bool(shown.get("done")))
        assert (decided["done"], decided["buttons"]) == ("Allowed by Ann.", {})
        await fake.wait_for(lambda sent: any(each.message.text == "the plan" for each in sent))
        await wait_until_settled(gateway)
