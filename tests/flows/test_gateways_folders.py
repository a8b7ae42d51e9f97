"""Two gateways on one database, each with folders of its own: what somebody wants of a group's folder on one of them is
done by the other, which has it; what cannot be passed on is refused with the place where it can be done."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gatepost.app import Gateway
from gatepost.core.errors import Invalid, NotFound, Refused, Unavailable
from gatepost.core.records import replace
from gatepost.flow.gateways.folder_check import FolderElsewhere
from gatepost.http_apps import make_operation_deps, serve_gateways
from gatepost.serve.control.arguments.agents import AgentSpec
from gatepost.serve.control.contract import OPERATIONS
from gatepost.serve.control.operations.group_moves import find_lost_source
from gatepost.store.gateways import gateways, group_moves, group_places
from gatepost.store.gateways.gateways import GatewayState
from gatepost.store.people import newcomers
from gatepost.store.people.newcomers import NewcomerState, NewNewcomer
from gatepost.store.port import Db
from gatepost.store.rights import audit
from gatepost.store.sessions import sessions, worktrees
from gatepost.store.sessions.sessions import SessionMode
from gatepost.tools.call import Caller
from gatepost_testing.channel import FakeChannel
from gatepost_testing.empty_database import EmptyDatabase
from gatepost_testing.gateway import running_gateway
from gatepost_testing.servers.postgres import PACKAGE, find_programs

pytestmark = pytest.mark.skipif(
    find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"
)
FILE = "AGENTS.md"


class Pair(NamedTuple):
    """`acme` lies on `b`."""

    a: Gateway
    b: Gateway

    async def ask(self, gateway: Gateway, name: str, /, caller: str = "", **given: Any) -> Any:
        deps = make_operation_deps(gateway)
        return await OPERATIONS[name](replace(deps, caller=caller) if caller else deps, given)


@pytest.fixture
async def pair(tmp_path: Path, emptied: EmptyDatabase) -> AsyncIterator[Pair]:
    shared: dict[str, Any] = {"store__url": emptied.url, "store__unsafe": True}
    one, other = FakeChannel(), FakeChannel()
    async with (
        running_gateway(tmp_path / "a", {"fake": (one.kind, one)}, gateway__name="a", **shared) as a,
        running_gateway(tmp_path / "b", {"fake": (other.kind, other)}, gateway__name="b", **shared) as b,
    ):
        made = Pair(a, b)
        for each in made:
            serve_gateways(each)
        await made.ask(b, "group.add", folder="acme")
        yield made


def read(gateway: Gateway, path: str = FILE, folder: str = "acme") -> str:
    return (gateway.home.group(folder) / path).read_text()


@pytest.mark.slow
async def test_a_file_is_read_and_written_where_the_agent_sees_it(pair: Pair) -> None:
    stale = pair.a.home.group("acme")
    stale.mkdir()
    (stale / FILE).write_text("an old copy")
    found = await pair.ask(pair.a, "group.read_file", folder="acme", path=FILE)
    assert found["text"] == read(pair.b)
    done = await pair.ask(
        pair.a, "group.write_file", folder="acme", path=FILE, content="# Neu ü\n", version=found["version"]
    )
    assert (read(pair.b), read(pair.a)) == ("# Neu ü\n", "an old copy")
    assert (await pair.ask(pair.b, "group.read_file", folder="acme", path=FILE))["version"] == done["version"]
    skill = {"path": "skills/release/SKILL.md", "content": "how"}
    await pair.ask(pair.a, "group.write_file", folder="acme", **skill)
    paths = {each["path"] for each in await pair.ask(pair.a, "group.files", folder="acme")}
    assert {FILE, skill["path"]} <= paths
    assert (await pair.a.store.read(audit.list_latest, 1))[0][3] == "group.write_file"
    row = await pair.a.store.read(lambda db: db.row("SELECT COUNT(*) FROM commands"))
    assert row is not None and row[0] <= 1  # the last may not be removed yet


@pytest.mark.slow
async def test_what_the_other_gateway_refuses_is_refused_with_its_words(pair: Pair) -> None:
    with pytest.raises(Invalid, match="is there already; read it first") as refused:
        await pair.ask(pair.a, "group.write_file", folder="acme", path=FILE, content="x")
    assert refused.value.target == "version"
    with pytest.raises(NotFound, match=r"skills/none\.md"):
        await pair.ask(pair.a, "group.read_file", folder="acme", path="skills/none.md")
    with pytest.raises(Refused, match=r"it needs op:groups\.write there"):
        await pair.ask(pair.a, "group.write_file", caller="web:user/ada", folder="acme", path=FILE, content="x")


@pytest.mark.slow
async def test_a_group_is_made_and_removed_where_its_world_is(pair: Pair) -> None:
    made = await pair.ask(pair.a, "group.add", folder="acme/eng", name="Eng")
    assert made["name"] == "Eng" and "Eng" in read(pair.b, folder="acme/eng")
    assert not pair.a.home.group("acme").exists()
    gone = await pair.ask(pair.a, "group.rm", folder="acme/eng")
    assert gone["kept"] == str(pair.b.home.group("acme/eng"))
    await pair.ask(pair.a, "group.add", folder="own")
    assert await pair.a.store.read(group_places.find_gateway, "own") == "a" and read(pair.a, folder="own")


@pytest.mark.slow
async def test_where_the_gateway_is_away_nothing_is_written_and_it_is_named(pair: Pair) -> None:
    await pair.a.store.write(lambda db: db.run("UPDATE group_places SET gateway = 'far' WHERE world = 'acme'"))
    for name, more in (("group.read_file", {}), ("group.write_file", {"content": "x"})):
        with pytest.raises(Unavailable, match="gateway far is unavailable: it is away"):
            await pair.ask(pair.a, name, folder="acme", path=FILE, **more)
    alone = replace(make_operation_deps(pair.a), pass_on=None)  # as a command while the gateway is down
    with pytest.raises(FolderElsewhere, match="are on gateway 'far'; run this there, or `gatepost group move acme a`"):
        await OPERATIONS["group.read_file"](alone, {"folder": "acme", "path": FILE})
    gone = await pair.ask(pair.a, "group.rm", folder="acme")
    assert gone["kept"] == "groups/acme of gateway far"


async def test_nothing_is_written_to_a_folder_that_moves(pair: Pair) -> None:
    before = read(pair.b)
    await pair.a.store.write(lambda db: db.run("UPDATE group_places SET moving = 1 WHERE world = 'acme'"))
    version = (await pair.ask(pair.a, "group.read_file", folder="acme", path=FILE))["version"]
    for asked in pair:
        with pytest.raises(Unavailable, match="it moves to another gateway"):
            await pair.ask(asked, "group.write_file", folder="acme", path=FILE, content="x", version=version)
        with pytest.raises(Unavailable, match="it moves to another gateway"):
            await pair.ask(asked, "group.add", folder="acme/eng")
    assert read(pair.b) == before and not pair.b.home.group("acme/eng").exists()


@pytest.mark.slow
async def test_pages_of_a_group_are_listed_by_the_gateway_that_has_them(pair: Pair) -> None:
    (pair.b.home.group("acme") / "public_html").mkdir()
    here, there = await pair.ask(pair.b, "site.list"), await pair.ask(pair.a, "site.list")
    assert [each["folder"] for each in here["sites"]] == ["acme"] and "acme" not in here["elsewhere"]
    assert there["sites"] == [] and there["elsewhere"] == ["acme"]


@pytest.mark.slow
async def test_a_worktree_is_made_where_the_group_is_and_by_no_other(pair: Pair, tmp_path: Path) -> None:
    with pytest.raises(FolderElsewhere, match="run this there"):
        await pair.ask(pair.a, "worktree.create", source=str(tmp_path), name="x", folder="acme")
    await pair.a.store.write(worktrees.claim_name, "p", "x", "acme", "/src", "", 1)
    await pair.a.worktrees.recover()  # of another's that is being made
    assert [each.name for each in await pair.a.worktrees.every()] == ["p/x"]
    await pair.b.worktrees.recover()
    assert await pair.a.worktrees.every() == []


@pytest.mark.slow
async def test_an_agent_of_a_group_elsewhere_is_made_without_a_folder_here(pair: Pair, tmp_path: Path) -> None:
    spec = AgentSpec(folder="acme", title="one", provider="scripted")
    made = await pair.a.agents.create(spec, "operator")
    session = await pair.a.store.read(sessions.get, made.agent_id)
    assert session is not None and session.folder == "acme" and not pair.a.home.group("acme").exists()
    wish = AgentSpec(folder="acme", title="two", provider="scripted", worktree="x", base="main", cwd=str(tmp_path))
    with pytest.raises(FolderElsewhere, match="run this there"):
        await pair.a.agents.create(wish, "operator")


def admit(db: Db, now: int) -> None:
    new = NewNewcomer(
        sender="fake:user/ann",
        instance="fake",
        address="fake:room/1",
        parent="acme",
        name="Ann",
        state=NewcomerState.ADMITTED,
        admitted_at=now,
        decided_by="operator",
    )
    assert newcomers.add(db, new, now) is not None


@pytest.mark.slow
async def test_a_newcomer_gets_her_group_from_the_gateway_that_has_its_parent(pair: Pair) -> None:
    await pair.a.store.write(admit, pair.a.clock.now())
    for each in pair:
        await each.newcomers.settle_all()
    (settled,) = await pair.a.store.read(newcomers.list_all)
    assert settled.state is NewcomerState.SETTLED, settled.reason
    assert read(pair.b, folder=settled.folder) and not pair.a.home.group("acme").exists()


@pytest.mark.slow
async def test_a_client_of_a_group_is_told_that_its_folder_is_elsewhere(pair: Pair) -> None:
    """One that comes over HTTP may come to any gateway."""
    ann = Caller("acme")
    for tool, given in (("get_work", b"{}"), ("set_work", b'{"content": "mine"}')):
        there = await pair.a.dispatch.call(ann, tool, given, f"a-{tool}")
        assert there.failed and "the files of acme are on gateway 'b'" in there.text
        here = await pair.b.dispatch.call(ann, tool, given, f"b-{tool}")
        assert not here.failed, here.text
    assert read(pair.b, "work.md") == "mine" and not pair.a.home.group("acme").exists()


def add_session(db: Db, now: int) -> str:
    return sessions.find_or_add(db, SessionMode.SHARED, "acme", "fake", "fake:room/1", "", now).id


@pytest.mark.slow
async def test_a_conversation_is_forked_where_its_files_are(pair: Pair) -> None:
    session_id = await pair.a.store.write(add_session, pair.a.clock.now())
    made = await pair.ask(pair.a, "session.fork", id=session_id, topic="other")
    child = await pair.a.store.read(sessions.get, made["session_id"])
    assert child is not None and child.folder == "acme"
    done = await pair.a.store.read(lambda db: db.rows("SELECT gateway FROM audit WHERE action = 'session.fork'"))
    assert done == [("b",)]


@pytest.mark.slow
async def test_a_move_from_a_gateway_that_is_gone_is_refused(pair: Pair) -> None:
    def leave(db: Db) -> None:
        row = gateways.get(db, "b")
        assert row is not None
        gateways.set_state(db, "b", row.epoch, GatewayState.GONE)

    await pair.a.store.write(leave)
    with pytest.raises(Invalid, match="b is away, and the files of acme are there; start it first"):
        await pair.ask(pair.a, "group.move", folder="acme", gateway="a")
    assert await pair.a.store.read(group_moves.find_open, "acme") is None


def add_dead(db: Db, name: str) -> int:
    """One whose lease is over; its epoch."""
    new = gateways.GatewayIdentity(name=name, home=name, host="h", version="1", schema_number=1)
    return gateways.register(db, new, 10, 1, 1)


def add_gone(db: Db, name: str) -> None:
    gateways.set_state(db, name, add_dead(db, name), GatewayState.GONE)


def find_source_of_dead(db: Db, now: int) -> None:
    """In one transaction, which leaves nothing: those that run take over from it at once."""
    add_dead(db, "far")
    find_lost_source(db, "acme", "a", now)


def find_source_of_packed(db: Db, now: int) -> None:
    db.run("UPDATE group_moves SET target = 'b'")
    find_lost_source(db, "acme", "a", now)


async def move_without_files(pair: Pair, asked: Gateway, target: str) -> Any:
    return await pair.ask(asked, "group.move", folder="acme/eng", gateway=target, without_files=True)


@pytest.mark.slow
async def test_a_world_is_moved_without_its_files_by_its_target_alone_once_its_gateway_is_gone(pair: Pair) -> None:
    await pair.ask(pair.b, "group.add", folder="acme/eng", name="Eng")
    with pytest.raises(Invalid, match="b runs and has the files of acme; move it with them"):
        await move_without_files(pair, pair.a, "a")
    with pytest.raises(NotFound, match="gateway"):
        await move_without_files(pair, pair.a, "c")
    await pair.a.store.write(lambda db: db.run("UPDATE group_places SET gateway = 'far' WHERE world = 'acme'"))
    with pytest.raises(Invalid, match="nobody has taken over from far yet"):
        await pair.a.store.write(find_source_of_dead, pair.a.clock.now())
    await pair.a.store.write(add_gone, "far")
    alone = replace(make_operation_deps(pair.b), pass_on=None)  # as a command while the gateway is down
    with pytest.raises(FolderElsewhere, match="a has to make the folder of acme itself; start the gateway of this"):
        await OPERATIONS["group.move"](alone, {"folder": "acme", "gateway": "a", "without_files": True})
    assert not pair.a.home.group("acme").exists()

    done = await move_without_files(pair, pair.b, "a")

    assert (done["source"], done["target"], done["state"]) == ("far", "a", "done")
    assert "Eng" in read(pair.a, folder="acme/eng") and read(pair.a)
    assert await pair.a.store.read(group_places.find_gateway, "acme") == "a"
    rows = await pair.a.store.read(lambda db: db.rows("SELECT gateway, details FROM audit WHERE action = 'group.move'"))
    assert [row[0] for row in rows] == ["a"] and '"without_files":true' in rows[0][1].replace(" ", "")
    with pytest.raises(Invalid, match="acme is on a already"):
        await move_without_files(pair, pair.a, "a")


@pytest.mark.slow
async def test_files_that_are_on_their_way_are_not_given_up(pair: Pair) -> None:
    await pair.ask(pair.b, "group.add", folder="acme/eng")
    await pair.a.store.write(add_gone, "far")
    move = await pair.a.store.write(group_moves.add, "acme", "far", "elsewhere", 1)
    await pair.a.store.write(lambda db: db.run("UPDATE group_places SET gateway = 'far' WHERE world = 'acme'"))
    await pair.a.store.write(group_moves.set_packed, move, [], 1, 1, "x")
    with pytest.raises(Invalid, match="the files of acme are on their way to b; `gatepost group move acme b` waits"):
        await pair.a.store.write(find_source_of_packed, pair.a.clock.now())
    assert (await move_without_files(pair, pair.a, "a"))["state"] == "done"
    ended = await pair.a.store.read(group_moves.get, move.id)
    assert ended is not None and ended.note == "it was moved without its files"
    assert await pair.a.store.read(group_places.find_runner, "acme") == "a"
