"""Somebody is told: once when something is not well, once when it is over, on a channel that works.

The gateway and its channels are real. Alerts have a clock of their own, two hours behind, which a test moves.
"""

import shutil
from collections import namedtuple
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import BrowserContext, expect
from tests.browsers import needs_chromium

from gatepost.app import Gateway
from gatepost.channels.contract import ChannelState
from gatepost.core.clock import DAY, HOUR, SystemClock
from gatepost.core.errors import Unavailable
from gatepost.http_apps import make_operation_deps
from gatepost.serve.alerts import alert_loop
from gatepost.serve.alerts.alert_facts import AlertSources
from gatepost.serve.alerts.alert_loop import AlertLoop
from gatepost.serve.alerts.alert_messages import WaysToPeople, read_last_room
from gatepost.serve.backups.backup_folder import BackupProof, find_folder, keep_proof, make_name
from gatepost.serve.control.contract import OPERATIONS
from gatepost.store.gateways import alerts
from gatepost.store.messages import inbox, outbox
from gatepost.store.messages.inbox import InboxState
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import acl
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.rooms import direct_rooms
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.arrivals import add_arrival
from gatepost_testing.channel import FakeChannel, SendFault
from gatepost_testing.clock import FixedClock
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.gateway import open_room, running_gateway, start_channel, wait_for_channel
from gatepost_testing.storms.beacon import GOOD_TOKEN, BeaconPlatform, registered_beacon
from gatepost_testing.waiting import PATIENCE_S, block_until, until

from .dashboard_desk import open_desk

pytestmark = pytest.mark.anyio

BOSS, ADMIN, BEACON_ROOM = "fake:user/boss", "spare:user/admin", "beacon:room/1"
DIRECT, SPARE_ROOM = "fake:direct/boss", "spare:direct/admin"
LATE: dict[str, Any] = {"delivery__max_age_s": 86400.0}  # messages are made by a clock that is behind
DiskUsage = namedtuple("DiskUsage", "total used free")


