"""What becomes of an event that intake will never take: the others are received, in batches and by hooks."""

import pytest

from gatepost.channels.contract import ChannelDeps
from gatepost.channels.kit.hooks import HookInbox
from gatepost.channels.kit.receiving import receive_batch
from gatepost.core.clock import SystemClock
from gatepost.core.errors import Invalid, Unavailable
from gatepost.core.settings import Config
from gatepost.messages.inbound import Inbound, Receipt, UnrecordedState


def make_event(room: str, text: str) -> Inbound:
    return Inbound(address=f"toy:{room}", platform_id=text, sender="toy:user/eve", text=text)


class Choosy:
    """Intake, which refuses some events for good."""

    def __init__(self) -> None:
        self.taken: list[str] = []

    async def receive(self, event: Inbound) -> Receipt:
        if event.text == "poison":
            raise Invalid("event", "an event needs one of at most 512 characters")
        self.taken.append(event.text)
        return Receipt(message_id=len(self.taken), new=True, state="queued")


EVENTS = [make_event("a", "poison"), make_event("a", "first"), make_event("b", "second")]


async def test_a_batch_is_received_without_the_event_that_is_refused_for_good() -> None:
    intake = Choosy()
    await receive_batch(EVENTS, intake.receive)
    assert sorted(intake.taken) == ["first", "second"]


def make_inbox() -> HookInbox:
    return HookInbox(ChannelDeps(instance="it", config=Config(), clock=SystemClock()))


async def test_a_hook_brings_what_came_with_an_event_that_is_refused_for_good() -> None:
    intake, inbox = Choosy(), make_inbox()
    async with inbox.open(intake.receive):
        await inbox.receive(EVENTS)
        receipt = await inbox.receive_one(EVENTS[0])
    assert intake.taken == ["first", "second"]
    assert (receipt.new, receipt.state) == (False, UnrecordedState.INVALID)


async def test_a_program_that_posts_an_event_is_told_that_it_is_refused_if_its_channel_says_so() -> None:
    intake, inbox = Choosy(), make_inbox()
    async with inbox.open(intake.receive, skips_invalid=False):
        with pytest.raises(Invalid):
            await inbox.receive_one(EVENTS[0])


async def test_a_hook_is_asked_to_come_again_while_nobody_listens() -> None:
    inbox = make_inbox()
    with pytest.raises(Unavailable):
        await inbox.receive(EVENTS)
    async with inbox.open(Choosy().receive):
        pass
    with pytest.raises(Unavailable):
        await inbox.receive(EVENTS)
