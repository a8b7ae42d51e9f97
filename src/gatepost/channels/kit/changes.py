"""The outcome of a message, told by the message itself. Pure."""

from gatepost.messages.inbound import Inbound, Verb


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
