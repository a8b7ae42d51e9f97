"""The pump on a real store, with a channel that fails on request and a clock that stands still."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gatepost.channels.contract import LateFailure
from gatepost.core.clock import SECOND
from gatepost.core.errors import GatepostError, Refused, Unavailable
from gatepost.flow.delivery.outbox_claims import NOTICE_TEXT
from gatepost.messages.outbound import Feature, Op, Outbound, OutboundFile
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import outbox
from gatepost.store.messages.outbox import EffectOrigin
from gatepost.store.money import ledger
from gatepost.store.port import Db
from gatepost.store.sessions import due_sessions, groups, sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.channel import EVERYTHING, FakeChannel, SendFault
from gatepost_testing.outbox_harness import ROOM, OutboxHarness
from gatepost_testing.waiting import until

OTHER = "fake:room/2"
SILENT = EVERYTHING - {Feature.LOOKUP}


@pytest.fixture
def channel() -> FakeChannel:
    return FakeChannel()


@pytest.fixture
def post(store: SqliteStore, channel: FakeChannel) -> OutboxHarness:
    return OutboxHarness(store, {"fake": channel})


@pytest.fixture
async def running(post: OutboxHarness) -> AsyncIterator[OutboxHarness]:
    async with post.running():
        yield post


async def test_what_is_committed_goes_out_and_its_platform_id_is_learnt(
    running: OutboxHarness, channel: FakeChannel
) -> None:
    (effect,) = await running.say("k", "hello")

    row = await running.ended("k")

    assert (row.state, row.tries, channel.texts()) == ("sent", 1, ["hello"])
    assert await running.store.read(platform_id_of, effect.message_id) == channel.sent[0].platform_id


async def test_a_lost_ring_costs_time_and_not_the_message(post: OutboxHarness, channel: FakeChannel) -> None:
    await post.say("k", "said before anybody listened")

    async with post.running():
        await channel.wait_for(1)

    assert (await post.row("k")).state == "sent"


async def test_nanoclaw_23_rings_and_looks_that_overlap_call_the_channel_once(
    running: OutboxHarness, channel: FakeChannel
) -> None:
    channel.script(SendFault.DELAY)
    await running.say("k", "once")
    for _ in range(5):
        running.events.room("fake", ROOM)
        await asyncio.sleep(0)
    channel.release()

    await running.ended("k")

    assert len(channel.tried) == 1


async def test_nanoclaw_24_fails_twice_then_succeeds_is_delivered_once(
    running: OutboxHarness, channel: FakeChannel
) -> None:
    channel.script(SendFault.UNAVAILABLE, SendFault.UNAVAILABLE)
    await running.say("k", "at last")
    await running.tried("k", 1)
    running.advance(1)
    await running.tried("k", 2)
    running.advance(2)

    row = await running.ended("k")

    assert (row.state, row.tries, channel.texts()) == ("sent", 3, ["at last"])


async def test_nanoclaw_24_fails_for_ever_is_failed_and_the_agent_is_told_without_being_woken(
    store: SqliteStore, channel: FakeChannel
) -> None:
    post = OutboxHarness(store, {"fake": channel}, {"delivery.max_tries": 2})
    session = await post.session()
    channel.script(then=SendFault.UNAVAILABLE)
    async with post.running():
        (effect,) = await post.say("k", "never", session=session)
        await post.tried("k", 1)
        post.advance(1)
        row = await post.ended("k")

    assert row.state == "failed" and "given up after 2 tries" in row.reason
    (told,) = await post.list_context(session)
    assert (told["event"], told["seq"], told["reason"]) == ("delivery_failed", effect.seq, row.reason)
    assert await store.read(due_sessions.list_sessions_with_work, post.clock.now()) == []


async def test_nanoclaw_24_a_failing_row_is_not_overtaken_in_its_room(
    running: OutboxHarness, channel: FakeChannel
) -> None:
    channel.script(SendFault.UNAVAILABLE)
    await running.say("first", "one")
    await running.tried("first", 1)
    await running.say("second", "two")
    await running.say("elsewhere", "three", address=OTHER)
    await running.ended("elsewhere")
    assert channel.texts() == ["three"]

    running.advance(1)
    await running.ended("second")

    assert channel.texts(ROOM) == ["one", "two"]


class NoUploads(FakeChannel):
    """A channel whose files cannot be sent, for the reason `error`."""

    error: GatepostError = Unavailable("the upload", "it answers 503")

    async def send(self, address: str, message: Outbound) -> str:
        if message.files:
            raise self.error
        return await super().send(address, message)


FILE = OutboundFile(name="a.pdf", mime="application/pdf", path="/nowhere/a.pdf", size=3)


async def test_words_overtake_a_file_that_is_stuck_and_keep_their_order(store: SqliteStore) -> None:
    channel = NoUploads()
    post = OutboxHarness(store, {"fake": channel})
    async with post.running():
        (stuck,) = await post.say("file", "here it is", files=(FILE,))
        await post.tried("file", 1)
        await post.say("one", "one")
        await post.say("second file", "and this", files=(FILE,))
        await post.say("two", "two")
        await post.ended("two")

        assert channel.texts() == ["one", "two"]
        assert [(await post.row(key)).state for key in ("file", "second file")] == ["pending", "pending"]
        for wait in (1, 2):
            post.advance(wait)
            await post.tried("file", wait + 1)
        (late,) = await store.read(outbox.list_stuck)
        assert (late.instance, late.count) == ("fake", 1) and "503" in late.reason
        assert stuck.state == "pending"


class NoDeletions(FakeChannel):
    """A channel whose messages cannot be deleted at the moment, for the reason `error`."""

    error = Unavailable("fake", "it answers 503")

    async def send(self, address: str, message: Outbound) -> str:
        if message.op is Op.DELETE:
            raise self.error
        return await super().send(address, message)


async def test_nothing_waits_for_an_interim_line_that_cannot_be_deleted(store: SqliteStore) -> None:
    channel = NoDeletions()
    post = OutboxHarness(store, {"fake": channel})
    async with post.running():
        for name in ("reading", "writing"):
            (line,) = await post.say(name, name, origin=EffectOrigin.STATUS)
            await post.do(f"{name}/end", Op.DELETE, line.message_id, {}, origin=EffectOrigin.STATUS)
            await post.tried(f"{name}/end", 1)
            await post.say(f"answer after {name}", "answer")
            await post.say(f"file after {name}", "file", files=(FILE,))
            await post.ended(f"file after {name}")
        assert channel.texts() == ["reading", "answer", "file", "writing", "answer", "file"]
        assert [(await post.row(f"{name}/end")).state for name in ("reading", "writing")] == ["pending", "pending"]


async def test_a_limit_on_deletions_of_interim_lines_stops_no_other_room(store: SqliteStore) -> None:
    channel = NoDeletions()
    channel.error = Unavailable("fake", "it asks us to wait", retry_after=1800, everywhere=True)
    post = OutboxHarness(store, {"fake": channel})
    async with post.running():
        (line,) = await post.say("line", "reading", origin=EffectOrigin.STATUS)
        await post.do("line/end", Op.DELETE, line.message_id, {}, origin=EffectOrigin.STATUS)
        await post.tried("line/end", 1)
        await post.say("here", "answer")
        await post.say("elsewhere", "answer", address=OTHER)
        await post.ended("here")
        await post.ended("elsewhere")


@pytest.mark.parametrize(
    "error",
    [
        Unavailable("the upload", "its certificate is not accepted", lasting=True),
        Refused("fake", "send a file", "this room", "it is too large"),
    ],
)
async def test_a_file_that_can_never_be_sent_fails_at_once_and_the_room_is_told(
    store: SqliteStore, error: GatepostError
) -> None:
    channel = NoUploads()
    channel.error = error
    post = OutboxHarness(store, {"fake": channel})
    session = await post.session()
    async with post.running():
        await post.say("file", "here it is", files=(FILE,), session=session)
        row = await post.ended("file")
        await channel.wait_for(1)

    assert (row.state, row.tries) == ("failed", 1)
    assert channel.texts() == [f"I could not send a.pdf: {error}"]


async def test_a_failed_notice_tells_nobody(running: OutboxHarness, channel: FakeChannel) -> None:
    session = await running.session()
    channel.script(SendFault.REFUSE)
    await running.say("k", "sorry", origin=EffectOrigin.NOTICE, session=session)

    assert (await running.ended("k")).state == "failed"
    assert await running.list_context(session) == []


async def test_retry_after_is_honoured(running: OutboxHarness, channel: FakeChannel) -> None:
    channel.script(SendFault.UNAVAILABLE, retry_after=30)
    await running.say("k", "patience")

    row = await running.tried("k", 1)

    assert (row.state, row.next_at) == ("pending", running.clock.now() + 30 * SECOND)


async def test_a_refusal_is_not_tried_again(running: OutboxHarness, channel: FakeChannel) -> None:
    channel.script(SendFault.REFUSE)
    await running.say("k", "no")

    row = await running.ended("k")

    assert (row.state, row.tries) == ("failed", 1)
    assert "may not write" in row.reason


async def test_nanoclaw_25_killed_between_send_and_record_is_looked_up_and_not_sent_again(
    post: OutboxHarness, channel: FakeChannel
) -> None:
    await post.say("k", "once")
    effect = await killed_after_sending(post, channel)

    async with post.running():
        row = await post.ended("k")

    assert (row.state, row.reason, channel.looked_up) == ("sent", "found on the platform", ["k"])
    assert channel.texts() == ["once"]
    assert await post.store.read(platform_id_of, effect.message_id) == channel.sent[0].platform_id


async def test_nanoclaw_25_killed_before_it_was_sent_is_sent_after_the_look_up(
    post: OutboxHarness, channel: FakeChannel
) -> None:
    await post.say("k", "once")
    await post.store.write(outbox.claim_head, "fake", ROOM, "an earlier run", post.clock.now(), 60 * SECOND)

    async with post.running():
        row = await post.ended("k")

    assert (row.state, channel.looked_up, channel.texts()) == ("sent", ["k"], ["once"])


async def test_nanoclaw_25_where_the_platform_deduplicates_it_is_sent_again_under_the_same_key(
    store: SqliteStore,
) -> None:
    channel = FakeChannel(features=SILENT | {Feature.KEYED})
    post = OutboxHarness(store, {"fake": channel})
    await post.say("k", "once")
    await killed_after_sending(post, channel)

    async with post.running():
        row = await post.ended("k")

    assert (row.state, len(channel.tried), channel.texts()) == ("sent", 2, ["once"])


async def test_nanoclaw_25_where_nobody_can_know_it_ends_as_uncertain_and_later_rows_go_on(store: SqliteStore) -> None:
    channel = FakeChannel(features=SILENT)
    post = OutboxHarness(store, {"fake": channel})
    session = await post.session()
    await post.say("k", "once", session=session)
    await killed_after_sending(post, channel)
    await post.say("next", "two")

    async with post.running():
        await post.ended("next")

    row = await post.row("k")
    assert (row.state, row.reason) == ("uncertain", "the gateway stopped while it was being sent")
    assert channel.texts() == ["once", "two"]
    assert [told["event"] for told in await post.list_context(session)] == ["delivery_uncertain"]


async def test_a_send_that_times_out_after_it_happened_is_found(store: SqliteStore, channel: FakeChannel) -> None:
    post = OutboxHarness(store, {"fake": channel}, {"delivery.timeout_s": 0.02})
    channel.script(SendFault.TIMEOUT_AFTER)
    async with post.running():
        await post.say("k", "once")
        row = await post.tried("k", 1)
        assert row.state == "sending" and "did not answer" in row.reason
        post.advance(1)
        row = await post.ended("k")

    assert (row.state, channel.texts()) == ("sent", ["once"])


async def test_a_send_that_is_uncertain_and_did_not_happen_is_sent_after_the_look_up(
    running: OutboxHarness, channel: FakeChannel
) -> None:
    channel.script(SendFault.UNCERTAIN_LOST)
    await running.say("k", "once")
    await running.tried("k", 1)
    assert channel.looked_up == []  # not before the platform had time to show it

    running.advance(1)
    row = await running.ended("k")

    assert (row.state, channel.looked_up, channel.texts()) == ("sent", ["k"], ["once"])


async def test_an_adapter_that_breaks_is_treated_as_uncertain_and_stops_nobody(store: SqliteStore) -> None:
    channel = FakeChannel(features=SILENT)
    post = OutboxHarness(store, {"fake": channel})
    channel.script(SendFault.BREAK)
    async with post.running():
        await post.say("k", "one")
        await post.say("next", "two")
        await post.ended("next")

    row = await post.row("k")
    assert (row.state, row.reason) == ("uncertain", "the channel is unavailable: it broke with RuntimeError")
    assert channel.texts() == ["two"]


async def test_nanoclaw_d4_without_a_channel_a_row_waits_and_then_fails_and_is_never_called_delivered(
    store: SqliteStore,
) -> None:
    post = OutboxHarness(store, {}, {"delivery.max_tries": 2})
    async with post.running():
        await post.say("k", "anybody?", instance="gone")
        row = await post.tried("k", 1)
        assert row.state == "pending"
        post.clock.advance(60)
        post.events.room("gone", ROOM)
        row = await post.ended("k")

    assert row.state == "failed"
    assert "'gone' is unavailable: it is not switched on" in row.reason


async def test_nanoclaw_d15_a_failure_in_one_part_does_not_send_the_others_again(store: SqliteStore) -> None:
    channel = FakeChannel(max_text=10)
    post = OutboxHarness(store, {"fake": channel})
    channel.script(SendFault.NONE, SendFault.UNAVAILABLE)
    async with post.running():
        effects = await post.say("k", "one two\n\nthree four\n\nfive six")
        await post.tried("k/2", 1)
        post.advance(1)
        await post.ended("k/3")

    assert [effect.key for effect in effects] == ["k", "k/2", "k/3"]
    assert channel.texts() == ["one two", "three four", "five six"]
    assert [message.text for _, message in channel.tried].count("one two") == 1


async def test_nanoclaw_d17_a_slow_room_does_not_delay_another(running: OutboxHarness, channel: FakeChannel) -> None:
    channel.script(SendFault.DELAY)
    await running.say("slow", "one")
    await channel.wait_for(lambda _: bool(channel.tried))
    await running.say("quick", "two", address=OTHER)

    await running.ended("quick")
    assert channel.texts() == ["two"]

    channel.release()
    await running.ended("slow")


async def test_nanoclaw_d17_a_platform_that_hangs_in_every_lane_does_not_delay_another_platform(
    store: SqliteStore,
) -> None:
    hung, well = FakeChannel(), FakeChannel(platform="well")
    post = OutboxHarness(store, {"fake": hung, "well": well}, {"delivery.lanes": 2})
    hung.script(then=SendFault.DELAY)
    async with post.running():
        for number in range(4):
            await post.say(f"hung {number}", "…", address=f"fake:room/{number}")
        await hung.wait_for(lambda _: len(hung.tried) == 2)
        await post.say("well", "fine", instance="well", address="well:room/1")
        await post.ended("well")
        hung.release()
        await hung.wait_for(4)


async def test_more_rooms_than_lanes_are_all_served(store: SqliteStore, channel: FakeChannel) -> None:
    post = OutboxHarness(store, {"fake": channel}, {"delivery.lanes": 2})
    async with post.running():
        for number in range(20):
            await post.say(f"{number} a", "a", address=f"fake:room/{number}")
            await post.say(f"{number} b", "b", address=f"fake:room/{number}")
        await channel.wait_for(40)

    assert all(channel.texts(f"fake:room/{number}") == ["a", "b"] for number in range(20))


async def test_stranger_23_a_group_that_writes_to_many_rooms_delays_anothers_by_one(
    store: SqliteStore, channel: FakeChannel
) -> None:
    post = OutboxHarness(store, {"fake": channel}, {"delivery.lanes": 1})
    await store.write(two_groups, post.clock.now())
    channel.script(SendFault.DELAY)
    async with post.running() as delivery:
        for number in range(10):
            await post.say(f"loud {number}", f"loud {number}", address=f"fake:loud/{number}")
        await post.say("quiet", "quiet", address="fake:quiet/1")
        await channel.wait_for(lambda _: bool(channel.tried))
        await until(lambda: not delivery._asking)  # it is known for which groups the others wait
        channel.release()
        await channel.wait_for(11)

    assert [text.split()[0] for text in channel.texts()[:3]] == ["loud", "loud", "quiet"]


def two_groups(db: Db, now: int) -> None:
    """`loud` talks in many rooms, `quiet` in one."""
    for folder, count in (("loud", 10), ("quiet", 2)):
        groups.add(db, folder, folder, "scripted", now)
        for number in range(count):
            sessions.find_or_add(db, SessionMode.PER_THREAD, folder, "fake", f"fake:{folder}/{number}", "", now)


async def test_after_an_outage_stale_messages_are_left_out_with_one_notice(
    post: OutboxHarness, channel: FakeChannel
) -> None:
    session = await post.session()
    for number in range(3):
        await post.say(f"old {number}", "yesterday's news", session=session)
    post.clock.advance(3601)
    await post.say("new", "today's", session=session)

    async with post.running():
        await channel.wait_for(2)

    assert channel.texts() == ["today's", NOTICE_TEXT]
    assert {
        ((await post.row(f"old {number}")).state, (await post.row(f"old {number}")).reason) for number in range(3)
    } == {("failed", "stale")}
    assert [told["count"] for told in await post.list_context(session)] == [3]


@pytest.mark.slow
async def test_stranger_20_an_outage_shorter_than_the_oldest_message_may_be_costs_nothing(
    running: OutboxHarness, channel: FakeChannel
) -> None:
    """Twenty tries were 14 minutes; what counts is `delivery.max_age_s`."""
    channel.script(then=SendFault.UNAVAILABLE)
    await running.say("k", "after the outage")
    for tries in range(1, 40):
        await running.tried("k", tries)
        running.advance(60)
    await running.tried("k", 40)
    channel.script()
    running.advance(60)
    row = await running.ended("k")

    assert (row.state, channel.texts()) == ("sent", ["after the outage"])


async def test_stranger_20_a_step_of_the_wall_clock_makes_no_message_stale(
    running: OutboxHarness, channel: FakeChannel
) -> None:
    channel.script(SendFault.UNAVAILABLE)
    await running.say("k", "fresh")
    await running.tried("k", 1)
    running.clock.step(2 * 3600)
    running.advance(1)
    row = await running.ended("k")

    assert (row.state, channel.texts()) == ("sent", ["fresh"])


async def test_stranger_20_a_final_error_ends_at_once(running: OutboxHarness, channel: FakeChannel) -> None:
    channel.script(SendFault.REFUSE)
    await running.say("k", "no")
    row = await running.ended("k")

    assert (row.state, row.tries, channel.texts()) == ("failed", 1, [])


async def test_a_notice_about_a_room_that_stays_away_ends_too(running: OutboxHarness, channel: FakeChannel) -> None:
    channel.script(then=SendFault.UNAVAILABLE)
    await running.say("one", "1")
    await running.tried("one", 1)
    running.advance(3601)
    await running.ended("one")
    notice = f"stale:fake:{ROOM}:1"
    await running.tried(notice, 1)
    running.advance(3601)
    row = await running.ended(notice)

    assert row.state == "failed" and "given up after 2 tries" in row.reason


async def test_a_notice_that_is_still_on_its_way_speaks_for_later_stale_messages_too(
    running: OutboxHarness, channel: FakeChannel
) -> None:
    channel.script(then=SendFault.UNAVAILABLE)
    await running.say("one", "1")
    await running.tried("one", 1)
    running.advance(3601)
    await running.ended("one")
    await running.say("two", "2")
    await running.tried(f"stale:fake:{ROOM}:1", 1)
    channel.script()
    running.advance(3601)
    await running.ended("two")

    await channel.wait_for(1)

    assert channel.texts() == [NOTICE_TEXT]


async def test_rows_that_wait_behind_others_are_never_unaccounted(post: OutboxHarness, channel: FakeChannel) -> None:
    channel.script(then=SendFault.UNAVAILABLE)
    await post.say("one", "1")
    await post.say("two", "2")
    async with post.running():
        await post.tried("one", 1)
    post.clock.advance(600)
    async with post.running():
        row = await post.until("two", lambda row: row.next_at == post.clock.now())

    assert row.state == "pending"
    assert (await post.store.read(ledger.check, post.clock.now())).unaccounted == 0


async def test_a_stop_still_records_the_send_in_flight(post: OutboxHarness, channel: FakeChannel) -> None:
    channel.script(SendFault.DELAY)
    task = asyncio.create_task(post.pump().run())
    await post.say("k", "one")
    await post.say("next", "two")
    await channel.wait_for(lambda _: bool(channel.tried))

    task.cancel()
    await asyncio.sleep(0)
    channel.release()
    await asyncio.gather(task, return_exceptions=True)

    assert (await post.row("k")).state == "sent"
    assert (await post.row("next")).state == "pending"


async def test_nanoclaw_34_a_deliverys_own_files_are_removed_once_it_has_ended(
    running: OutboxHarness, channel: FakeChannel, tmp_path: Path
) -> None:
    copy = tmp_path / "media" / "out" / "k" / "plan.txt"
    copy.parent.mkdir(parents=True)
    copy.write_text("the plan")
    file = OutboundFile(name="plan.txt", mime="text/plain", path=str(copy), size=8)
    await running.say("k", "see below", files=(file,))
    await running.say("after", "…")

    await running.ended("after")

    assert channel.sent[0].message.files == (file,)
    assert not copy.parent.exists()


async def test_files_that_cannot_be_removed_cause_no_second_send(running: OutboxHarness, channel: FakeChannel) -> None:
    file = OutboundFile(name="x", mime="text/plain", path="/proc/self/status", size=1)
    await running.say("k", "see below", files=(file,))
    await running.say("after", "…")

    await running.ended("after")

    assert channel.texts() == ["see below", "…"]


async def test_a_platform_that_gives_one_id_twice_breaks_nothing(store: SqliteStore) -> None:
    class Forgetful(FakeChannel):
        async def send(self, address: str, message: object) -> str:
            return "ok"

    post = OutboxHarness(store, {"fake": Forgetful()})
    async with post.running():
        await post.say("one", "1")
        await post.say("two", "2")
        assert (await post.ended("two")).state == "sent"


def platform_id_of(db: Db, message_id: int) -> str | None:
    row = db.row("SELECT platform_id FROM messages WHERE id = ?", (message_id,))
    return row[0] if row else None


async def killed_after_sending(post: OutboxHarness, channel: FakeChannel) -> outbox.OutboxEffect:
    """An earlier run took the row and sent it; then it was killed."""
    effect = await post.store.write(outbox.claim_head, "fake", ROOM, "an earlier run", post.clock.now(), 60 * SECOND)
    assert effect is not None
    await channel.send(ROOM, Outbound(key=effect.key, text=effect.payload["text"]))
    return effect


async def test_what_a_platform_takes_back_goes_out_once_more_and_its_channel_knows_why(
    store: SqliteStore, channel: FakeChannel
) -> None:
    post = OutboxHarness(store, {"fake": channel})
    async with post.running() as pump:
        (effect,) = await post.say("k", "news")
        await post.ended("k")
        first = channel.sent[0].platform_id
        failure = LateFailure(key="k", platform_id=first, why="too late", again=True)
        await pump.record_late_failure("fake", failure)
        await channel.wait_for(2)
        row = await post.ended("k")
        await pump.record_late_failure("fake", failure)  # reported twice: the message has another id by now

    assert (row.state, [each.message.refusal for each in channel.sent]) == ("sent", ["", "too late"])
    assert (await post.row("k")).state == "sent"
    assert await store.read(platform_id_of, effect.message_id) == channel.sent[1].platform_id != first


async def test_what_a_platform_does_not_deliver_after_all_is_failed_and_the_agent_is_told(
    store: SqliteStore, channel: FakeChannel
) -> None:
    post = OutboxHarness(store, {"fake": channel})
    session = await post.session()
    async with post.running() as pump:
        await post.say("k", "news", session=session)
        await post.ended("k")
        failure = LateFailure(key="k", platform_id=channel.sent[0].platform_id, why="the person has left", again=False)
        await pump.record_late_failure("another", failure)
        assert (await post.row("k")).state == "sent"
        await pump.record_late_failure("fake", failure)

    row = await post.row("k")
    assert (row.state, row.reason, len(channel.sent)) == ("failed", "the person has left", 1)
    (told,) = await post.list_context(session)
    assert (told["event"], told["reason"]) == ("delivery_failed", "the person has left")