@pytest.fixture(autouse=True)
def own_rounds_never_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test looks when it wants to."""
    monkeypatch.setattr(alert_loop, "LOOK_S", 3600.0)


@pytest.fixture
def platform() -> Iterator[BeaconPlatform]:
    with registered_beacon() as made:
        yield made


@pytest.fixture
def spare() -> FakeChannel:
    return FakeChannel(platform="spare")


class AlertDesk:
    """A gateway whose alerts look when the test says."""

    def __init__(self, gateway: Gateway, clock: FixedClock) -> None:
        self.gateway, self.clock = gateway, clock
        self.loop = self.start_loop()

    def start_loop(self) -> AlertLoop:
        """As another start of the gateway would: nothing is remembered but what is stored."""
        gateway = self.gateway
        sources = AlertSources(
            home=gateway.home,
            config=gateway.config,
            store=gateway.store,
            clock=self.clock,
            list_reports=gateway.supervisor.list_reports,
            list_findings=gateway.health.list_findings,
            list_store_troubles=gateway.store_watch.list_untold,
            looks_for_all=lambda: True,
        )
        self.way = WaysToPeople(gateway.channels, (), read_last_room(gateway.config))
        return AlertLoop(sources, gateway.events, self.way, gateway.store_watch.forget_notices)

    async def pass_time(self, seconds: int) -> None:
        """Look every ten seconds."""
        for _ in range(seconds // 10):
            self.clock.advance(10)
            await self.loop.check()

    async def list_open(self) -> list[tuple[str, str, bool]]:
        rows = await self.gateway.store.read(alerts.list_open)
        return [(each.condition, each.subject, each.told_at is not None) for each in rows]


def add_owner(db: Db, now: int) -> None:
    """Who was last seen on the beacon, before that on another channel."""
    users.add(db, BOSS, "Boss", now)
    users.add_role(db, BOSS, UserRole.OWNER, "", "test", now)
    direct_rooms.add(db, BOSS, "fake", DIRECT, now - 1)
    direct_rooms.add(db, BOSS, "north", BEACON_ROOM, now)


@asynccontextmanager
async def run_desk(path: Path, *channels: FakeChannel, beacon: bool = True, **given: Any) -> AsyncIterator[AlertDesk]:
    extra = {each.platform: (each.kind, each) for each in channels}
    async with running_gateway(path, extra, **LATE, **given) as gateway:
        await gateway.store.write(add_owner, gateway.clock.now())
        if beacon:
            await start_channel(gateway, "beacon", secrets={"token": GOOD_TOKEN}, instance="north")
            await open_room(gateway, "north", BEACON_ROOM)
            await wait_for_channel(gateway, "north", ChannelState.UP)
        for each in channels:
            await wait_for_channel(gateway, each.platform, ChannelState.UP)
        yield AlertDesk(gateway, FixedClock(SystemClock().now() - 2 * HOUR))


async def test_a_refused_key_is_told_once_on_the_owners_next_channel_and_once_when_it_is_over(
    tmp_path: Path, platform: BeaconPlatform, channel: FakeChannel
) -> None:
    async with run_desk(tmp_path / "h", channel) as desk:
        await desk.pass_time(60)
        assert await desk.list_open() == [] and not channel.texts(DIRECT)
        platform.tokens.clear()
        await wait_for_channel(desk.gateway, "north", ChannelState.ENDED)
        await desk.pass_time(120)
        await channel.wait_for(1)
        await desk.pass_time(150)
        assert await desk.list_open() == [("channel_refused", "north", True)]
        platform.tokens.add(GOOD_TOKEN)
        await desk.gateway.supervisor.restart("north")
        await wait_for_channel(desk.gateway, "north", ChannelState.UP)
        await desk.pass_time(120)
        await channel.wait_for(2)
        await desk.pass_time(150)
        assert await desk.list_open() == []
    assert channel.texts(DIRECT) == [
        "The platform of the channel north does not accept its key any more. Give it a new one under Channels.",
        "The channel north has a key that is accepted.",
    ]
    assert not platform.sent, "it was the deaf one"


async def test_a_channel_that_cannot_be_reached_is_told_of_and_a_short_break_is_not(
    tmp_path: Path, platform: BeaconPlatform, channel: FakeChannel
) -> None:
    async with run_desk(tmp_path / "h", channel) as desk:
        for reachable, seconds in ((False, 20), (True, 90)):
            platform.reachable = reachable
            state = ChannelState.UP if reachable else ChannelState.RETRYING
            await wait_for_channel(desk.gateway, "north", state)
            await desk.pass_time(seconds)
        assert not channel.texts(DIRECT)
        platform.reachable = False
        await wait_for_channel(desk.gateway, "north", ChannelState.RETRYING)
        await desk.pass_time(120)
        await channel.wait_for(1)
    assert channel.texts(DIRECT)[0].startswith("The channel north receives nothing.")


async def test_another_admin_is_told_where_no_channel_of_the_owner_works(
    tmp_path: Path, platform: BeaconPlatform, spare: FakeChannel
) -> None:
    def add_admin(db: Db, now: int) -> None:
        users.add(db, ADMIN, "Admin", now)
        users.add_role(db, ADMIN, UserRole.ADMIN, "", "test", now)
        direct_rooms.add(db, ADMIN, "spare", SPARE_ROOM, now)

    async with run_desk(tmp_path / "h", spare) as desk:
        await desk.gateway.store.write(add_admin, desk.gateway.clock.now())
        platform.tokens.clear()
        await wait_for_channel(desk.gateway, "north", ChannelState.ENDED)
        await desk.pass_time(120)
        assert not spare.sent, "an admin without the right to see alerts"
        await desk.gateway.store.write(allow_alerts)
        await desk.pass_time(30)
        await spare.wait_for(1)
    assert [each.address for each in spare.sent] == [SPARE_ROOM]


def allow_alerts(db: Db) -> None:
    acl.put(db, AclRow(id=0, principal=ADMIN, action="op:alerts.read", scope="**", effect=AclEffect.ALLOW), 1)


async def test_the_last_room_is_used_where_nobody_can_be_reached_in_a_chat(
    tmp_path: Path, platform: BeaconPlatform, spare: FakeChannel
) -> None:
    async with run_desk(tmp_path / "h", spare, alerts__last_room="spare:topic/alarms") as desk:
        platform.tokens.clear()
        await wait_for_channel(desk.gateway, "north", ChannelState.ENDED)
        await desk.pass_time(120)
        await spare.wait_for(1)
    assert [each.address for each in spare.sent] == ["spare:topic/alarms"]


async def test_nobody_can_be_reached_so_the_row_says_so_and_they_are_told_when_it_is_over(
    tmp_path: Path, platform: BeaconPlatform
) -> None:
    async with run_desk(tmp_path / "h") as desk:
        platform.tokens.clear()
        await wait_for_channel(desk.gateway, "north", ChannelState.ENDED)
        await desk.pass_time(300)
        assert await desk.list_open() == [("channel_refused", "north", False)]
        platform.tokens.add(GOOD_TOKEN)
        await desk.gateway.supervisor.restart("north")
        await wait_for_channel(desk.gateway, "north", ChannelState.UP)
        await desk.pass_time(120)
        await wait_for_sent(platform, 1)
        assert await desk.list_open() == []
    ((_, text),) = platform.sent
    assert text.startswith("The platform of the channel north does not") and text.endswith(
        "Nobody could be told before."
    )


async def wait_for_sent(platform: BeaconPlatform, count: int) -> None:
    await until(lambda: len(platform.sent) >= count, "a message on the beacon")


async def test_a_full_disk_is_told_once_and_its_end_once(
    tmp_path: Path, channel: FakeChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run_desk(tmp_path / "h", channel, beacon=False) as desk:
        with monkeypatch.context() as full:
            full.setattr(shutil, "disk_usage", lambda path: DiskUsage(100, 99, 1))
            await desk.pass_time(120)
            await channel.wait_for(1)
            await desk.pass_time(150)
        await desk.pass_time(120)
        await channel.wait_for(2)
        assert await desk.list_open() == []
    assert channel.texts(DIRECT) == [
        "The disk is full. Until somebody removes something, messages wait.",
        "The disk is not full any more.",
    ]


async def test_a_backup_that_is_proven_no_more_is_told_once_and_the_next_proven_one_once(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with run_desk(tmp_path / "h", channel, beacon=False, alerts__backup_days=7) as desk:
        folder = find_folder(desk.gateway.home, desk.gateway.config)
        add_proven_backup(folder, desk.clock.now() - 9 * DAY)
        await desk.pass_time(120)
        await channel.wait_for(1)
        add_proven_backup(folder, desk.clock.now())
        await desk.pass_time(150)
        await channel.wait_for(2)
        assert await desk.list_open() == []
    assert channel.texts(DIRECT) == [
        "No backup was proven for 9 days. Make one under Backups, and keep it elsewhere.",
        "There is a proven backup again.",
    ]


def add_proven_backup(folder: Path, made_at: int) -> None:
    """As `gatepost backup create --prove` leaves it, as far as its age is told by it."""
    folder.mkdir(exist_ok=True)
    path = folder / make_name(made_at)
    path.touch()
    keep_proof(path, BackupProof(at=made_at, trouble=""))


async def test_an_agent_that_fails_is_told_in_our_own_words_and_not_in_its_own(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with run_desk(tmp_path / "h", channel, beacon=False) as desk:
        await desk.gateway.store.write(add_failure, desk.clock.now())
        await desk.pass_time(120)
        await channel.wait_for(1)
    assert channel.texts(DIRECT) == [
        "Nothing is answered by acme any more, because it fails. Its page shows what it could not answer, and why."
    ]


def add_failure(db: Db, now: int) -> None:
    """As a turn leaves it that a stranger's words have broken."""
    groups.add(db, "acme", "`evil` [click](http://evil)", "", now)
    session = sessions.find_or_add(db, SessionMode.PER_THREAD, "acme", "fake", "fake:room/9", "", now)
    message = add_arrival(db, now, instance="fake", address="fake:room/9", platform_id="p1", text="break it")
    entry = inbox.enqueue(db, message, session.id, "acme", "member", now)
    inbox.set_state(db, entry, InboxState.FAILED, "visit http://evil now", None, now)


