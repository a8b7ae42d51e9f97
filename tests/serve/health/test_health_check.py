"""Whether the gateway is well: the doctor's checks, off the event loop, kept for half a minute."""

import asyncio
import shutil
import threading
from collections import namedtuple
from typing import Any

import pytest

from gatepost.channels.contract import ChannelState
from gatepost.core.clock import SECOND
from gatepost.core.home import Home
from gatepost.core.registry import load_package
from gatepost.core.settings import Config
from gatepost.flow.channel_health import ChannelReport
from gatepost.serve.health import health_check, machine_checks
from gatepost.serve.health.findings import Finding
from gatepost.serve.health.health_check import MOST_FINDINGS, HealthCheck, HealthDeps, sort_findings
from gatepost.serve.health.store_checks import check_rows
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import awaited_files, outbox
from gatepost.store.messages.outbox import EffectState, NewEffect
from gatepost.store.port import Db
from gatepost.store.web import overview
from gatepost_testing.arrivals import add_arrival
from gatepost_testing.clock import FixedClock
from gatepost_testing.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio


@pytest.fixture
def reports() -> list[ChannelReport]:
    return []


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def news() -> list[int]:
    return []


@pytest.fixture
def health(
    store: SqliteStore, home: Home, clock: FixedClock, reports: list[ChannelReport], news: list[int]
) -> HealthCheck:
    load_package("gatepost.sandboxes")
    return HealthCheck(
        HealthDeps(
            home=home,
            store=store,
            clock=clock,
            config=Config({"sandbox.kind": "process"}),
            list_reports=lambda: reports,
            held_back=lambda: "",
            on_news=lambda: news.append(1),
        )
    )


async def find(health: HealthCheck, subject: str) -> list[Finding]:
    """Once the checks have run."""
    await health.list_findings()
    assert health._checking is not None
    await asyncio.wait({health._checking}, timeout=PATIENCE_S)
    return [each for each in await health.list_findings() if each.subject == subject]


async def test_a_deaf_channel_is_found_at_once_and_a_well_one_is_not_named(
    health: HealthCheck, reports: list[ChannelReport]
) -> None:
    assert await find(health, "channels") == []
    state = ChannelState.DEAF
    reports.append(ChannelReport(instance="tg", kind="telegram", state=state, since_at=1, error="no sign for 90 s"))
    reports.append(ChannelReport(instance="irc", kind="irc", state=ChannelState.UP, since_at=1))
    [found] = await find(health, "channels")
    assert found.text == "tg is deaf: no sign for 90 s" and "gatepost channel logs tg" in found.remedy


async def test_the_checks_run_in_another_thread_and_once_in_half_a_minute(
    health: HealthCheck, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    Usage = namedtuple("Usage", "total used free")

    def measure(place: Any) -> Any:
        threads.append(threading.get_ident())
        return Usage(1, 1, 50 * 1024**2)

    monkeypatch.setattr(machine_checks.shutil, "disk_usage", measure)  # type: ignore[attr-defined]
    for _ in range(3):
        [found] = await find(health, "disk")
        assert found.level == "fail"
    assert len(threads) == 1 and threads[0] != threading.get_ident()
    clock.advance(31)
    await health.list_findings()  # what was found last; the checks run meanwhile
    assert health._checking is not None
    await health._checking
    assert len(threads) == 2
    assert shutil.disk_usage is measure


async def test_what_went_out_perhaps_is_a_finding(health: HealthCheck, clock: FixedClock, store: SqliteStore) -> None:
    def add(db: Db) -> None:
        row = db.row(
            "INSERT INTO messages (instance, address, direction, kind, sender, text, at, accepted_at)"
            " VALUES ('fake', 'r', 'out', 'chat', 'a', 'hi', 1, 1) RETURNING id"
        )
        assert row is not None
        db.run(
            "INSERT INTO outbox (key, message_id, origin, op, instance, address, payload, state, created_at,"
            " updated_at) VALUES ('k', ?, 'result', 'send', 'fake', 'r', '{}', ?, 1, ?)",
            (row[0], EffectState.UNCERTAIN, clock.now()),
        )
        assert overview.list_unclear(db, clock.now() - SECOND)

    await store.write(add)
    [found] = await find(health, "outbox")
    assert found.text.startswith("1 message of the last day went out perhaps")
    assert "ledger list --state uncertain" in found.remedy


async def test_open_pages_are_told_of_another_finding_and_of_nothing_else(
    health: HealthCheck, home: Home, clock: FixedClock, news: list[int]
) -> None:
    await find(health, "settings")
    before = len(news)
    clock.advance(31)
    await find(health, "settings")
    assert len(news) == before
    (home.path / "gatepost.toml").write_text("listen = [")
    clock.advance(31)
    assert await find(health, "settings") and len(news) == before + 1


async def test_settings_that_the_next_start_refuses_are_found_now(health: HealthCheck, home: Home) -> None:
    (home.path / "gatepost.toml").write_text("listen = [")
    [found] = await find(health, "settings")
    assert found.level == "fail"


async def test_a_check_that_cannot_run_says_so_and_hides_no_other(
    health: HealthCheck, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(place: Any) -> Any:
        raise OSError("stale file handle")

    monkeypatch.setattr(machine_checks.shutil, "disk_usage", fail)  # type: ignore[attr-defined]
    (home.path / "gatepost.toml").write_text("listen = [")
    [found] = await find(health, "disk")
    assert "stale file handle" in found.text
    assert await find(health, "settings")


def test_the_worst_comes_first_and_what_is_well_is_left_out() -> None:
    notes = [Finding("ok", "a", ""), Finding("warn", "b", ""), Finding("note", "c", ""), Finding("fail", "d", "")]
    assert [each.subject for each in sort_findings(notes)] == ["d", "b"]
    assert len(sort_findings([Finding("warn", "x", "")] * 1000)) == MOST_FINDINGS == health_check.MOST_FINDINGS


async def test_files_that_are_still_coming_and_messages_that_are_stuck_are_named(
    health: HealthCheck, store: SqliteStore, clock: FixedClock
) -> None:
    def leave(db: Db) -> None:
        awaited_files.add(db, add_arrival(db, clock.now(), platform_id="m1"), ["a.csv"], clock.now() + SECOND)
        room = {"instance": "tg", "address": "tg:user/1", "text": "here", "payload": {"text": "here"}}
        stuck = outbox.add(db, NewEffect(key="k", op="send", origin="tool", **room), clock.now())  # type: ignore[arg-type]
        for _ in range(outbox.STUCK):
            outbox.record_outcome(db, stuck.id, EffectState.PENDING, "it answers 503", clock.now(), next_at=1)

    await store.write(leave)
    told = [each.text for each in await store.read(check_rows, Config(), clock.now()) if each.subject == "files"]
    assert told == ["messages that went on without a file that is still coming: 1"]
    [found] = await find(health, "outbox")
    assert found.text == "tg has messages that were tried 3 times or more (1): it answers 503"
