"""Handing to intake what a platform brought."""

from collections.abc import Iterable
from functools import partial

from gatepost.channels.contract import Receive
from gatepost.channels.kit.room_queues import RoomQueues
from gatepost.core import log
from gatepost.core.errors import Invalid
from gatepost.messages.inbound import Inbound, Receipt, UnrecordedState, Verb
from gatepost.messages.text import may_stop

LOG = log.get("channels")


async def receive_batch(events: Iterable[Inbound], receive: Receive) -> None:
    """Returns once all of them are durable: only then may the cursor move."""
    receive = skip_invalid(receive)
    async with RoomQueues() as queues:
        for event in events:
            urgent = event.event == "message" and may_stop(event.text)
            await queues.put(event.address, partial(receive, event), urgent=urgent)
        await queues.drain()


def skip_invalid(receive: Receive) -> Receive:
    """The same, but an event that intake will never take is left out, and logged. A platform brings it again and again
    until it is confirmed: one event of a stranger would keep back those of everybody."""

    async def receive_valid(event: Inbound) -> Receipt:
        try:
            return await receive(event)
        except Invalid as error:
            LOG.warning("an event that cannot be taken was left out", address=event.address[:80], error=str(error))
            return Receipt(message_id=0, new=False, state=UnrecordedState.INVALID)

    return receive_valid


# A change of a message, told as the message itself.


def make_edit(message: Inbound, revision: object, at: int | None = None) -> Inbound:
    """The same message with its new text. Its files were received with it. `revision` tells one edit from the next."""
    return _change(message, f"edit:{revision}", Verb.EDIT, message.text, at)


def make_deletion(message: Inbound) -> Inbound:
    return _change(message, "delete", Verb.DELETE, "", None)


def _change(message: Inbound, event: str, verb: Verb, text: str, at: int | None) -> Inbound:
    return Inbound(
        address=message.address,
        platform_id=message.platform_id,
        sender=message.sender,
        sender_name=message.sender_name,
        text=text,
        event=event,
        verb=verb,
        thread=message.thread,
        direct=message.direct,
        own=message.own,
        room_name=message.room_name,
        at=at,
    )
