"""How much an agent may send: holes count, calls at once do not pass together, and a refusal names the limit."""

import asyncio
import os
from pathlib import Path

import pytest

from gatepost.core.clock import DAY, SECOND
from gatepost.core.registry import load_package
from gatepost.flow.delivery.outgoing_messages import GROUP_MB, TURN_MB
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import inbox, sent_files
from gatepost.store.messages.sent_files import NewSentFiles
from gatepost.store.port import Db
from gatepost.store.sessions import turns
from gatepost_testing.clock import FixedClock
from gatepost_testing.gate_agent import ROOM, GateAgent

load_package("gatepost.tools")
MB = 1024 * 1024


def sparse(agent: GateAgent, name: str, size: int) -> str:
    """A file that takes no room inside."""
    path = agent.deps.home.group(agent.caller.folder) / name
    with path.open("wb") as file:
        os.truncate(file.fileno(), size)
    return name


def copied(agent: GateAgent) -> int:
    out = agent.deps.home.media / "out"
    return sum(path.stat().st_blocks * 512 for path in out.rglob("*") if path.is_file())


async def end_turn(agent: GateAgent) -> None:
    def finish(db: Db) -> None:
        turn, now = turns.find_open(db, agent.session.id), agent.deps.clock.now()
        assert turn is not None
        turns.begin(db, turn.id, turn.epoch, tuple(entry.id for entry, _ in inbox.list_for_turn(db, turn.id)), now)
        assert turns.finish(db, turn.id, turn.epoch, "{}", now)

    await agent.store.write(finish)


@pytest.mark.slow
async def test_stranger_07_a_sparse_file_sent_ten_times_is_refused_at_the_turns_limit(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store)
    big = sparse(agent, "big.bin", 90 * MB)
    answers = [await agent.call("send_file", filepath=big) for _ in range(10)]

    assert [answer.failed for answer in answers] == [False] * 2 + [True] * 8
    assert "files of at most 200 MB are sent in one turn (files.turn_mb); 180.0 MB were" in answers[-1].text
    assert copied(agent) <= config_mb(TURN_MB.default)


def config_mb(number: int) -> int:
    return (number + 1) * MB


@pytest.mark.slow
async def test_stranger_07_files_sent_at_once_do_not_pass_the_limit_together(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store)
    big = sparse(agent, "big.bin", 90 * MB)
    answers = await asyncio.gather(*(agent.call("send_file", filepath=big) for _ in range(6)))

    assert sorted(answer.failed for answer in answers) == [False] * 2 + [True] * 4
    assert copied(agent) <= config_mb(TURN_MB.default)


async def test_stranger_07_a_group_has_a_limit_for_the_day_whatever_its_turns(
    tmp_path: Path, store: SqliteStore
) -> None:
    clock = FixedClock()
    agent = await GateAgent.create(tmp_path, store, clock=clock)
    sent = NewSentFiles(
        key="before", folder="acme/eng", session_id="another", turn_id="t-0", bytes=(GROUP_MB.default - 3) * MB
    )
    await store.write(sent_files.put, sent, clock.now())
    name = sparse(agent, "a.bin", 2 * MB)
    assert not (await agent.call("send_file", filepath=name)).failed
    refused = await agent.call("send_file", filepath=name)
    assert refused.failed and "files of at most 1000 MB are sent of a group within 24 hours" in refused.text

    clock.advance(DAY / SECOND + 1)
    assert not (await agent.call("send_file", filepath=name)).failed


@pytest.mark.slow
async def test_between_two_turns_the_same_limit_holds(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store)
    await end_turn(agent)
    big = sparse(agent, "big.bin", 90 * MB)
    answers = [await agent.call("send_file", filepath=big, chatJid=ROOM) for _ in range(3)]
    assert [answer.failed for answer in answers] == [False, False, True]


async def test_what_was_not_sent_does_not_count(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store)
    name = sparse(agent, "a.bin", MB)
    assert (await agent.call("send_file", filepath=name, replyToId="nobody wrote this")).failed
    assert (await agent.call("send_file", filepath="missing.bin")).failed
    (agent.deps.home.group(agent.caller.folder) / "link").symlink_to("a.bin")
    assert (await agent.call("send_file", filepath="link")).failed
    assert (await agent.call("send_file", filepath=sparse(agent, "huge.bin", 101 * MB))).failed
    folder, lane = agent.caller.folder, agent.caller.lane  # what was set aside is given back in its own lane
    used = await store.write(sent_files.count_group_bytes, folder, agent.deps.clock.now(), lane=lane)

    assert used == 0 and copied(agent) == 0


async def test_a_call_that_is_made_again_counts_once(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store)
    name = sparse(agent, "a.bin", MB)
    for _ in range(2):
        await agent.call("send_file", "same", filepath=name)
    assert await store.write(sent_files.count_group_bytes, agent.caller.folder, agent.deps.clock.now()) <= MB


@pytest.mark.slow
async def test_stranger_new_a_call_made_again_frees_no_allowance_and_leaves_no_second_copy(
    tmp_path: Path, store: SqliteStore
) -> None:
    """An agent that gives up its call when the row is written makes it again, with the same key and another file."""
    agent = await GateAgent.create(tmp_path, store)
    turn = await agent.store.read(turns.find_open, agent.session.id)
    assert turn is not None
    for size in (90 * MB, 80 * MB, 1):
        answer = await agent.call("send_file", call_id="the-same", filepath=sparse(agent, "big.bin", size))
        assert not answer.failed
    assert await agent.store.read(sent_files.count_turn_bytes, agent.session.id, turn.id) == 90 * MB
    assert len([each for each in (agent.deps.home.media / "out").rglob("*") if each.is_file()]) == 1
