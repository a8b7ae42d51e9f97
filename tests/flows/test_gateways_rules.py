"""Rules that are changed on one gateway hold on the other from the next call and the next message on, also while
nothing of each other is heard."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from gatepost.flow import grant_changes
from gatepost.gate.dispatch import INVALID_PARAMS
from gatepost.store.port import Db
from gatepost.store.rights import acl
from gatepost.store.rooms import rooms
from gatepost.store.sessions import groups, sessions
from gatepost.tools.call import Caller
from gatepost_testing.empty_database import EmptyDatabase
from gatepost_testing.servers.postgres import PACKAGE, find_programs

from .test_gateways_commands import ROOM, Pair, running_pair

pytestmark = pytest.mark.skipif(
    find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"
)
FOLDER, RULE, TRIES = "home", "!send", 1000
DEAF = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name LIKE '% notices'"
)


@pytest.fixture
async def pair(tmp_path: Path, emptied: EmptyDatabase) -> AsyncIterator[Pair]:
    async with running_pair(tmp_path, emptied.url) as made:
        yield made


@pytest.mark.alone
async def test_a_grant_that_is_revoked_on_one_is_refused_on_the_other(
    pair: Pair, figures: Callable[[str], None]
) -> None:
    """The connections that hear of changes are ended again and again."""
    a, b = pair.a, pair.b
    assert await a.store.read(groups.get, FOLDER) is not None
    session = await b.store.write(sessions.find_or_add, "shared", FOLDER, "fake", ROOM, "", b.clock.now())
    caller = Caller(FOLDER, session.id, "scripted")

    async def is_refused(number: int) -> bool:
        answer = await b.dispatch.call(caller, "send", b'{"text": "hi"}', f"call-{number}")
        return answer.code == INVALID_PARAMS

    wrong = 0
    for number in range(TRIES):
        if number % 50 == 0:
            await a.store.write(lambda db: db.rows(DEAF))
        await a.store.write(grant_changes.add_rule, FOLDER, RULE, "operator", 1, durable=False)
        wrong += not await is_refused(2 * number)
        await a.store.write(acl.remove_rule, FOLDER, RULE, durable=False)
        wrong += number % 10 == 0 and await is_refused(2 * number + 1)
    figures(f"rules: {TRIES} revoked on one gateway and tried on the other, {wrong} judged by an old rule")
    assert wrong == 0


def list_admitted(db: Db) -> list[str]:
    rows = db.rows(
        "SELECT m.text FROM inbox i JOIN messages m ON m.id = i.message_id"
        " WHERE m.sender = 'fake:user/x' AND i.state <> 'refused' ORDER BY m.id"
    )
    return [row[0] for row in rows]


@pytest.mark.alone
async def test_a_room_that_is_closed_on_one_is_closed_on_the_other(pair: Pair) -> None:
    """By whoever listens there: the intake keeps rules between messages."""
    tries = 50
    for number in range(tries):
        if number % 10 == 0:
            await pair.b.store.write(lambda db: db.rows(DEAF))
        await pair.b.store.write(rooms.set_policy, "fake", ROOM, "public")
        await pair.channel.say(f"open {number}", address=ROOM, sender="fake:user/x")
        await pair.b.store.write(rooms.set_policy, "fake", ROOM, "strict")
        await pair.channel.say(f"closed {number}", address=ROOM, sender="fake:user/x")
    assert await pair.a.store.read(list_admitted) == [f"open {number}" for number in range(tries)]
