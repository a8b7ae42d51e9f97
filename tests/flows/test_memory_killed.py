"""What an agent remembers, while the gateway is killed at each step: nothing is lost, and nothing is there twice."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.clock import SystemClock
from gatepost.store.engine.readonly import read_snapshot
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.memory import memories, memory_vectors
from gatepost.store.memory.memories import Memory, MemoryFilter, MemoryTrust
from gatepost.store.money import reservations
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost_testing.agent_profiles import AGENTS, run_agent_gateway
from gatepost_testing.channel import FakeChannel
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.models import ModelEndpoint
from gatepost_testing.platform import Platform
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.storms import faults
from gatepost_testing.storms.faults import FaultPoint
from gatepost_testing.waiting import block_until

from .test_kills import ROOM, SETTINGS, a_place, an_owner, killed, no_more_in_flight, unaccounted

OWNER = "user/1"
STORE, TOOL = "gatepost.store.memory.memories", "gatepost.tools.memory"
TURNS = "gatepost.store.sessions.turns"
OPERATIONS = "gatepost.serve.control.operations.memory"
BINS, KEY = "The bins go out on Tuesday.", "The key is under the mat."
pytestmark = pytest.mark.slow


def list_live(daemon: DaemonProcess) -> list[Memory]:
    return read_snapshot(daemon.home / "gatepost.db", memories.list_chosen, MemoryFilter(limit=1000), 2**60)


def list_texts(daemon: DaemonProcess) -> list[str]:
    return sorted(each.text for each in list_live(daemon))


def check_index(daemon: DaemonProcess) -> None:
    """Every entry in force is found by its words, and no other."""

    def count(db: Db) -> int:
        row = db.row(
            "SELECT (SELECT COUNT(*) FROM memory_words w JOIN memories m ON m.id = w.memory_id"
            " WHERE m.ended_at IS NOT NULL) + (SELECT COUNT(*) FROM memories m WHERE m.ended_at IS NULL"
            " AND NOT EXISTS (SELECT 1 FROM memory_words w WHERE w.memory_id = m.id))"
        )
        assert row is not None
        return int(row[0])

    assert read_snapshot(daemon.home / "gatepost.db", count) == 0


# An agent remembers, corrects and forgets; people give commands.

AGENT = (
    ScriptBuilder()
    .turn("learn").call("remember", text=BINS).say("learnt")
    .turn("correct").call("remember", text=KEY, replaces=1).say("corrected")
    .turn("drop").call("forget", id=1).say("dropped")
)  # fmt: skip
SAID = [
    ("learn", "learnt", [BINS], f"{STORE}:add"),
    ("/remember " + BINS, "Remembered for this chat. /forget 1 drops it.", [BINS], f"{STORE}:add"),
    ("correct", "corrected", [KEY], f"{STORE}:replace"),
    ("drop", "dropped", [], f"{STORE}:end"),
    ("/forget 1", f"Forgotten: {BINS}", [], f"{STORE}:end"),
]
STEPS = [
    *((*each, when) for each in SAID for when in ("before", "after")),
    *(("learn", "learnt", [BINS], target, when) for target in (f"{TOOL}:_make_entry", f"{TURNS}:finish")
      for when in ("before", "after")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "answer", "expected", "target", "when"),
    STEPS,
    ids=[f"{each[0].split()[0]}-{each[4]}-{each[3].rpartition(':')[2]}" for each in STEPS],
)
def test_what_is_said_is_remembered_or_forgotten_once_wherever_the_daemon_is_killed(
    said: str, answer: str, expected: list[str], target: str, when: str, tmp_path: Path
) -> None:
    with a_place(tmp_path, AGENT) as (platform, daemon):
        daemon.start()
        an_owner(daemon)
        if expected != [BINS]:
            platform.say(ROOM, "/remember " + BINS, sender=OWNER)
            platform.wait_for(lambda record: bool(record))
        daemon.stop()
        before = len(platform.texts())
        happened = faults.into_daemon(daemon.home, FaultPoint(target, when, match=""))
        daemon.start()
        platform.say(ROOM, said, sender=OWNER)
        killed(daemon, happened, FaultPoint(target, when))
        assert platform.wait_for(lambda record: answer in [each.text for each in record[before:]]), daemon.stderr()[
            -3000:
        ]
        no_more_in_flight(daemon)
        assert list_texts(daemon) == expected
        assert platform.texts()[before:].count(answer) == 1
        check_index(daemon)
        assert unaccounted(daemon) == 0


# The operator's commands, each made again after the kill.

TEXTS = [f"fact {number}" for number in range(250)]


def fill(db: Db, now: int) -> None:
    """A poisoned week: many entries of strangers, one of them in the place of what was known."""
    good = memories.add(db, make_entry(KEY, now - 10**12))
    lost = memories.add(db, make_entry(BINS, now - 10**12))
    memories.end(db, [lost.id], "agent:home", now, MemoryTrust.STRANGER)
    memories.replace(db, good, make_entry("The key is eve's.", now, replaces=good.id), "agent:home")
    for number in range(250):
        memories.add(db, make_entry(f"poison {number}", now))


def make_entry(text: str, now: int, **more: Any) -> Memory:
    trust = MemoryTrust.MEMBER if text in (KEY, BINS) else MemoryTrust.STRANGER
    return Memory(folder="home", text=text, scope=memories.MemoryScope.AGENT, trust=trust, created_at=now, **more)


COMMANDS = [
    (("undo", "--since", "1h", "--from-untrusted"), f"{STORE}:undo", (1, 2, 3), sorted([KEY, BINS])),
    (("undo", "--since", "1h", "--from-untrusted"), f"{STORE}:restore", (4,), sorted([KEY, BINS])),
    (("import", "home", "{file}"), f"{STORE}:add", (1, 101, 250), TEXTS),
    (("edit", "1", KEY), f"{STORE}:replace", (1,), [KEY]),
    (("forget", "1"), f"{STORE}:end", (1,), []),
    (("restore", "1"), f"{STORE}:restore", (1,), [BINS]),
    (("sync", "home", "--yes"), f"{OPERATIONS}:_apply_changes", (1, 2, 3), sorted([KEY, "new"])),
    (("sync", "home", "--yes"), f"{OPERATIONS}:write_view", (1,), sorted([KEY, "new"])),
    (("sync", "home", "--yes"), "gatepost.store.memory.memory_views:put", (1,), sorted([KEY, "new"])),
]
CALLS = [
    (command, FaultPoint(target, when, nth=nth), expected)
    for command, target, numbers, expected in COMMANDS
    for nth in numbers
    for when in ("before", "after")
]


@pytest.mark.parametrize(
    ("command", "fault", "expected"), CALLS, ids=[f"{each[0][0]}-{each[1]}".replace(" ", "-") for each in CALLS]
)
def test_a_command_of_the_operator_comes_to_the_same_after_a_kill_as_without_one(
    command: tuple[str, ...], fault: FaultPoint, expected: list[str], tmp_path: Path
) -> None:
    with a_place(tmp_path, AGENT) as (_, daemon):
        file = tmp_path / "facts.json"
        file.write_text(json.dumps(TEXTS))
        args = ("memory", *(str(file) if each == "{file}" else each for each in command))
        daemon.start()
        if command[0] not in ("undo", "import"):
            assert daemon.gatepost("memory", "add", "home", BINS).returncode == 0
        if command[0] == "sync":
            change_file(daemon)
        if command[0] == "restore":
            assert daemon.gatepost("memory", "forget", "1").returncode == 0
        daemon.stop()
        if command[0] == "undo":
            write_store(daemon, fill)
        happened = faults.into_daemon(daemon.home, fault)
        daemon.start()
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(daemon.gatepost, *args)
            killed(daemon, happened, fault)
            running.result()
        (daemon.home / "plugins" / "tools" / "fault.py").unlink()
        again = daemon.gatepost(*args)
        if command[0] in ("undo", "import", "sync"):  # the others say that it is done already, if it is
            assert again.returncode == 0, again.stderr
        assert sorted(list_texts(daemon)) == sorted(expected)
        check_index(daemon)


def change_file(daemon: DaemonProcess) -> None:
    """A line is added, one is changed and one is taken out of MEMORY.md."""
    assert daemon.gatepost("memory", "add", "home", "gone").returncode == 0
    assert daemon.gatepost("memory", "sync", "home").returncode == 0
    file = daemon.home / "groups" / "home" / "MEMORY.md"
    lines = [line for line in file.read_text().replace(BINS, KEY).splitlines() if "gone" not in line]
    file.write_text("\n".join([*lines, "- new", ""]))


def write_store(daemon: DaemonProcess, fn: Callable[[Db, int], None]) -> None:
    async def write() -> None:
        store = SqliteStore(daemon.home / "gatepost.db", readers=1)
        await store.write(fn, SystemClock().now())
        store.close()

    asyncio.run(write())


# A conversation is compacted, and its facts are kept.

FACT = "The colour of door 1 is red"
COMPACTION = [
    *(FaultPoint(f"{STORE}:add_fact", when) for when in ("before", "after")),
    *(FaultPoint(f"{TOOL}:_keep_fact", when) for when in ("before", "after")),
    FaultPoint("gatepost.flow.sessions.compaction:finish_turn", "before"),
    FaultPoint("gatepost.flow.sessions.compaction:finish_turn", "after"),
]


@asynccontextmanager
async def model_place(tmp_path: Path) -> AsyncIterator[tuple[Platform, DaemonProcess]]:
    """A daemon whose agent is a model behind an API."""
    agent, home = AGENTS["openai"], tmp_path / "h"
    script = {"tools": True, "side": "SUMMARY\n# FACTS", "side_lines": FACT, "default": [{"say": "I see."}]}
    async with ModelEndpoint(script) as endpoint:
        async with run_agent_gateway(agent, home, FakeChannel(), endpoint, sandbox="process") as gateway:
            await gateway.store.write(users.add, f"lossy:{OWNER}", "Ann", 1)
            await gateway.store.write(users.add_role, f"lossy:{OWNER}", users.UserRole.OWNER, "", "test", 1)
        with Platform(tmp_path / "platform.sock") as platform:
            platform.plug_into(home)
            daemon = DaemonProcess(home, sessions_provider="openai", openai_base_url=endpoint.openai, **SETTINGS)
            try:
                yield platform, daemon
            finally:
                await asyncio.to_thread(daemon.stop)


@pytest.mark.parametrize("fault", COMPACTION, ids=str)
async def test_the_facts_of_a_compaction_are_kept_once_wherever_the_daemon_is_killed(
    fault: FaultPoint, tmp_path: Path
) -> None:
    def run(platform: Platform, daemon: DaemonProcess) -> None:
        happened = faults.into_daemon(daemon.home, fault)
        daemon.start()
        platform.say(ROOM, FACT, sender=OWNER)
        platform.wait_for(lambda record: bool(record))
        platform.say(ROOM, "/compact", sender=OWNER)
        killed(daemon, happened, fault)
        no_more_in_flight(daemon)
        platform.say(ROOM, "and now?", sender=OWNER)
        assert platform.wait_for(lambda record: platform.texts().count("I see.") == 2), daemon.stderr()[-3000:]
        no_more_in_flight(daemon)
        block_until(lambda: list_texts(daemon) == [FACT], "the fact")
        assert unaccounted(daemon) == 0

    async with model_place(tmp_path) as (platform, daemon):
        await asyncio.to_thread(run, platform, daemon)


# Meanings are made in the background, and paid for.

VECTORS, MEANINGS = "gatepost.store.memory.memory_vectors", "gatepost.flow.memory.meanings"
BACKGROUND = [
    FaultPoint(target, when, nth=3 if target.endswith("list_unread") else 1)
    for target in (
        f"{VECTORS}:list_unread",
        f"{VECTORS}:put",
        "gatepost.egress.embeddings:request_embeddings",
        "gatepost.store.money.reservations:settle",
        f"{MEANINGS}:MemoryMeanings._read_entries",
    )
    for when in ("before", "after")
]


@pytest.mark.parametrize("fault", BACKGROUND, ids=str)
async def test_every_entry_gets_its_vector_once_wherever_the_daemon_is_killed(
    fault: FaultPoint, tmp_path: Path
) -> None:
    def count(db: Db) -> tuple[int, int]:
        return memory_vectors.count(db, "text-embedding-3-small")

    def run(url: str) -> None:
        with a_place(tmp_path, AGENT, embeddings_base_url=url, embeddings_price="0.02") as (_, daemon):
            daemon.start()
            assert daemon.gatepost("memory", "add", "home", BINS).returncode == 0
            block_until(lambda: read_snapshot(daemon.home / "gatepost.db", count) == (1, 1), "the first vector")
            daemon.stop()
            happened = faults.into_daemon(daemon.home, fault)
            daemon.start()
            write_store(daemon, add_some)  # it looks for them by itself
            killed(daemon, happened, fault)
            block_until(lambda: read_snapshot(daemon.home / "gatepost.db", count) == (41, 41), "all vectors")
            assert daemon.gatepost("memory", "forget", "1").returncode == 0
            assert read_snapshot(daemon.home / "gatepost.db", count_left) == 0
            block_until(
                lambda: read_snapshot(daemon.home / "gatepost.db", reservations.sum_reserved) == 0, "the reservations"
            )

    async with ModelEndpoint() as endpoint:
        await asyncio.to_thread(run, endpoint.openai)


def add_some(db: Db, now: int) -> None:
    for number in range(40):
        memories.add(db, make_entry(f"fact {number}", now))


def count_left(db: Db) -> int:
    """Vectors of what was forgotten."""
    row = db.row(
        "SELECT COUNT(*) FROM memory_vectors v JOIN memories m ON m.id = v.memory_id WHERE m.ended_at IS NOT NULL"
    )
    assert row is not None
    return int(row[0])
