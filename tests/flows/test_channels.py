"""Channels of a running gateway: made with their own settings and secrets, watched, stopped and started again."""

import asyncio
import os
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.channels.contract import ChannelState, EndReason
from gatepost.core.errors import NotFound
from gatepost.flow.channel_supervisor import get_folder
from gatepost.flow.delivery.outgoing_messages import OutgoingMessage, add_outgoing_message
from gatepost.flow.sessions.sandbox.sandbox_requirements import variables
from gatepost.store.engine.readonly import list_waiting_instances
from gatepost.store.messages import outbox
from gatepost.store.messages.outbox import EffectOrigin
from gatepost.store.port import Db, inline_read
from gatepost.store.rights import secrets
from gatepost.store.rooms import channel_cursors
from gatepost_testing.gateway import open_room, running_gateway, start_channel, wait_for_channel
from gatepost_testing.storms.beacon import GOOD_TOKEN, BeaconPlatform, registered_beacon
from gatepost_testing.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio


@pytest.fixture
def platform() -> Iterator[BeaconPlatform]:
    with registered_beacon() as made:
        yield made


@asynccontextmanager
async def gateway_with(tmp_path: Path, *instances: str, **given: Any) -> AsyncIterator[Gateway]:
    async with running_gateway(tmp_path, **given) as gateway:
        for each in instances:
            await start_channel(gateway, "beacon", secrets={"token": GOOD_TOKEN}, instance=each)
            await open_room(gateway, each, "beacon:room/1")
        for each in instances:
            await wait_for_channel(gateway, each, ChannelState.UP)
        yield gateway


async def until(holds: Any) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110  the platform is a plain object
            await asyncio.sleep(0.01)


async def test_instances_of_one_kind_have_settings_and_secrets_of_their_own(
    tmp_path: Path, platform: BeaconPlatform
) -> None:
    platform.tokens |= {"other-key-1"}
    async with running_gateway(tmp_path) as gateway:
        await start_channel(gateway, "beacon", {"color": "green"}, {"token": GOOD_TOKEN}, instance="north")
        await start_channel(gateway, "beacon", {}, {"token": "other-key-1"}, instance="south")
        await wait_for_channel(gateway, "north", ChannelState.UP)
        await wait_for_channel(gateway, "south", ChannelState.UP)
        uses = await gateway.store.read(secrets.list_uses, 10)

    assert platform.colors == {"north": "green", "south": "red"}
    assert {(each.name, each.purpose) for each in uses} == {
        ("CHANNEL_NORTH_TOKEN", "channel:north"),
        ("CHANNEL_SOUTH_TOKEN", "channel:south"),
    }


@pytest.mark.slow
async def test_what_was_added_runs_again_after_a_restart_and_goes_on_at_its_cursor(
    tmp_path: Path, platform: BeaconPlatform
) -> None:
    async with gateway_with(tmp_path, "north") as gateway:
        platform.push("one")
        await until(lambda: any(text for _, text in platform.sent))
        assert stat.S_IMODE(get_folder(gateway.home, "north").stat().st_mode) == 0o700
    async with running_gateway(tmp_path) as gateway:
        await wait_for_channel(gateway, "north", ChannelState.UP)
        (cursor,) = await gateway.store.read(channel_cursors.list_all)

    assert (cursor.instance, cursor.received, cursor.acknowledged) == ("north", "1", "1")
    assert platform.connects == ["north", "north"]
    assert platform.closed == ["north", "north"]


async def test_a_revoked_token_ends_the_instance_and_names_the_way_out(
    tmp_path: Path, platform: BeaconPlatform
) -> None:
    async with gateway_with(tmp_path, "north", "south") as gateway:
        platform.tokens.clear()
        report = await wait_for_channel(gateway, "north", ChannelState.ENDED)
        await wait_for_channel(gateway, "south", ChannelState.ENDED)
        assert (report.reason, report.error) == (EndReason.TOKEN, "beacon no longer accepts the token")
        assert "gatepost channel set" in report.remedy
        assert "north" not in gateway.adapters
        connects = len(platform.connects)

        platform.tokens.add(GOOD_TOKEN)
        await gateway.supervisor.restart("north")
        await wait_for_channel(gateway, "north", ChannelState.UP)

        assert len(platform.connects) == connects + 1, "nobody else was tried again"
        assert gateway.supervisor.find_trouble("south").startswith("ended: beacon no longer accepts")


