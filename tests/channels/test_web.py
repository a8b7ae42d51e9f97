"""The web channel: its declaration, and that no file is lost when the gateway is killed."""

from pathlib import Path

from gatepost.channels import web
from gatepost.channels.contract import CHANNELS, ChannelDeps
from gatepost.core.clock import SECOND, SystemClock
from gatepost.core.settings import Config
from gatepost.messages.address import parse
from gatepost.messages.outbound import Feature, Outbound, OutboundFile
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import outbox
from gatepost_testing.outbox_harness import OutboxHarness


def test_web_is_always_there_and_takes_files_threads_and_keys() -> None:
    kind = CHANNELS["web"]

    assert kind.always and kind.make is web.WebChannel
    assert {Feature.FILES, Feature.THREADS, Feature.KEYED} <= kind.features


def test_its_room_and_its_owner_are_addresses_of_its_platform() -> None:
    assert {parse(web.WebChannel.main_room).platform, parse(web.WebChannel.owner).platform} == {"web"}


class KindedWeb(web.WebChannel):
    kind = CHANNELS["web"]


async def test_a_file_that_was_not_kept_when_the_gateway_was_killed_is_kept_by_the_next_run(
    store: SqliteStore, tmp_path: Path
) -> None:
    hub = KindedWeb(ChannelDeps(instance="web", config=Config(), clock=SystemClock()))
    hub.set_file_folder(tmp_path / "kept")
    source = tmp_path / "report.csv"
    source.write_bytes(b"a,b\n")
    file = OutboundFile(name="report.csv", mime="text/csv", path=str(source), size=4)
    post = OutboxHarness(store, {"web": hub})
    await post.say("k", "the report", instance="web", address=hub.main_room, files=(file,))
    await store.write(outbox.claim_head, "web", hub.main_room, "an earlier run", post.clock.now(), 60 * SECOND)

    async with post.running():
        row = await post.ended("k")

    assert row.state == "sent"
    assert hub.kept("k", 0).read_bytes() == b"a,b\n"


async def test_stranger_04_a_file_is_kept_under_another_name_and_stays_when_the_deliverys_own_goes(
    tmp_path: Path,
) -> None:
    hub = KindedWeb(ChannelDeps(instance="web", config=Config(), clock=SystemClock()))
    hub.set_file_folder(tmp_path / "kept")
    source = tmp_path / "report.csv"
    source.write_bytes(b"a,b\n")
    sent = Outbound(key="k", files=(OutboundFile(name="report.csv", mime="text/csv", path=str(source), size=4),))

    await hub.send(hub.main_room, sent)
    assert hub.kept("k", 0).samefile(source), "no second copy of the bytes"
    source.unlink()
    await hub.send(hub.main_room, sent)

    assert hub.kept("k", 0).read_bytes() == b"a,b\n"
