"""The cursor of traces, and what becomes of those for which the receiver was away for too long."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.messages.inbound import Direction
from gatepost.serve.telemetry import trace_export
from gatepost.serve.telemetry.spans import TraceSpan
from gatepost.serve.telemetry.trace_export import TraceExporter, read_cursor, write_cursor
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import message_steps, messages
from gatepost.store.messages.messages import NewMessage
from gatepost.store.port import Db
from gatepost.store.sessions.trace_facts import TraceFacts, find_newest_step, read_page
from gatepost_testing.counting import CountingDb
from gatepost_testing.servers.otlp_receiver import OtlpReceiver
from gatepost_testing.waiting import until

pytestmark = pytest.mark.anyio


def add_message(db: Db, number: int, *steps: str) -> int:
    new = NewMessage(
        instance="fake",
        address="fake:room/1",
        direction=Direction.OUT,
        sender="agent:home",
        text="words",
        platform_id=str(number),
        at=number,
    )
    message_id = messages.accept(db, new, number)
    assert message_id is not None
    for step in steps:
        message_steps.add(db, message_id, None, number, step)
    return message_id


def make_config(url: str) -> Config:
    return Config({"telemetry.otlp_endpoint": url})


def test_a_cursor_is_read_as_it_was_written_and_a_broken_one_counts_as_none(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.cursor"
    assert read_cursor(path) is None
    write_cursor(path, 12)
    assert read_cursor(path) == 12 and path.stat().st_mode & 0o777 == 0o600
    for broken in ("", "-3", "9" * 30, "x", "\udcff"):
        path.write_bytes(broken.encode("utf-8", "surrogateescape"))
        assert read_cursor(path) is None
    write_cursor(tmp_path / "away" / "telemetry.cursor", 12)  # a disk that cannot be written


async def run_until(exporter: TraceExporter, holds: Callable[[], object], what: str) -> None:
    task = asyncio.create_task(exporter.run())
    try:
        await until(holds, what)
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_what_waits_for_a_receiver_for_too_long_is_skipped_and_counted(
    store: SqliteStore, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_export, "MOST_BEHIND", 4)
    monkeypatch.setattr(trace_export, "LOOK_S", 0.01)
    write_cursor(home.path / "telemetry.cursor", 0)
    for number in range(10):
        await store.write(add_message, number, "sent")
    with OtlpReceiver() as receiver:
        exporter = TraceExporter(home, store, make_config(receiver.url))
        await run_until(exporter, lambda: read_cursor(home.path / "telemetry.cursor") == 10, "the newest four")
    counts = exporter.get_counts()
    assert counts is not None and (counts.sent, counts.skipped) == (4, 6)
    assert read_cursor(home.path / "telemetry.cursor") == 10


async def test_the_first_start_sends_nothing_of_before_and_a_cursor_of_a_newer_store_is_not_believed(
    store: SqliteStore, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_export, "LOOK_S", 0.01)
    await store.write(add_message, 1, "sent")
    cursor = home.path / "telemetry.cursor"
    for written in (None, 99):
        if written is not None:
            write_cursor(cursor, written)
        with OtlpReceiver() as receiver:
            exporter = TraceExporter(home, store, make_config(receiver.url))
            await run_until(exporter, lambda: read_cursor(cursor) == 1, "the cursor")
        assert receiver.requests == 0


async def test_a_mistake_of_ours_costs_one_page_and_not_the_loop(
    store: SqliteStore, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_export, "LOOK_S", 0.01)
    monkeypatch.setattr(trace_export, "PAGE_STEPS", 1)
    write_cursor(home.path / "telemetry.cursor", 0)
    broken = [await store.write(add_message, number, "sent") for number in range(3)][1]
    make = trace_export.make_trace  # type: ignore[attr-defined]

    def fail_once(facts: TraceFacts) -> list[TraceSpan]:
        if facts.message.id == broken:
            raise ValueError("a mistake")
        return make(facts)

    monkeypatch.setattr(trace_export, "make_trace", fail_once)
    with OtlpReceiver() as receiver:
        exporter = TraceExporter(home, store, make_config(receiver.url))
        await run_until(exporter, lambda: read_cursor(home.path / "telemetry.cursor") == 3, "the other two")
    counts = exporter.get_counts()
    assert counts is not None and counts.skipped == 1


def test_a_page_costs_by_its_steps_and_not_by_the_ledger_and_reads_nobodys_words(db: Db) -> None:
    for number in range(200):
        add_message(db, number, "pending", "sending", "sent")
    newest = find_newest_step(db)
    counting = CountingDb(db)
    page = read_page(counting, newest - 6, newest, 300)
    assert (page.cursor, len(page.facts)) == (newest, 2)
    assert counting.statements <= 15 and "words" not in repr(page)
    assert read_page(db, newest, newest, 300).facts == ()
