"""A tool call that a person allows on one gateway runs on the one that has the files of the group."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gatepost.flow import grant_changes
from gatepost.store.rights import waiting_requests
from gatepost_testing.empty_database import EmptyDatabase
from gatepost_testing.gateway import reply_to_card, wait_until_settled
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.servers.postgres import PACKAGE, find_programs

from .test_gateways_commands import BOSS, ROOM, Pair, running_pair

pytestmark = pytest.mark.skipif(
    find_programs() is None, reason=f"PostgreSQL is not installed: apt-get install {PACKAGE}"
)


@pytest.fixture
async def pair(tmp_path: Path, emptied: EmptyDatabase) -> AsyncIterator[Pair]:
    async with running_pair(tmp_path, emptied.url) as made:
        yield made


async def test_a_file_of_the_other_gateway_is_sent_once_it_is_allowed(pair: Pair) -> None:
    folder = pair.b.home.group("home")
    ScriptBuilder().turn("go").call("send_file", filepath="report.txt").say("asked").write(folder).chmod(0o644)
    (folder / "report.txt").write_text("all is well")
    await pair.a.store.write(grant_changes.add_rule, "home", "hold send_file", "test", pair.a.clock.now())
    for each in (pair.a, pair.b):
        each.events.tools()
    await pair.channel.say("go", address=ROOM, sender=BOSS)
    await pair.channel.wait_for(lambda sent: any("wants to send" in each.message.text for each in sent))
    assert pair.a.duties.holds("requests") and not pair.b.duties.holds("requests")
    await reply_to_card(pair.a, pair.channel, "1", sender=BOSS)
    await pair.channel.wait_for(lambda sent: any(each.message.files for each in sent))
    account = await wait_until_settled(pair.a)
    assert account.unaccounted == 0
    files = [file.name for each in pair.channel.sent for file in each.message.files]
    assert files == ["report.txt"]
    assert await pair.a.store.read(waiting_requests.list_pending) == []
