"""An answer while it is written: what a runner sends of it, and when. The runner's process is real where it says so."""

import asyncio
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.inside.drafts import LONGEST_WRITTEN, DraftSender, GrowingText, count_common
from gatepost.mailbox import runner_frames
from gatepost.mailbox.runner_frames import LONGEST_DRAFT, DraftFrame
from gatepost_testing.waiting import PATIENCE_S

if TYPE_CHECKING:
    from tests.inside.conftest import Host
else:
    Host = object


class Receiver:
    """The host's side: what the frames come to."""

    def __init__(self) -> None:
        self.frames: list[DraftFrame] = []
        self.text = ""
        self._changed = asyncio.Event()

    def receive(self, frame: DraftFrame) -> None:
        runner_frames.encode_frame(frame)
        assert frame.kept <= len(self.text)
        self.frames.append(frame)
        self.text = self.text[: frame.kept] + frame.text
        self._changed.set()

    async def until(self, text: str) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.text != text:
                self._changed.clear()
                await self._changed.wait()


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
def sender(receiver: Receiver) -> DraftSender:
    made = DraftSender(receiver.receive)
    made.begin("t-1", 4)
    return made


async def test_nothing_is_sent_while_nobody_watches(sender: DraftSender, receiver: Receiver) -> None:
    sender.write("Hello")
    sender.end(sent=False)
    assert receiver.frames == []


async def test_the_first_words_go_out_at_once_and_name_their_turn(sender: DraftSender, receiver: Receiver) -> None:
    sender.watch(True)
    sender.write("Hello")
    assert receiver.frames == [DraftFrame(turn="t-1", epoch=4, text="Hello")]


async def test_words_that_come_together_are_one_frame_with_what_is_new(sender: DraftSender, receiver: Receiver) -> None:
    sender.watch(True)
    for size in range(1, 500):
        sender.write("x" * size)
    await receiver.until("x" * 499)
    assert [(frame.kept, len(frame.text)) for frame in receiver.frames] == [(0, 1), (1, 498)]


async def test_who_begins_to_watch_gets_what_is_written_already(sender: DraftSender, receiver: Receiver) -> None:
    sender.write("Hello, you")
    sender.watch(True)
    await receiver.until("Hello, you")
    sender.watch(False)
    sender.write("Hello, you there")
    sender.watch(True)
    await receiver.until("Hello, you there")
    assert [frame.kept for frame in receiver.frames] == [0, 0]


async def test_a_message_that_begins_anew_keeps_what_is_the_same(sender: DraftSender, receiver: Receiver) -> None:
    sender.watch(True)
    sender.write("The answer is one")
    sender.write("The answer was two")
    await receiver.until("The answer was two")
    assert receiver.frames[-1].kept == len("The answer ")


async def test_what_does_not_become_a_message_is_taken_back_and_what_does_is_not(
    sender: DraftSender, receiver: Receiver
) -> None:
    sender.watch(True)
    sender.write("Hmm")
    sender.end(sent=False)
    assert receiver.text == "" and len(receiver.frames) == 2
    sender.write("Hello")
    await receiver.until("Hello")
    sender.end(sent=True)
    sender.end(sent=False)
    assert len(receiver.frames) == 3


async def test_a_draft_is_bounded_and_a_cut_character_is_joined(sender: DraftSender, receiver: Receiver) -> None:
    sender.watch(True)
    sender.write("well " + "\ud83d")
    await receiver.until("well")
    sender.write("well " + "\ud83d" + "\ude00")
    await receiver.until("well 😀")
    sender.write("y" * 200_000)
    await receiver.until("y" * LONGEST_DRAFT)


@pytest.mark.slow
@given(st.lists(st.text(max_size=5), max_size=20), st.sets(st.integers(0, 20)))
def test_a_growing_text_is_its_pieces_whenever_somebody_looks(pieces: list[str], looks: set[int]) -> None:
    growing = GrowingText()
    for number in range(len(pieces) + 1):
        if number in looks:
            assert growing.join(pieces[:number]) == "".join(pieces[:number])


def test_a_text_grows_no_longer_than_a_draft_can_use() -> None:
    growing, pieces = GrowingText(), ["x" * 1000] * 500
    assert max(len(growing.join(pieces[:number])) for number in range(500)) < LONGEST_WRITTEN + 1001


@given(st.text(max_size=40), st.text(max_size=40))
def test_what_two_texts_begin_with_is_counted(before: str, after: str) -> None:
    kept = count_common(before, after)
    assert before[:kept] == after[:kept]
    assert before[kept : kept + 1] != after[kept : kept + 1] or kept == len(before) == len(after)


# The runner's process.

WRITES = {
    "turns": [
        {"when": "slow", "do": [{"draft": "Hel"}, {"draft": "Hello <think>psst"}, {"wait_for": "go"}, {"say": "Hello"}]}
    ]
}


async def test_a_runner_that_nobody_watches_sends_no_drafts(host: Host) -> None:
    await host.start(script=WRITES)
    (host.root / "ws" / "agent" / "go").touch()
    host.add("slow")
    await host.until(host.answered)
    assert host.said == ["Hello"]
    assert host.of(DraftFrame) == []


async def test_a_runner_that_is_watched_sends_what_is_written_before_it_is_said(host: Host) -> None:
    await host.start(script=WRITES)
    await host.until(lambda: host.of(runner_frames.ClaimFrame))
    host.say(runner_frames.WatchFrame(on=True))
    host.add("slow")
    await host.until(lambda: "".join(each.text for each in host.of(DraftFrame)) == "Hello")
    assert host.said == []
    (host.root / "ws" / "agent" / "go").touch()
    await host.until(host.answered)

    assert host.said == ["Hello"]
    assert {(each.turn, each.epoch) for each in host.of(DraftFrame)} == {("t-1", 1)}
    assert "psst" not in str(host.of(DraftFrame))