async def test_a_message_that_does_not_arrive_is_sent_on_another_channel_and_one_that_may_have_is_not(
    tmp_path: Path, channel: FakeChannel, spare: FakeChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run_desk(tmp_path / "h", channel, spare, beacon=False) as desk:
        await desk.gateway.store.write(direct_rooms.add, BOSS, "spare", SPARE_ROOM, 1)
        monkeypatch.setattr(shutil, "disk_usage", lambda path: DiskUsage(100, 99, 1))
        channel.script(then=SendFault.REFUSE, everywhere=True)
        await desk.pass_time(10)
        await wait_for_state(desk.gateway, "failed")
        await desk.pass_time(30)
        await spare.wait_for(1)
        await desk.pass_time(150)
        assert len(spare.sent) == 1 and len(channel.tried) == 1
        row = (await desk.gateway.store.read(alerts.list_open))[0]
        assert (row.told_instance, row.tries) == ("spare", 2)


async def wait_for_state(gateway: Gateway, state: str) -> None:
    import asyncio

    async with asyncio.timeout(PATIENCE_S):
        while True:
            (row,) = await gateway.store.read(alerts.list_open)
            found = await gateway.store.read(outbox.find_by_key, row.told_key)
            if found is not None and found.state == state:
                return
            await asyncio.sleep(0.02)


async def test_a_crash_before_or_after_the_commit_neither_loses_nor_doubles_the_message(
    tmp_path: Path, channel: FakeChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before: nothing of it is stored. After: nobody was rung, and the next start sends it."""
    home = tmp_path / "h"
    monkeypatch.setattr(shutil, "disk_usage", lambda path: DiskUsage(100, 99, 1))

    def fail(*_: object) -> None:
        raise Unavailable("the machine", "it lost its power")

    async with run_desk(home, channel, beacon=False) as desk:
        clock = desk.clock
        with monkeypatch.context() as broken:
            broken.setattr(alerts, "record_message", fail)
            with pytest.raises(Unavailable):
                await desk.pass_time(10)
        assert not await desk.gateway.store.read(alerts.list_open), "one transaction"
        with monkeypatch.context() as broken:
            broken.setattr(desk.gateway.events, "room", fail)
            with pytest.raises(Unavailable):
                await desk.pass_time(10)
        assert await desk.list_open() == [("disk_full", "", True)]
    again = FakeChannel()
    async with running_gateway(home, {"fake": (again.kind, again)}, **LATE) as gateway:
        desk = AlertDesk(gateway, clock)
        await desk.pass_time(150)
        if not channel.texts(DIRECT):
            await again.wait_for(1)
    assert len(channel.texts(DIRECT)) + len(again.texts(DIRECT)) == 1


async def test_two_that_both_believe_to_have_the_duty_make_one_message(tmp_path: Path, channel: FakeChannel) -> None:
    with pytest.MonkeyPatch.context() as full:
        full.setattr(shutil, "disk_usage", lambda path: DiskUsage(100, 99, 1))
        async with run_desk(tmp_path / "h", channel, beacon=False) as desk:
            other = desk.start_loop()
            await other.check()
            await desk.pass_time(60)
            await other.check()
            await channel.wait_for(1)
            assert len(channel.texts(DIRECT)) == 1


async def test_a_test_goes_the_way_of_an_alert_once_a_minute(tmp_path: Path, channel: FakeChannel) -> None:
    async with run_desk(tmp_path / "h", channel, beacon=False) as desk:
        deps = make_operation_deps(desk.gateway)
        sent = [await OPERATIONS["alert.test"](deps, {}) for _ in range(3)]
        assert sent[0] == {"channel": "fake"}
        await channel.wait_for(1)
        assert len(channel.texts(DIRECT)) <= 2, "a minute may have ended in between"
        channel.script(then=SendFault.NONE)
        await desk.gateway.supervisor.stop("fake")
        assert await OPERATIONS["alert.test"](deps, {}) == {"channel": ""}


@pytest.mark.slow
@needs_chromium
@pytest.mark.page("alerts", "alert.mute: Mute for a day", "alert.mute: Tell again", "alert.test: Send a test", "*: *")
async def test_an_alert_is_muted_told_again_and_mended_on_its_page(tmp_path: Path, window: BrowserContext) -> None:
    folder = tmp_path / "h" / "backups"
    folder.mkdir(parents=True, mode=0o700)
    add_proven_backup(folder, SystemClock().now() - 9 * DAY)
    with DaemonProcess(tmp_path / "h", sessions_provider="demo", sandbox_kind="process") as daemon:
        async with open_desk(daemon, window) as desk:
            block_until(lambda: bool(desk.ask("alert.list")), "the alert")
            await desk.open("/alerts")
            await expect(desk.row("No backup was proven for 9 days.")).to_have_count(1)
            await expect(desk.page.locator("#pages .count", has_text="1")).to_have_count(1)
            await desk.press("Mute for a day", "alert.mute")
            assert [each["state"] for each in desk.ask("alert.list")] == ["muted"]
            await expect(desk.page.locator("#pages .count")).to_have_count(0)
            await desk.press("Tell again", "alert.mute")
            assert desk.ask("alert.list")[0]["muted_until"] is None
            await desk.press("Send a test", "alert.test")
            await desk.press("Back up now", "backup.create")
            assert desk.ask("backup.list")[0]["proof"]["trouble"] == ""
