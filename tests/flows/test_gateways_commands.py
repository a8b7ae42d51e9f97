"""Two gateways on one database: what somebody orders on one is done by the other, which runs the sandbox."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gatepost.app import Gateway
from gatepost.channels.local_channel import LocalChannel, RoomWatch
from gatepost.http_apps import make_operation_deps
from gatepost.messages.inbound import Inbound
from gatepost.serve.control.contract import OPERATIONS
from gatepost.store.gateways import commands
from gatepost.store.messages.outbox import EffectState
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import waiting_requests
from gatepost.store.rooms import direct_rooms
from gatepost.store.sessions import groups
from gatepost_testing.channel import FakeChannel
from gatepost_testing.empty_database import EmptyDatabase
from gatepost_testing.gateway import open_room, reply_to_card, running_gateway, wait_until_settled
from gatepost_testing.platforms.telegram import TelegramPlatform
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.servers.postgres import PACKAGE, find_programs
from gatepost_testing.storms.cluster import Cluster
from gatepost_testing.storms.storm import prepare, render_settings
from gatepost_testing.waiting import PATIENCE_S, block_until

from .channel_desk import SETTINGS

pytestmark = pytest.mark.skipif(
    find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"
)

ROOM, BOSS, DIRECT = "fake:room/1", "fake:user/boss", "fake:direct/boss"


class Pair:
    """`a` listens and sends, and has no place for a sandbox; `b` runs them all."""

    def __init__(self, a: Gateway, b: Gateway, channel: FakeChannel) -> None:
        self.a, self.b, self.channel = a, b, channel

    async def wait(self, until: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not until():  # noqa: ASYNC110  nobody rings for it
                await asyncio.sleep(0.005)

    async def begin_turn(self) -> None:
        await self.channel.say("hang", address=ROOM, sender=BOSS)
        await self.channel.wait_for(1)
        assert len(self.b.sessions.awake) == 1 and self.a.sessions.awake == []


@asynccontextmanager
async def running_pair(path: Path, url: str, *, drafts: bool = False) -> AsyncIterator[Pair]:
    """`drafts`: answers grow while they are written."""
    channel, other = FakeChannel(), FakeChannel()
    kinds = {each: replace(each.kind, drafts=drafts) for each in (channel, other)}
    shared: dict[str, Any] = {"store__url": url, "store__unsafe": True}
    async with (
        running_gateway(
            path / "a", {"fake": (kinds[channel], channel)}, gateway__name="a", sessions__most_awake=0, **shared
        ) as a,
        running_gateway(path / "b", {"fake": (kinds[other], other)}, gateway__name="b", **shared) as b,
    ):
        await a.store.write(settle_people, a.clock.now())
        await open_room(a, "fake", ROOM)
        yield Pair(a, b, channel)


def settle_people(db: Db, now: int) -> None:
    db.run("UPDATE group_places SET gateway = 'b'")  # the folder lies where sandboxes are
    users.add(db, BOSS, "Ada", now)
    users.add_role(db, BOSS, UserRole.OWNER, "", "test", now)
    direct_rooms.add(db, BOSS, "fake", DIRECT, now)


@pytest.fixture
async def pair(tmp_path: Path, emptied: EmptyDatabase) -> AsyncIterator[Pair]:
    async with running_pair(tmp_path, emptied.url) as made:
        ScriptBuilder().turn(when="hang").say("so far").hang().write(made.b.home.group("home"))
        yield made


async def test_a_stop_in_the_chat_ends_the_sandbox_elsewhere(pair: Pair, figures: Callable[[str], None]) -> None:
    await pair.begin_turn()
    begun = time.monotonic()
    await pair.channel.say("/stop", address=ROOM, sender=BOSS)
    await pair.wait(lambda: not pair.b.sessions.awake)
    figures(f"/stop on another gateway: its sandbox had ended after {time.monotonic() - begun:.2f} s")
    await pair.channel.wait_for(2)
    account = await wait_until_settled(pair.a)
    assert account.unaccounted == 0


@pytest.mark.slow
async def test_a_panic_ends_everything_everywhere_and_its_end_is_heard_too(
    pair: Pair, figures: Callable[[str], None]
) -> None:
    await pair.begin_turn()
    begun = time.monotonic()
    on = await OPERATIONS["panic.on"](make_operation_deps(pair.a), {"reason": "x"})
    await pair.wait(lambda: not pair.b.sessions.awake)
    figures(f"a panic on another gateway: its sandbox had ended after {time.monotonic() - begun:.2f} s")
    assert on["ended"] == 1
    assert pair.b.sessions.halted
    await OPERATIONS["panic.off"](make_operation_deps(pair.a), {})
    assert not pair.b.sessions.halted
    await pair.channel.say("hello", address=ROOM, sender=BOSS)
    await pair.channel.wait_for(lambda sent: sent[-1].message.text == "echo: hello")


@pytest.mark.slow
async def test_a_panic_of_which_nothing_was_heard_is_found(pair: Pair) -> None:
    await pair.begin_turn()

    async def ask_nobody(kind: object) -> list[object]:
        return []

    assert pair.a.commands is not None
    pair.a.commands.add_for_others = ask_nobody  # type: ignore[method-assign,assignment]
    await OPERATIONS["panic.on"](make_operation_deps(pair.a), {})
    await pair.wait(lambda: pair.b.sessions.halted and not pair.b.sessions.awake)


@pytest.mark.slow
async def test_an_agent_is_stopped_and_changed_from_the_other_gateway(pair: Pair) -> None:
    await pair.begin_turn()
    (live,) = pair.b.sessions.awake
    deps = make_operation_deps(pair.a)
    assert deps.stop_session is not None and deps.renew_session is not None
    assert await deps.stop_session(live.session.id, "Ann")
    await pair.wait(lambda: not pair.b.sessions.awake)
    assert not await deps.stop_session(live.session.id, "Ann")
    await pair.channel.say("hello", address=ROOM, sender=BOSS)
    await pair.channel.wait_for(lambda sent: sent[-1].message.text == "echo: hello")
    await wait_until_settled(pair.a)
    (rests,) = pair.b.sessions.awake
    deps.renew_session(rests.session.id)
    await pair.wait(lambda: rests.gone.is_set())
    assert not await pair.a.store.read(commands.has_waiting, "b")


@pytest.mark.slow
async def test_a_permission_that_is_given_on_one_gateway_reaches_the_agent_on_the_other(pair: Pair) -> None:
    ask = {"ask": {"permission": "Bash", "input": {"command": "make cake"}}}
    script = {"turns": [{"when": "may I", "do": [ask, {"say": "they said {answer}"}]}]}
    (pair.b.home.group("home") / "script.json").write_text(json.dumps(script))
    await pair.a.store.write(groups.update, "home", {"options": {"mode": "default"}})
    await pair.channel.say("may I", address=ROOM, sender=BOSS)
    await pair.channel.wait_for(lambda sent: any("asks to use" in each.message.text for each in sent))
    await reply_to_card(pair.a, pair.channel, "allow once", sender=BOSS)
    await pair.channel.wait_for(lambda sent: any(each.message.text == "they said allow" for each in sent))
    assert await pair.a.store.read(waiting_requests.list_pending) == []


def has_sent(db: Db, room: str) -> bool:
    return db.row("SELECT 1 FROM outbox WHERE address = ? AND state = ?", (room, EffectState.SENT)) is not None


@pytest.mark.slow
async def test_what_the_agent_of_one_gateway_says_is_shown_by_both(pair: Pair) -> None:
    hubs: list[LocalChannel] = [each.get_local_channel("terminal") for each in (pair.a, pair.b)]
    room = hubs[0].main_room

    async def wait_for_answer(watch: RoomWatch) -> None:
        """As a page does: look when it is rung."""
        while not await pair.a.store.read(has_sent, room):
            assert await watch.wait(PATIENCE_S, pair.a.stopping), "nobody rang"

    with hubs[0].watch(room) as on_a, hubs[1].watch(room) as on_b:
        new = Inbound(address=room, platform_id="k1", sender=hubs[0].owner, text="hello")
        receipt = await hubs[0].submit(new)
        assert receipt.state == "queued", receipt
        async with asyncio.timeout(2 * PATIENCE_S):
            await asyncio.gather(*(wait_for_answer(each) for each in (on_a, on_b)))
    assert pair.a.sessions.awake == []


@pytest.mark.alone
def test_of_two_daemons_one_stops_what_the_other_runs(tmp_path: Path, figures: Callable[[str], None]) -> None:
    script = ScriptBuilder().turn(when="hang").say("so far").hang()
    with (
        TelegramPlatform() as platform,
        Cluster(tmp_path, ("a", "b"), render_settings(platform), **SETTINGS) as cluster,
    ):
        prepare(cluster, platform)
        for daemon in cluster.daemons.values():
            daemon.start()
            script.write(daemon.home / "groups" / "home").chmod(0o644)

        def find_owner() -> str:
            rows = cluster.query("SELECT owner FROM sessions WHERE owner <> ''")
            return rows[0][0] if rows else ""

        def count_said() -> int:
            with platform.changed:
                return sum("so far" in each.text for each in platform.record)

        for number, order in enumerate((("stop", "--all"), ("panic",)), start=1):
            platform.send("hang", room="direct:ann", sender="ann")
            assert platform.wait_for(lambda wanted=number: count_said() == wanted, 2 * PATIENCE_S)
            owner = find_owner()
            other = next(name for name in cluster.daemons if name != owner)
            begun = time.monotonic()
            done = cluster[other].gatepost(*order)
            assert done.returncode == 0, done.stderr
            block_until(lambda: not find_owner(), "the sandbox of the other gateway to end")
            figures(
                f"`gatepost {order[0]}` on one daemon: the other's sandbox was gone {time.monotonic() - begun:.1f} s"
            )
        assert cluster.first.json("ledger", "check")["unaccounted"] == 0
