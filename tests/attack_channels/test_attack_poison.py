"""One event of a stranger that intake refuses as the channel's own mistake: it comes again and again, and nobody else's
is received."""

import asyncio

from gatepost.channels.kit.room_queues import RoomQueues
from gatepost.channels.signal.wire import OwnAccount, read_event
from gatepost.channels.whatsapp.wire import read_messages
from gatepost.core.errors import Invalid
from gatepost.core.settings import Config
from gatepost.flow.intake.intake import make_arrival
from gatepost.messages.inbound import Inbound

ANN = "11111111-2222-3333-4444-555555555555"
OWN = OwnAccount("+491234567", frozenset({"+491234567"}))


def is_taken(inbound: Inbound) -> bool:
    try:
        make_arrival("it", inbound, Config(), 1, 0)
    except Invalid:
        return False
    return True


def test_a_reaction_on_signal_with_a_long_emoji_does_not_stop_the_channel() -> None:
    """Signal's server cannot check an emoji, which is encrypted. Invalid comes out of RoomQueues and of `listen`; the
    cursor stands before the event, so it is the first one after every restart."""
    reaction = {"emoji": "x" * 600, "targetAuthorNumber": "+491234567", "targetSentTimestamp": 1_700_000_000_000}
    data = {"timestamp": 1_700_000_000_001, "reaction": reaction}
    read = read_event({"envelope": {"sourceUuid": ANN, "dataMessage": data}}, OWN, lambda file, room: None)  # type: ignore[arg-type,return-value]
    assert read is None or is_taken(read)


def test_a_reaction_on_whatsapp_with_a_long_emoji_does_not_keep_back_what_came_with_it() -> None:
    reaction = {"type": "reaction", "from": "491234567", "id": "wamid.1"}
    reaction |= {"reaction": {"emoji": "x" * 600, "message_id": "wamid.0"}}  # type: ignore[dict-item]
    (read,) = read_messages({"messages": [reaction]}, lambda media: None)  # type: ignore[arg-type,return-value]
    assert is_taken(read)


async def test_an_event_that_intake_refuses_for_good_does_not_end_the_events_of_other_rooms() -> None:
    """The general case, of the kit: one bad event ends every room's queue, and the listener."""
    received: list[str] = []

    async def refuse() -> None:
        raise Invalid("event", "an event needs one of at most 512 characters")

    async def take() -> None:
        received.append("hello")

    try:
        async with asyncio.timeout(5), RoomQueues() as queues:
            await queues.put("eve", refuse)
            for _ in range(5):
                await asyncio.sleep(0)
            await queues.put("ann", take)
            for _ in range(5):
                await asyncio.sleep(0)
    except Invalid:
        pass
    assert received == ["hello"]
