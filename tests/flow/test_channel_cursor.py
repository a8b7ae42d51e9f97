"""What a channel keeps, and two gateways that add to it at the same time. Each of them has a store of its own, on one
database."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import Struct

from gatepost.channels.contract import ChannelCursor, ChannelDeps
from gatepost.channels.github.adapter import ASKED, GitHubComments
from gatepost.channels.slack.rooms import ROOMS, SlackMissedMessages
from gatepost.channels.teams.session import SERVICES, TeamsSession
from gatepost.channels.whatsapp import wire
from gatepost.channels.whatsapp.adapter import REPORTS, WhatsAppCloud
from gatepost.core.clock import SystemClock
from gatepost.core.settings import Config
from gatepost.flow.channel_supervisor import StoreCursor
from gatepost.store.port import Store

if TYPE_CHECKING:
    from gatepost_testing.empty_database import EmptyDatabase

COUNT = 40  # that each of them adds
NAMES = ("a", "b")
INSTANCE = "it"


def make_cursor(store: Store) -> StoreCursor:
    return StoreCursor(store, SystemClock(), INSTANCE, lambda: 0)


class CursorPair(Struct, frozen=True):
    """Those of two gateways, by their names."""

    cursors: dict[str, StoreCursor]

    def deps(self, name: str, **settings: Any) -> ChannelDeps:
        return ChannelDeps(instance=INSTANCE, config=Config(settings), clock=SystemClock(), cursor=self.cursors[name])

    async def load(self, name: str) -> Any:
        loaded = [await each.load(name) for each in self.cursors.values()]
        assert loaded[0] == loaded[1]
        return json.loads(loaded[0])


@pytest.fixture
async def pair(emptied: "EmptyDatabase") -> AsyncIterator[CursorPair]:
    from gatepost.store.postgres.postgres_store import PostgresStore

    stores = [PostgresStore(emptied.url, lanes=2) for _ in NAMES]
    yield CursorPair(dict(zip(NAMES, map(make_cursor, stores), strict=True)))
    for each in stores:
        each.close()


async def test_an_update_gets_what_was_saved_and_saves_what_it_makes_of_it(store: Store) -> None:
    cursor = make_cursor(store)
    assert await cursor.update(lambda saved: saved + "a", "rooms") == "a"
    assert await cursor.update(lambda saved: saved + "b", "rooms", durable=True) == "ab"
    assert await cursor.update(lambda saved: saved, "rooms") == "ab"
    assert await cursor.load("rooms") == "ab"
    assert await cursor.load() == ""


async def test_an_update_sees_a_save_that_was_not_waited_for_and_leaves_what_was_acknowledged(store: Store) -> None:
    cursor = make_cursor(store)
    await cursor.save("5", acknowledged=True)
    await cursor.save("6")
    assert await cursor.update(lambda saved: str(int(saved) + 1)) == "7"
    row = await store.read(lambda db: db.row("SELECT received, acknowledged FROM channel_cursors"))
    assert row == ("7", "5")


async def test_a_change_that_fails_leaves_what_was_there(store: Store) -> None:
    cursor = make_cursor(store)
    await cursor.save("no number", durable=True)
    with pytest.raises(ValueError, match="no number"):
        await cursor.update(lambda saved: str(int(saved)))
    assert await cursor.load() == "no number"


async def test_two_gateways_add_to_one_cursor_and_lose_nothing(pair: CursorPair) -> None:
    async def add(cursor: ChannelCursor, name: str) -> None:
        for number in range(COUNT):
            await cursor.update(lambda saved, new=f"{name}{number}": json.dumps([*json.loads(saved or "[]"), new]))

    await asyncio.gather(*(add(cursor, name) for name, cursor in pair.cursors.items()))
    assert sorted(await pair.load("")) == sorted(f"{name}{number}" for name in NAMES for number in range(COUNT))


async def test_service_addresses_that_teams_tells_two_gateways_are_all_kept(pair: CursorPair) -> None:
    sessions = {name: TeamsSession(pair.deps(name)) for name in NAMES}
    await asyncio.gather(
        *(
            session.record_service(f"{name}{number}", "https://smba.example/")
            for name, session in sessions.items()
            for number in range(COUNT)
        )
    )
    assert len(await pair.load(SERVICES)) == len(NAMES) * COUNT


async def test_a_room_of_teams_that_moved_is_answered_at_the_address_that_another_gateway_was_told(
    pair: CursorPair,
) -> None:
    near, far = "https://near.example/", "https://far.example/"
    sends, hears = (TeamsSession(pair.deps(name, **{"channels.teams.service_urls": [near, far]})) for name in NAMES)
    for told in (near, far, near):
        await hears.record_service("room", told)
        assert await sends._get_service("room") == told


async def test_reports_of_whatsapp_that_come_to_two_gateways_are_all_kept(pair: CursorPair) -> None:
    channels = {name: WhatsAppCloud(pair.deps(name)) for name in NAMES}
    keys = [f"{name}{number}" for name in NAMES for number in range(COUNT)]
    for key in keys:
        await channels["a"]._attempts.begin(key)

    async def report(name: str) -> None:
        for number in range(COUNT):
            key = f"{name}{number}"
            await channels[name]._record_statuses([wire.MessageStatus(f"wamid.{key}", has_failed=False, key=key)])

    await asyncio.gather(*map(report, NAMES))
    assert await pair.load(REPORTS) == {key: f"wamid.{key}" for key in keys}


async def test_rooms_of_slack_that_two_gateways_hear_are_all_kept_each_with_its_latest_message(
    pair: CursorPair,
) -> None:
    missed = {name: SlackMissedMessages(cursor, ignore, shared=True) for name, cursor in pair.cursors.items()}

    async def hear(name: str) -> None:
        for number in range(COUNT):
            await missed[name].record(f"C{name.upper()}{number:08}", f"17000{number:05}.000100")
            await missed[name].record("C00000BOTH", f"17000{number:05}.{'000100' if name == 'a' else '000200'}")

    await asyncio.gather(*map(hear, NAMES))
    kept = await pair.load(ROOMS)
    assert len(kept) == len(NAMES) * COUNT + 1
    assert kept["C00000BOTH"] == f"17000{COUNT - 1:05}.000200"


async def ignore(message: dict[str, Any], channel: str) -> None:
    raise AssertionError(f"nothing was missed, but {channel} has {message}")


async def test_of_two_gateways_one_asks_github_in_a_round(pair: CursorPair) -> None:
    channels = [GitHubComments(pair.deps(name)) for name in NAMES]
    for _ in range(COUNT):
        asked = await asyncio.gather(*(each._claim_round() for each in channels))
        assert sum(asked) == 1
        await pair.cursors["a"].save("0", ASKED, durable=True)  # the round is over


async def test_two_gateways_that_ask_github_never_go_back(pair: CursorPair) -> None:
    channels = {name: GitHubComments(pair.deps(name)) for name in NAMES}
    begun = datetime(2026, 1, 1, tzinfo=UTC)
    moments = [f"{begun + timedelta(minutes=number):%Y-%m-%dT%H:%M:%SZ}" for number in range(COUNT)]
    await asyncio.gather(*(each._advance("issues", moments[5], first=True) for each in channels.values()))

    async def advance(name: str, seen: list[str]) -> None:
        for moment in seen:
            await channels[name]._advance("issues", moment)

    await asyncio.gather(advance("a", moments), advance("b", moments[:10]))
    assert await pair.cursors["a"].load("issues") == moments[-1]