@pytest.mark.slow
async def test_a_deaf_channel_is_found_and_started_again(tmp_path: Path, platform: BeaconPlatform) -> None:
    async with gateway_with(tmp_path, "north") as gateway:
        platform.holds_polls = True
        report = await wait_for_channel(gateway, "north", ChannelState.DEAF)
        assert (report.restarts, report.error) == (1, "it gave no sign of receiving for 0.2 s")
        platform.holds_polls = False
        report = await wait_for_channel(gateway, "north", ChannelState.UP)

    assert (report.restarts, report.error) == (1, "")
    assert platform.connects == ["north", "north"]


@pytest.mark.slow
async def test_a_channel_that_breaks_is_retrying_until_there_is_evidence(
    tmp_path: Path, platform: BeaconPlatform
) -> None:
    async with gateway_with(tmp_path, "north") as gateway:
        platform.reachable = False
        report = await wait_for_channel(gateway, "north", ChannelState.RETRYING)
        assert "beacon is unavailable: it cannot be reached" in report.error
        assert report.next_at is not None and report.next_at > report.since_at
        assert "north" in gateway.adapters
        platform.reachable = True
        await wait_for_channel(gateway, "north", ChannelState.UP)


async def test_an_instance_is_stopped_without_touching_the_others(tmp_path: Path, platform: BeaconPlatform) -> None:
    async with gateway_with(tmp_path, "north", "south") as gateway:
        await gateway.supervisor.stop("north")

        assert gateway.supervisor.find_report("north") is None
        assert "north" not in gateway.adapters and "north" not in gateway.kinds
        assert platform.closed == ["north"]
        assert platform.connects == ["north", "south"]
        with pytest.raises(NotFound, match="gatepost channel list"):
            await gateway.supervisor.restart("nobody")


async def test_sandboxes_get_what_a_channel_declares_while_it_runs(tmp_path: Path, platform: BeaconPlatform) -> None:
    async with gateway_with(tmp_path) as gateway:
        found = [variables(gateway.config, gateway.home, "demo")]
        await start_channel(gateway, "beacon", secrets={"token": GOOD_TOKEN}, instance="north")
        found.append(variables(gateway.config, gateway.home, "demo"))
        await gateway.supervisor.stop("north")
        found.append(variables(gateway.config, gateway.home, "demo"))

    assert found == [{}, {"BEACON": "lit"}, {}]


@pytest.mark.slow
async def test_one_that_cannot_be_made_has_ended_and_the_gateway_starts(
    tmp_path: Path, platform: BeaconPlatform
) -> None:
    async with gateway_with(tmp_path, "north"):
        pass
    (tmp_path / "gatepost.toml").write_text('[channels.south]\nkind = "beacon"\non = false\n')
    with registered_missing_extra():
        async with running_gateway(tmp_path, channels__on=["heavy"]) as gateway:
            await wait_for_channel(gateway, "north", ChannelState.UP)
            report = await wait_for_channel(gateway, "heavy", ChannelState.ENDED)
            assert "pip install 'gatepost[heavy]'" in report.error
            assert "gatepost channel restart heavy" in report.remedy
            await wait_for_channel(gateway, "south", ChannelState.OFF)


class registered_missing_extra:
    """A kind whose library is not installed."""

    def __enter__(self) -> None:
        from gatepost.channels.contract import declare_channel

        declare_channel("heavy", "a_library_that_is_not_there.adapter:Heavy", features=frozenset(), extra="heavy")

    def __exit__(self, *_: object) -> None:
        from gatepost.channels.contract import CHANNELS

        CHANNELS.drop("heavy")


PLATFORM_LIBRARIES = ("websockets", "nio", "slixmpp", "imap_tools", "aiosmtplib", "httpx2")


@pytest.mark.slow
def test_a_started_core_has_imported_no_library_of_a_platform_and_no_adapter(tmp_path: Path) -> None:
    text = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom gatepost.app import load_plugins\n"
        "from gatepost.core.home import Home\n"
        "from gatepost_testing.gateway import running_gateway\n"
        "async def main():\n    async with running_gateway(Path(sys.argv[1])):\n        pass\n"
        "load_plugins(Home(Path(sys.argv[1])))\nasyncio.run(main())\n"
        "print('\\n'.join(sorted(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", text, str(tmp_path)], capture_output=True, text=True, check=True, env=os.environ
    )
    loaded = set(done.stdout.split())

    assert {name for name in PLATFORM_LIBRARIES if name in loaded} == set()
    assert [name for name in loaded if name.startswith("gatepost.channels.") and name.endswith(".adapter")] == []
    assert "gatepost.channels.contract" in loaded


