"""What counts as the answer to a message, and whose name a terminal may take."""

import asyncio

import pytest

from gatepost.channels.contract import ChannelDeps
from gatepost.channels.terminal import TerminalChannel
from gatepost.core.clock import SystemClock
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.settings import Config
from gatepost.messages.inbound import Inbound
from gatepost.serve.control.terminal_chat import TerminalMessage, parse_message, read_outcome, wait_for_outcome
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost_testing.waiting import PATIENCE_S

ROOM = "terminal:main"


@pytest.fixture
def hub() -> TerminalChannel:
    return TerminalChannel(ChannelDeps(instance="terminal", config=Config(), clock=SystemClock()))


def hello(key: str = "k1", text: str = "hello") -> Inbound:
    return Inbound(address=ROOM, platform_id=key, sender="terminal:owner", text=text)


def test_whoever_names_nothing_is_the_owner_in_the_main_room(hub: TerminalChannel) -> None:
    inbound = parse_message(TerminalMessage(text="hi"), hub)

    assert (inbound.address, inbound.sender, inbound.thread) == ("terminal:main", "terminal:owner", "")
    assert inbound.platform_id


@pytest.mark.parametrize("name", ["alice", "terminal:alice"])
def test_a_name_is_always_a_terminal_sender(hub: TerminalChannel, name: str) -> None:
    assert parse_message(TerminalMessage(text="hi", sender=name, room="ops"), hub).sender == "terminal:alice"


@pytest.mark.parametrize("name", ["telegram:user/9", "a b", " ", "/", "x" * 65])
def test_a_name_of_another_platform_or_no_name_at_all_is_refused(hub: TerminalChannel, name: str) -> None:
    with pytest.raises(Invalid):
        parse_message(TerminalMessage(text="hi", sender=name), hub)


@pytest.mark.parametrize("room", ["web:home", "a b", "x" * 600])
def test_a_room_of_another_platform_or_no_room_at_all_is_refused(hub: TerminalChannel, room: str) -> None:
    with pytest.raises(Invalid, match="room"):
        parse_message(TerminalMessage(text="hi", room=room), hub)


def test_nothing_is_not_sent_and_text_is_cleaned(hub: TerminalChannel) -> None:
    with pytest.raises(Invalid, match="text"):
        parse_message(TerminalMessage(text=" \n"), hub)
    assert parse_message(TerminalMessage(text="a\x00b\ud800"), hub).text == "ab?"


async def test_an_answer_is_what_its_turn_said_in_that_room(store: SqliteStore, terminal) -> None:
    receipt = await terminal.hub.submit(hello())

    answer = await wait_for_outcome(store, terminal.hub, receipt.message_id, 10, asyncio.Event())

    assert answer.done and answer.state == "answered"
    assert [reply.text for reply in answer.replies] == ["You said: hello"]
    assert [reply.state for reply in answer.replies] == ["sent"]


async def test_a_wait_that_began_before_the_answer_gets_it(store: SqliteStore, terminal) -> None:
    terminal.by_itself = False
    receipt = await terminal.hub.submit(hello())
    waiting = asyncio.create_task(wait_for_outcome(store, terminal.hub, receipt.message_id, 30, asyncio.Event()))

    await terminal.answer(receipt.message_id)

    assert (await asyncio.wait_for(waiting, PATIENCE_S)).state == "answered"


async def test_a_wait_that_runs_out_tells_how_far_it_is(store: SqliteStore, terminal) -> None:
    terminal.by_itself = False
    receipt = await terminal.hub.submit(hello())

    answer = await wait_for_outcome(store, terminal.hub, receipt.message_id, 0, asyncio.Event())

    assert (answer.done, answer.state, answer.replies) == (False, "queued", ())


async def test_failed_and_refused_messages_have_a_reason_and_no_reply(store: SqliteStore, terminal) -> None:
    terminal.by_itself = False
    failed = await terminal.hub.submit(hello("k1"))
    await terminal.fail(failed.message_id, "the provider is out of order")
    refused = await terminal.hub.submit(hello("k2", "refuse me"))

    first = await store.read(read_outcome, failed.message_id)
    second = await store.read(read_outcome, refused.message_id)

    assert (first.done, first.state, first.reason) == (True, "failed", "the provider is out of order")
    assert (second.done, second.state, second.reason) == (True, "refused", "nobody is wired to this room")


async def test_a_message_that_is_not_there_is_named(store: SqliteStore) -> None:
    with pytest.raises(NotFound, match="999"):
        await store.read(read_outcome, 999)
