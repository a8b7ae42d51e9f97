"""Whole ways in a store that has been used for long: no statement of them reads more because a room is old."""

import asyncio
import importlib.util
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import apsw
import pytest

from gatepost.core.clock import DAY
from gatepost.flow.retention import Retention
from gatepost.store.engine.migrate import migrate
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.schedule import retention
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.channel import FakeChannel
from gatepost_testing.clock import FixedClock
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.provider import ScriptBuilder

AGE = 5_000  # messages; what reads them all takes 20,000 steps
ROOM = "fake:room/1"


def _bench(name: str) -> ModuleType:
    path = Path(__file__).parents[2] / "bench" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Counted:
    """The steps of SQLite's machine that each statement of this process takes, at most."""

    def __init__(self) -> None:
        self.most: defaultdict[str, int] = defaultdict(int)

    def watch(self, connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._note)

    def _note(self, event: dict[str, Any]) -> None:
        sql = event["sql"]
        # As many rows as calls were made; at the close; at the start, which has a bound of its own.
        if sql.startswith(("INSERT INTO audit", "ANALYZE", "PRAGMA quick_check")):
            return
        self.most[sql] = max(self.most[sql], event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])


@contextmanager
def counting() -> Iterator[Counted]:
    counted = Counted()
    apsw.connection_hooks.append(counted.watch)
    try:
        yield counted
    finally:
        apsw.connection_hooks.remove(counted.watch)


async def _reply_and_stop(home: Path) -> Counted:
    """A start, a cold reply, warm ones with a tool, one that quotes, a stop, and a sandbox that is woken again."""
    channel = FakeChannel()
    with counting() as counted:
        async with running_gateway(home, {"fake": (channel.kind, channel)}) as gateway:
            await open_room(gateway, "fake", ROOM)
            for text in ("one", "two", "answer", "/stop", "three"):
                number = len(channel.sent)
                await channel.say(text, address=ROOM, platform_id=f"{text} {time.time_ns()}")
                await channel.wait_for(number + 1)
            (live,) = gateway.sessions.awake
            await gateway.sessions.end(live.session.id, "the test wants it woken again")
            await channel.say("four", address=ROOM, platform_id=f"four {time.time_ns()}")
            await channel.wait_for(number + 2)
    return counted


@pytest.mark.slow
@pytest.mark.parametrize("analyzed", [pytest.param(False, marks=pytest.mark.slow), True])
async def test_stranger_23_no_statement_of_a_reply_reads_more_in_an_old_room(tmp_path: Path, analyzed: bool) -> None:
    ScriptBuilder().turn(when="answer").call("reply", text="by a tool").write(tmp_path / "groups/home")
    young = await _reply_and_stop(tmp_path)
    connection = connect(tmp_path / "gatepost.db")
    (session,) = sessions.list_open(SqliteDb(connection))
    connection.execute("DELETE FROM messages")
    connection.execute("DELETE FROM turns")
    _bench("aged").age(connection, session, AGE // 2, 1_000_000)
    if analyzed:
        connection.execute("ANALYZE")
    connection.close()

    old = await _reply_and_stop(tmp_path)

    grown = {sql: (young.most[sql], steps) for sql, steps in old.most.items() if steps > 3 * young.most[sql] + 300}
    assert grown == {}


async def test_stranger_23_a_session_whose_mailbox_was_removed_wakes_with_its_conversation(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with running_gateway(tmp_path, {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        await channel.say("hello", address=ROOM)
        await channel.wait_for(1)
        await wait_until_settled(gateway)
        (live,) = gateway.sessions.awake
        later = FixedClock(gateway.clock.now() + 31 * DAY)
        sweeper = Retention(gateway.home, gateway.store, later, gateway.config, gateway.sessions.keep_asleep)
        assert (await sweeper.sweep()).sessions == 0  # it is awake
        await gateway.sessions.end(live.session.id, "the test wants it asleep")
        while gateway.sessions.awake:  # noqa: ASYNC110  nobody rings when it is forgotten
            await asyncio.sleep(0.005)
        conversation = await gateway.store.read(sessions.get_conversation, live.session.id, "scripted")
        assert (await sweeper.sweep()).sessions == 2

        await channel.say("hello", address=ROOM)
        await channel.wait_for(2)

        assert await gateway.store.read(sessions.get_conversation, live.session.id, "scripted") == conversation
        assert (await wait_until_settled(gateway)).unaccounted == 0


@pytest.mark.slow
def test_stranger_23_no_portion_of_a_sweep_reads_more_in_an_old_store(tmp_path: Path) -> None:
    steps: list[dict[str, int]] = []
    for pairs in (100, 2_000):
        path = tmp_path / f"{pairs}.db"
        migrate(path, FixedClock())
        with counting() as counted:
            connection = connect(path)
            db = SqliteDb(connection)
            groups.add(db, "home", "home", "scripted", 1)
            _bench("aged").age(
                connection, sessions.find_or_add(db, SessionMode.SHARED, "home", "fake", ROOM, "", 1), pairs, 1
            )
            counted.most.clear()
            for remove in (retention.remove_messages, retention.remove_steps):
                assert remove(db, 0, 2**60, 20).removed == 20
            assert retention.remove_turns(db, "", 2**60, 20).removed == 20
            retention.truncate_audit(db, 2**60, 2**60)
            assert retention.remove_truncated(db, 0, 20).removed == 20
            connection.close()
        steps.append(dict(counted.most))

    young, old = steps
    assert {sql: (young[sql], most) for sql, most in old.items() if most > 2 * young[sql] + 200} == {}
