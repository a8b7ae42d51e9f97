"""An answer that grows in a room of one gateway, while the agent that writes it runs on another."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gatepost.flow.delivery.growing_messages import STOPPED_MARK
from gatepost.messages.outbound import Op
from gatepost.store.messages import messages
from gatepost_testing.empty_database import EmptyDatabase
from gatepost_testing.gateway import wait_until_settled
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.servers.postgres import PACKAGE, find_programs

from .test_gateways_commands import BOSS, ROOM, Pair, running_pair
from .test_growing_answers import FIRST, SAID, SCRIPT, SECOND, list_ops

pytestmark = pytest.mark.skipif(
    find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"
)


@pytest.fixture
async def pair(tmp_path: Path, emptied: EmptyDatabase) -> AsyncIterator[Pair]:
    async with running_pair(tmp_path, emptied.url, drafts=True) as made:
        yield made


def go_on(pair: Pair, name: str) -> None:
    (pair.b.home.group("home") / name).touch()


@pytest.mark.slow
async def test_it_grows_by_edits_of_one_message_and_becomes_the_answer(pair: Pair) -> None:
    SCRIPT.write(pair.b.home.group("home")).chmod(0o644)
    await pair.channel.say("play", address=ROOM, sender=BOSS)
    await pair.channel.wait_for(1)
    assert len(pair.b.sessions.awake) == 1 and pair.a.sessions.awake == []
    go_on(pair, "more")
    await pair.channel.wait_for(2)
    go_on(pair, "go")
    await pair.channel.wait_for(3)
    account = await wait_until_settled(pair.a)
    assert account.unaccounted == 0
    assert list_ops(pair.channel) == [(Op.SEND, FIRST), (Op.EDIT, SECOND), (Op.EDIT, SAID)]
    shown = pair.channel.sent[0].platform_id
    rows = await pair.a.store.read(messages.list_in_room, "fake", ROOM, 0, 100)
    assert [each.text for each in rows if each.platform_id == shown] == [SAID]


@pytest.mark.alone
async def test_it_stays_and_is_marked_when_its_turn_is_stopped_on_the_gateway_that_shows_it(pair: Pair) -> None:
    script = ScriptBuilder().turn("play").draft(FIRST).hang()
    script.write(pair.b.home.group("home")).chmod(0o644)
    await pair.channel.say("play", address=ROOM, sender=BOSS)
    await pair.channel.wait_for(1)
    assert list_ops(pair.channel) == [(Op.SEND, FIRST)]
    shown = pair.channel.sent[0].platform_id
    await pair.channel.say("/stop", address=ROOM, sender=BOSS)
    await pair.channel.wait_for(lambda sent: any(each.message.target == shown for each in sent))
    account = await wait_until_settled(pair.a)
    assert account.unaccounted == 0
    changes = [each.message for each in pair.channel.sent if each.message.target == shown]
    assert [(each.op, each.text) for each in changes] == [(Op.EDIT, f"{FIRST}\n\n{STOPPED_MARK}")]
