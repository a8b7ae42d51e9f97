"""A person is forgotten on one of two gateways, each with a home of its own: their files on the other one go, too."""

import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gatepost.app import Gateway
from gatepost.core.errors import Invalid, Unavailable
from gatepost.core.home import Home
from gatepost.flow.people.person_erasure import PersonErasure
from gatepost.flow.reports import NOT_LOOKED
from gatepost.flow.retention import SESSIONS
from gatepost.http_apps import make_operation_deps
from gatepost.serve.control.contract import OPERATIONS
from gatepost.store.gateways import gateways
from gatepost.store.gateways.gateways import GatewayState
from gatepost.store.port import Db
from gatepost.store.sessions import sessions
from gatepost_testing.channel import FakeChannel
from gatepost_testing.empty_database import EmptyDatabase
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.servers.postgres import PACKAGE, find_programs

pytestmark = pytest.mark.skipif(
    find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"
)
ROOM, ANN = "fake:room/1", "fake:user/annmarker"


class Pair(NamedTuple):
    """`a` listens, and `b` has the folder of the group that answers."""

    a: Gateway
    b: Gateway
    channel: FakeChannel

    async def forget(self, *, erase: bool) -> Any:
        return await OPERATIONS["user.forget"](make_operation_deps(self.a), {"id": ANN, "erase": erase})


@pytest.fixture
async def pair(tmp_path: Path, emptied: EmptyDatabase) -> AsyncIterator[Pair]:
    """Ann has written, and the agent has remembered it."""
    one, other = FakeChannel(), FakeChannel()
    shared: dict[str, Any] = {"store__url": emptied.url, "store__unsafe": True}
    async with (
        running_gateway(tmp_path / "a", {"fake": (one.kind, one)}, gateway__name="a", **shared) as a,
        running_gateway(tmp_path / "b", {"fake": (other.kind, other)}, gateway__name="b", **shared) as b,
    ):
        await a.store.write(lambda db: db.run("UPDATE group_places SET gateway = 'b'"))
        ScriptBuilder().otherwise().say("echo: {text}").write(b.home.group("home"))
        await open_room(a, "fake", ROOM)
        await one.say("hello", address=ROOM, sender=ANN)
        await one.wait_for(1)
        await wait_until_settled(a)
        (b.home.group("home") / "notes.md").write_text("annmarker likes tea")
        yield Pair(a, b, one)


def find_session(db: Db) -> str:
    return next(each.id for each in sessions.list_open(db, "home") if each.address == ROOM)


@pytest.mark.slow
async def test_what_another_gateway_has_of_her_is_erased_there_and_told(pair: Pair) -> None:
    folder = pair.b.home.session(await pair.a.store.read(find_session))
    assert folder.is_dir() and len(pair.b.sessions.awake) == 1
    looked = await pair.forget(erase=False)
    assert NOT_LOOKED in looked["left"] and folder.is_dir()
    done = await pair.forget(erase=True)
    assert not folder.exists() and pair.b.sessions.awake == []
    assert "On gateway b: Files of agents name them: groups/home/notes.md" in done["left"]
    left = await pair.a.store.read(lambda db: db.rows("SELECT arguments FROM commands WHERE kind = 'forget'"))
    assert [each for each in left if "annmarker" in each[0]] == []
    await pair.channel.say("again", address=ROOM, sender=ANN)
    await pair.channel.wait_for(lambda sent: sent[-1].message.text == "echo: again")


@pytest.mark.slow
async def test_nothing_is_erased_while_a_gateway_is_away_that_may_have_files_of_theirs(pair: Pair) -> None:
    def add_dead(db: Db) -> None:
        new = gateways.GatewayIdentity(name="far", home="far", host="h", version="1", schema_number=1)
        gateways.set_state(db, "far", gateways.register(db, new, 10, 1, 1), GatewayState.GONE)

    folder = pair.b.home.session(await pair.a.store.read(find_session))
    await pair.a.store.write(add_dead)
    with pytest.raises(
        Unavailable, match="gateway far is unavailable: it may have files of theirs; start it, or `gate"
    ):
        await pair.forget(erase=True)
    command = PersonErasure(Home(pair.a.home.path), pair.a.store, pair.a.clock)  # while the gateway is down
    with pytest.raises(Invalid, match="run this while all of them run"):
        await command.erase(ANN, "operator")
    assert folder.is_dir()
    assert (await pair.forget(erase=False))["counts"]["messages"] >= 1


async def test_each_gateway_removes_the_old_files_of_its_own_home(pair: Pair) -> None:
    session_id, now = await pair.a.store.read(find_session), pair.a.clock.now()
    folder = pair.b.home.session(session_id)
    await pair.b.sessions.end(session_id, "test")
    old = time.time() - 10_000 * 86_400
    await pair.a.store.write(sessions.close, session_id, now)
    await pair.a.store.write(lambda db: db.run("UPDATE sessions SET active_at = 1, closed_at = 1"))
    os.utime(folder, (old, old))
    assert pair.b.retention.before(SESSIONS) is not None
    assert (await pair.a.retention.sweep_files()).sessions == 0 and folder.is_dir()
    assert (await pair.b.retention.sweep_files()).sessions == 1 and not folder.exists()
