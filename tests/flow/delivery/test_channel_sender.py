"""Edits, reactions, replies and statuses: what reaches the channel, and under which platform id."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gatepost.channels.contract import MYSELF
from gatepost.core.clock import MINUTE
from gatepost.core.records import replace
from gatepost.messages.inbound import Inbound
from gatepost.messages.outbound import TARGETED, Feature, Op, OutboundFile, PassedMessage
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import inbox, messages, outbox
from gatepost.store.messages.growing_drafts import GROWS
from gatepost.store.messages.outbox import EffectOrigin
from gatepost.store.port import Db
from gatepost_testing.arrivals import add_arrival
from gatepost_testing.channel import EVERYTHING, FakeChannel, SendFault
from gatepost_testing.clock import NOON
from gatepost_testing.outbox_harness import ROOM, OutboxHarness


@pytest.fixture
def channel() -> FakeChannel:
    return FakeChannel()


@pytest.fixture
async def post(store: SqliteStore, channel: FakeChannel) -> AsyncIterator[OutboxHarness]:
    post = OutboxHarness(store, {"fake": channel})
    async with post.running():
        yield post


def inbound(db: Db, now: int) -> int:
    message_id = add_arrival(db, now, address=ROOM, text="what now?", platform_id="in-7")
    inbox.refuse(db, message_id, "", "guest", "a test", now)
    return message_id


@pytest.mark.slow
async def test_nanoclaw_33_an_edit_of_an_own_message_reaches_the_channel_with_its_platform_id(
    post: OutboxHarness, channel: FakeChannel
) -> None:
    channel.script(SendFault.UNAVAILABLE)
    (own,) = await post.say("own", "helo")
    await post.do("edit", Op.EDIT, own.message_id, {"text": "hello"})  # before the message itself is out
    await post.tried("own", 1)
    post.advance(1)
    await post.ended("edit")

    first, second = channel.sent
    assert (second.message.op, second.message.target, second.message.text) == (Op.EDIT, first.platform_id, "hello")


@pytest.mark.slow
async def test_nanoclaw_33_and_d7_a_reaction_to_an_inbound_message_reaches_the_channel_with_its_platform_id(
    post: OutboxHarness, channel: FakeChannel
) -> None:
    target = await post.store.write(inbound, post.clock.now())
    await post.do("like", Op.REACT, target, {"reaction": "👍"})
    await post.ended("like")

    message = channel.sent[0].message
    assert (message.op, message.target, message.reaction) == (Op.REACT, "in-7", "👍")


async def test_an_edit_of_a_message_that_never_arrived_fails_with_the_reason(
    post: OutboxHarness, channel: FakeChannel
) -> None:
    channel.script(SendFault.REFUSE)
    (own,) = await post.say("own", "helo")
    await post.do("edit", Op.EDIT, own.message_id, {"text": "hello"})

    row = await post.ended("edit")

    assert (row.state, row.reason) == ("failed", "the message to edit is not known to the platform")
    assert len(channel.tried) == 1


async def test_a_verb_that_the_channel_does_not_have_fails_with_a_hint(store: SqliteStore) -> None:
    channel = FakeChannel(features=EVERYTHING - {Feature.REACT})
    post = OutboxHarness(store, {"fake": channel})
    target = await store.write(inbound, post.clock.now())
    async with post.running():
        await post.do("like", Op.REACT, target, {"reaction": "👍"})
        row = await post.ended("like")

    assert (row.state, channel.tried) == ("failed", [])
    assert row.reason.startswith("unsupported: react on fake\nhint: use reply")


@pytest.mark.slow
async def test_an_edit_that_may_have_happened_is_simply_made_again(store: SqliteStore) -> None:
    channel = FakeChannel(features=EVERYTHING - {Feature.LOOKUP})
    post = OutboxHarness(store, {"fake": channel})
    channel.script(SendFault.NONE, SendFault.UNCERTAIN_LOST)
    async with post.running():
        (own,) = await post.say("own", "helo")
        await post.do("edit", Op.EDIT, own.message_id, {"text": "hello"})
        await post.tried("edit", 1)
        post.advance(1)
        row = await post.ended("edit")

    assert (row.state, channel.texts()) == ("sent", ["helo", "hello"])


@pytest.mark.parametrize("op", sorted(TARGETED))
async def test_what_is_done_to_a_message_that_never_arrived_fails_with_the_reason(
    op: Op, post: OutboxHarness, channel: FakeChannel
) -> None:
    channel.script(SendFault.REFUSE)
    (own,) = await post.say("own", "helo")
    await post.do("k", op, own.message_id, {"text": "hello"})

    row = await post.ended("k")

    assert (row.state, row.reason) == ("failed", f"the message to {op} is not known to the platform")
    assert len(channel.tried) == 1


async def test_what_is_passed_on_names_its_message_and_the_room_that_it_lies_in(
    post: OutboxHarness, channel: FakeChannel
) -> None:
    target = await post.store.write(inbound, post.clock.now())
    for op in (Op.FORWARD, Op.QUOTE, Op.REPOST):
        await post.do(op, op, target, {"text": "look"})
        await post.ended(op)

    asked = [
        (sent.message.op, sent.message.source, sent.message.target, sent.message.reply_to) for sent in channel.sent
    ]
    assert asked == [(op, ROOM, "in-7", "") for op in (Op.FORWARD, Op.QUOTE, Op.REPOST)]


async def forward(post: OutboxHarness, channel: FakeChannel, source: int) -> PassedMessage | None:
    await post.do(f"forward {source}", Op.FORWARD, source, {})
    await post.ended(f"forward {source}")
    return channel.sent[-1].message.passed


async def test_a_forward_has_the_words_the_author_and_the_files_of_its_source(
    store: SqliteStore, channel: FakeChannel, tmp_path: Path
) -> None:
    post = OutboxHarness(store, {"fake": channel})
    (tmp_path / "in" / "f-1").mkdir(parents=True)
    (tmp_path / "in" / "f-1" / "a.pdf").write_bytes(b"pdf")
    files = [
        {"type": "file", "name": name, "mimeType": "application/pdf", "size": 3, "path": f"in/f-1/{name}"}
        for name in ("a.pdf", "b.pdf")
    ]

    def add(db: Db, platform_id: str, **more: Any) -> int:
        return add_arrival(db, post.clock.now(), address=ROOM, platform_id=platform_id, **more)

    def add_all(db: Db) -> list[int]:
        deleted = add(db, "3", text="gone")
        messages.revise(db, deleted, add(db, "3", event="delete", text=""), None)
        return [
            add(db, "1", text="see", sender_name="Ann\nB", content=json.dumps({"attachments": files})),
            add(db, "2", text="spam", forward_from="Bob"),
            deleted,
            add(db, "4", text="👍", event="reaction:👍:fake:user/1"),
        ]

    pump = post.pump()
    pump.set_files(tmp_path, None)
    whole, passed_on, deleted, reaction = await store.write(add_all)
    async with post.running(pump):
        path = str(tmp_path / "in" / "f-1" / "a.pdf")
        file = OutboundFile(name="a.pdf", mime="application/pdf", path=path, size=3)
        expected = PassedMessage(author="Ann B", text="see", files=(file,), lost=("b.pdf",))
        assert await forward(post, channel, whole) == expected
        assert await forward(post, channel, passed_on) == PassedMessage(author="Bob, passed on by 1", text="spam")
        assert await forward(post, channel, deleted) is None
        assert await forward(post, channel, reaction) is None
        (own,) = await post.say("own", "**mine**")
        assert await forward(post, channel, own.message_id) == PassedMessage(
            author="this bot", own=True, text="**mine**"
        )
        again = await post.store.read(outbox.find_by_key, f"forward {own.message_id}")
        assert again is not None and await forward(post, channel, again.message_id) is None


async def test_a_reply_names_the_message_that_it_answers(post: OutboxHarness, channel: FakeChannel) -> None:
    target = await post.store.write(inbound, post.clock.now())
    await post.say("k", "this", reply_to_id=target)
    await post.ended("k")

    assert channel.sent[0].message.reply_to == "in-7"


async def test_a_reply_where_there_are_none_quotes_what_it_answers(store: SqliteStore) -> None:
    channel = FakeChannel(features=frozenset())
    post = OutboxHarness(store, {"fake": channel})
    target = await store.write(inbound, post.clock.now())
    async with post.running():
        await post.say("k", "this", reply_to_id=target)
        await post.ended("k")

    assert channel.texts() == ["> what now?\nthis"]


async def test_a_status_is_shown_and_edited_and_not_worth_a_second_try(
    post: OutboxHarness, channel: FakeChannel
) -> None:
    (status,) = await post.say("s", "thinking", origin=EffectOrigin.STATUS)
    await post.do("s/2", Op.EDIT, status.message_id, {"text": "still thinking"}, origin=EffectOrigin.STATUS)
    await post.ended("s/2")
    channel.script(SendFault.UNAVAILABLE)
    await post.do("s/3", Op.EDIT, status.message_id, {"text": "hm"}, origin=EffectOrigin.STATUS)

    assert (await post.ended("s/3")).state == "failed"
    assert [sent.message.op for sent in channel.sent] == [Op.SEND, Op.EDIT]


@pytest.mark.parametrize("fault", [SendFault.BREAK, SendFault.UNCERTAIN])
async def test_nothing_waits_for_an_edit_of_a_status_that_may_have_happened(
    post: OutboxHarness, channel: FakeChannel, fault: SendFault
) -> None:
    (status,) = await post.say("s", "thinking", origin=EffectOrigin.STATUS)
    await post.ended("s")
    channel.script(fault)
    await post.do("s/2", Op.EDIT, status.message_id, {"text": "still thinking"}, origin=EffectOrigin.STATUS)
    await post.say("k", "the answer")

    assert (await post.ended("k")).state == "sent"
    assert (await post.ended("s/2")).state == "failed"


async def test_a_status_is_dropped_where_it_could_not_be_taken_back(store: SqliteStore) -> None:
    channel = FakeChannel(features=frozenset())
    post = OutboxHarness(store, {"fake": channel})
    async with post.running():
        await post.say("s", "thinking", origin=EffectOrigin.STATUS)
        row = await post.ended("s")

    assert (row.state, channel.tried) == ("cancelled", [])


async def test_a_look_up_that_fails_is_made_again_and_ends_as_uncertain(store: SqliteStore) -> None:
    class Blind(FakeChannel):
        async def look_up(self, address: str, key: str) -> str | None:
            self.looked_up.append(key)
            raise RuntimeError("no")

    channel = Blind()
    post = OutboxHarness(store, {"fake": channel}, {"delivery.max_tries": 3})
    channel.script(SendFault.UNCERTAIN)
    async with post.running():
        await post.say("k", "once")
        await post.tried("k", 1)
        post.advance(1)
        await post.tried("k", 2)
        post.advance(2)
        row = await post.ended("k")

    assert (row.state, channel.texts(), len(channel.looked_up)) == ("uncertain", ["once"], 2)


async def test_stranger_20_what_may_have_happened_ends_as_uncertain_when_its_time_is_over(store: SqliteStore) -> None:
    class Blind(FakeChannel):
        async def look_up(self, address: str, key: str) -> str | None:
            raise RuntimeError("no")

    channel = Blind()
    post = OutboxHarness(store, {"fake": channel})
    channel.script(SendFault.UNCERTAIN)
    async with post.running():
        await post.say("k", "once")
        await post.tried("k", 1)
        post.advance(3601)
        row = await post.ended("k")

    assert (row.state, channel.texts()) == ("uncertain", ["once"])


class Remembering(FakeChannel):
    """Can look back, cannot be asked for a key, and deduplicates nothing."""

    def __init__(self) -> None:
        super().__init__(features=frozenset({Feature.EDIT, Feature.DELETE}))
        self.others: list[Inbound] = []

    async def history(self, address: str, before: int | None, limit: int) -> list[Inbound]:
        own = [(each.platform_id, each.message.text) for each in self.sent if each.message.op is Op.SEND]
        return [*self.others, *(make_own(platform_id, text) for platform_id, text in own)][-limit:]


def make_own(platform_id: str, text: str, at: int = NOON) -> Inbound:
    return Inbound(address=ROOM, platform_id=platform_id, sender=MYSELF, text=text, at=at)


async def show_draft(post: OutboxHarness, text: str) -> None:
    draft = {"text": text, GROWS: True}
    await post.do("t/draft/1", Op.SEND, None, draft, origin=EffectOrigin.STATUS)
    await post.tried("t/draft/1", 1)
    post.advance(1)


async def test_first_words_that_may_have_been_sent_are_found_in_the_room_and_never_sent_again(
    store: SqliteStore,
) -> None:
    channel = Remembering()
    post = OutboxHarness(store, {"fake": channel})
    async with post.running():
        await post.say("before", "Once")  # the same words, which the ledger knows
        await post.ended("before")
        channel.script(SendFault.UNCERTAIN)
        await show_draft(post, "Once")
        draft = await post.ended("t/draft/1")
    found = await store.read(messages.get, draft.message_id)
    assert found is not None
    assert (draft.state, found.platform_id) == ("sent", channel.sent[1].platform_id)
    assert channel.texts() == ["Once", "Once"]


@pytest.mark.parametrize(
    "others",
    [
        (),
        (make_own("o-1", "Once upon"),),
        (make_own("o-1", "Once", NOON - 2 * MINUTE),),
        (make_own("o-1", "Once"), make_own("o-2", "Once")),
        (Inbound(address=ROOM, platform_id="o-1", sender="fake:user/1", text="Once", at=NOON),),
        (replace(make_own("o-1", "Once"), thread="another"),),
    ],
    ids=["nothing", "another text", "too old", "two of them", "somebody else's", "another thread"],
)
async def test_first_words_that_are_not_found_for_certain_stay_uncertain(
    store: SqliteStore, others: tuple[Inbound, ...]
) -> None:
    channel = Remembering()
    channel.others += others
    channel.script(SendFault.UNCERTAIN_LOST)
    post = OutboxHarness(store, {"fake": channel})
    async with post.running():
        await show_draft(post, "Once")
        draft = await post.ended("t/draft/1")
    assert (draft.state, len(channel.tried)) == ("uncertain", 1)


async def test_a_message_that_may_have_been_sent_is_not_looked_for_by_its_text(store: SqliteStore) -> None:
    channel = Remembering()
    channel.script(SendFault.UNCERTAIN)
    post = OutboxHarness(store, {"fake": channel})
    async with post.running():
        await post.say("k", "Once")
        assert (await post.ended("k")).state == "uncertain"