async def test_a_send_that_finds_the_token_revoked_ends_the_channel_and_waits(
    tmp_path: Path, platform: BeaconPlatform
) -> None:
    async with gateway_with(tmp_path, "north", "south", delivery__retry_base_s=0.05) as gateway:
        platform.holds_polls = True  # only the send can find out
        platform.tokens.clear()
        new = OutgoingMessage(
            key="k1", origin=EffectOrigin.NOTICE, instance="north", address="beacon:room/1", text="hello"
        )
        await gateway.pump.write(
            "north", "beacon:room/1", lambda db: add_outgoing_message(db, gateway.channels, new, gateway.clock.now())
        )
        report = await wait_for_channel(gateway, "north", ChannelState.ENDED)
        assert report.reason is EndReason.TOKEN
        await until(lambda: "no longer accepts" in gateway.store.read_now(read_reason, "k1"))  # type: ignore[attr-defined]
        assert "north" not in gateway.adapters

        platform.holds_polls = False
        platform.tokens.add(GOOD_TOKEN)
        await gateway.supervisor.restart("north")
        await until(lambda: platform.sent == [("north", "hello")])


@inline_read
def read_reason(db: Db, key: str) -> str:
    found = outbox.find_by_key(db, key)
    return found.reason or "" if found is not None else ""


async def test_what_waits_for_a_channel_that_was_removed_stays_and_says_so(
    tmp_path: Path, platform: BeaconPlatform
) -> None:
    async with gateway_with(tmp_path, "north") as gateway:
        await gateway.supervisor.stop("north")
        new = OutgoingMessage(
            key="k1", origin=EffectOrigin.NOTICE, instance="north", address="beacon:room/1", text="hello"
        )
        await gateway.pump.write(
            "north", "beacon:room/1", lambda db: add_outgoing_message(db, gateway.channels, new, gateway.clock.now())
        )
        await until(lambda: "it is not switched on" in gateway.store.read_now(read_reason, "k1"))  # type: ignore[attr-defined]
        assert await gateway.store.read(list_waiting_instances) == [("north", 1)]


async def test_no_value_of_a_secret_is_in_what_is_shown_of_an_error(tmp_path: Path, platform: BeaconPlatform) -> None:
    async with gateway_with(tmp_path, "north") as gateway:
        platform.breaks_with = f"GET https://beacon.example/{GOOD_TOKEN}/poll failed"
        report = await wait_for_channel(gateway, "north", ChannelState.RETRYING)
        assert report.error == "GET https://beacon.example/[redacted]/poll failed"


async def test_what_is_being_sent_ends_before_a_channel_is_closed(tmp_path: Path, platform: BeaconPlatform) -> None:
    async with gateway_with(tmp_path, "north") as gateway:
        platform.sends_end = asyncio.Event()
        new = OutgoingMessage(
            key="k1", origin=EffectOrigin.NOTICE, instance="north", address="beacon:room/1", text="hello"
        )
        await gateway.pump.write(
            "north", "beacon:room/1", lambda db: add_outgoing_message(db, gateway.channels, new, gateway.clock.now())
        )
        await asyncio.wait_for(platform.sending.wait(), PATIENCE_S)
        restarting = asyncio.create_task(gateway.supervisor.restart("north"))
        await until(lambda: "north" not in gateway.adapters)
        assert platform.closed == []
        platform.sends_end.set()
        await asyncio.wait_for(restarting, PATIENCE_S)

        assert platform.sent == [("north", "hello")]
        assert platform.closed == ["north"]
        await wait_for_channel(gateway, "north", ChannelState.UP)


@pytest.mark.slow
async def test_changes_of_one_instance_come_one_after_another(tmp_path: Path, platform: BeaconPlatform) -> None:
    async with gateway_with(tmp_path, "north") as gateway:
        await asyncio.gather(*(gateway.supervisor.restart("north") for _ in range(5)))
        await wait_for_channel(gateway, "north", ChannelState.UP)

        assert platform.closed == ["north"] * 5
        platform.push("once")
        await until(lambda: any(text for _, text in platform.sent))
