"""First starts on a database: of a store that was copied into it, whose groups lie in one home; with folders that are
shared; and what a start refuses."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.core.errors import SetupError, Unavailable
from gatepost.flow.gateways.duties import channel_duty
from gatepost.flow.gateways.group_place import MARK
from gatepost.http_apps import make_operation_deps
from gatepost.serve.control.contract import OPERATIONS
from gatepost.store.engine.open_store import copy_store_rows
from gatepost.store.engine.place import StorePlace
from gatepost.store.gateways import group_places
from gatepost_testing.channel import FakeChannel
from gatepost_testing.empty_database import EmptyDatabase
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.servers.postgres import PACKAGE, PostgresServer, find_programs
from gatepost_testing.waiting import until

pytestmark = pytest.mark.skipif(
    find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"
)
ROOM = "fake:room/1"


def make_settings(url: str, name: str, **more: Any) -> dict[str, Any]:
    return {"store__url": url, "store__unsafe": True, "gateway__name": name, **more}


async def ask(gateway: Gateway, name: str, **given: Any) -> Any:
    return await OPERATIONS[name](make_operation_deps(gateway), given)


@pytest.fixture
def copied_to() -> Iterator[str]:
    """A database without tables."""
    with PostgresServer() as server:
        yield server.add_database("copied")


async def answer_on_sqlite(path: Path) -> None:
    """A home as it is before its store is copied: its agent has spoken, and has files."""
    channel = FakeChannel()
    async with running_gateway(path, {"fake": (channel.kind, channel)}) as gateway:
        ScriptBuilder().otherwise().say("a: {text}").write(gateway.home.group("home"))
        await ask(gateway, "group.add", folder="acme")
        await open_room(gateway, "fake", ROOM)
        await channel.say("one", address=ROOM)
        await channel.wait_for(1)
        await wait_until_settled(gateway)


@pytest.mark.slow
async def test_after_a_copy_groups_are_run_by_the_gateway_that_has_their_files(tmp_path: Path, copied_to: str) -> None:
    await answer_on_sqlite(tmp_path / "a")
    store = tmp_path / "a" / "gatepost.db"
    copy_store_rows(StorePlace(store), StorePlace(store, copied_to), lambda table: None)
    one, other = FakeChannel(), FakeChannel()
    async with running_gateway(tmp_path / "b", {"fake": (other.kind, other)}, **make_settings(copied_to, "b")) as b:
        await until(lambda: b.duties.holds(channel_duty("fake")), "the second gateway to listen")
        await other.say("two", address=ROOM, platform_id="second")
        assert await b.store.read(group_places.list_all) == {}
        with pytest.raises(Unavailable, match="no gateway has its files"):
            await ask(b, "group.add", folder="acme/eng")
        async with running_gateway(tmp_path / "a", {"fake": (one.kind, one)}, **make_settings(copied_to, "a")) as a:
            await other.wait_for(1)
            assert other.texts(ROOM) == ["a: two"]
            assert await a.store.read(group_places.list_all) == {"acme": "a", "home": "a", "root": "a"}
        assert list(b.home.groups.iterdir()) == []


async def test_a_gateway_with_shared_folders_and_one_without_do_not_run_together(
    tmp_path: Path, emptied: EmptyDatabase
) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    shared = {"groups__place": "shared", "groups__shared_folder": str(folder), "sandbox__kind": "auto"}
    async with running_gateway(tmp_path / "a", **make_settings(emptied.url, "a")):
        with pytest.raises(
            SetupError, match=r"gateway 'a' has its folders in another .*groups\.place = \"local\" here"
        ):
            async with running_gateway(tmp_path / "b", **make_settings(emptied.url, "b", **shared)):
                raise AssertionError("it has started")
        assert list(folder.iterdir()) == []
    with pytest.raises(SetupError, match=r"the files of home, root are in .*`cp -a groups sessions"):
        async with running_gateway(tmp_path / "a", **make_settings(emptied.url, "a", **shared)):
            raise AssertionError("it has started")
    assert list(folder.iterdir()) == []
    shutil.copytree(tmp_path / "a" / "groups", folder / "groups", symlinks=True)
    async with running_gateway(tmp_path / "a", **make_settings(emptied.url, "a", **shared)) as a:
        assert (a.home.shared, (folder / MARK).is_file(), (folder / "sessions").is_dir()) == (folder, True, True)
