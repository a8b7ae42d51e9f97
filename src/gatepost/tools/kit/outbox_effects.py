"""Common parts of the tools that speak: rows of the outbox, and the messages that they name.

A message is named by the number that the agent sees (`seq`), or by the platform's id. A number is the session's own
if the session has it; agents see no other. Each effect is a committed row before its call returns.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gatepost.core.errors import GatepostError, Invalid, NotFound, Refused, Unavailable
from gatepost.flow.delivery import content_fallback
from gatepost.flow.delivery.outgoing_messages import MOST_RESULTS, ChannelInstances
from gatepost.flow.intake.engagement import extend_by_reply
from gatepost.messages.inbound import Direction, MessageKind
from gatepost.messages.outbound import MESSAGES, Op, OutboundFile
from gatepost.messages.text import clean
from gatepost.messages.text_size import fits, measure
from gatepost.store.messages import messages, outbox
from gatepost.store.messages.messages import Message
from gatepost.store.messages.outbox import EffectOrigin, EffectState, NewEffect, OutboxEffect
from gatepost.store.port import Db, LockKind
from gatepost.store.rights import requests
from gatepost.store.rights.requests import BoundFact, BoundKind, BoundReads
from gatepost.store.rooms import engagements
from gatepost.store.schedule import scheduled_texts
from gatepost.tools.call import ReachableRoom, ToolCall

LONGEST_TEXT = 100_000  # characters; more is a file
LONGEST_BOUND = 30_000  # characters that are kept to be shown; nobody can allow what is longer

Room = Annotated[str | None, Meta(description="Default: the room of this turn.")]
Source = Annotated[str | None, Meta(description="Where the source message is. Default: the room of this turn.")]
Seq = Annotated[int, Meta(ge=0, le=2**53)]
MessageRef = Annotated[Seq | str, Meta(description="A message's number, or its platform id.")]


class SendReceipt(msgspec.Struct, frozen=True, omit_defaults=True):
    """It is on its way; `seq` is its number, by which it can be named. `id`: the platform's, if it is known already."""

    ok: bool
    seq: int
    id: str | None = None


async def commit_effects(call: ToolCall, effects: Callable[[Db], Sequence[OutboxEffect]]) -> SendReceipt:
    def both(db: Db) -> SendReceipt:
        _check_room(db, call)
        first = effects(db)[0]
        _extend_engagement(db, call, first)
        known = messages.get(db, first.message_id) if first.state == EffectState.SENT else None
        return SendReceipt(True, first.seq, known.platform_id if known else None)

    return await call.write_to_room(both)


def _extend_engagement(db: Db, call: ToolCall, said: OutboxEffect) -> None:
    """Extend the engagement if a turn speaks by a tool in the room where it was asked. That counts like its final
    answer."""
    turn = call.turn
    if turn is None or said.op not in MESSAGES:
        return
    if (said.instance, said.address, said.thread) == (turn.instance, turn.address, turn.thread):
        engaged = engagements.get(db, turn.instance, turn.address, turn.thread, turn.folder)
        if engaged is not None and not engaged.is_fresh(call.now):
            extend_by_reply(db, turn, call.now)


def _check_room(db: Db, call: ToolCall) -> None:
    """A turn is as bounded in what its tools do outside as in what it says, and has no effect once it was stopped."""
    session_id, turn = call.caller.session_id, call.turn
    if session_id is None:
        return
    most = call.deps.config[MOST_RESULTS]
    db.lock(LockKind.SESSION, session_id)
    use = outbox.count_by_tools(db, session_id, turn.id if turn else None, most - 1)
    if use.failed:
        raise Refused(call.caller.folder, call.tool, call.place.address, "the turn was ended before this call")
    if use.effects >= most:
        why = f"a turn may send and do {most} things at most ({MOST_RESULTS.name}); come to a close"
        raise Refused(call.caller.folder, call.tool, call.place.address, why)


async def add_message_effect(
    call: ToolCall, op: Op, on: Callable[[Db], Message], text: str = "", **payload: str
) -> SendReceipt:
    """An effect on a message that is there, in the room of the call."""

    def add(db: Db) -> list[OutboxEffect]:
        found = on(db)
        said = {"text": text, **payload} if text else dict(payload)
        return [add_effect(db, call, op, said, found.thread, text or payload.get("reaction", ""), found.id)]

    return await commit_effects(call, add)


def add_effect(
    db: Db, call: ToolCall, op: Op, payload: dict[str, Any], thread: str, text: str = "", target_id: int | None = None
) -> OutboxEffect:
    place, turn = call.place, call.turn
    return outbox.add(
        db,
        NewEffect(
            key=call.key,
            op=op,
            origin=EffectOrigin.TOOL,
            instance=place.instance,
            address=place.address,
            thread=thread,
            text=text,
            payload=payload,
            folder=call.caller.folder,
            session_id=call.caller.session_id,
            turn_id=turn.id if turn else None,
            attempt=turn.attempt if turn else 1,
            target_id=target_id,
        ),
        call.now,
    )


def render_files(files: Sequence[OutboundFile]) -> list[dict[str, Any]]:
    """Files as a row keeps them."""
    return [{"name": file.name, "mime": file.mime, "path": file.path, "size": file.size} for file in files]


def get_channels(call: ToolCall) -> ChannelInstances:
    channels = call.deps.channels
    if not isinstance(channels, ChannelInstances):
        raise Unavailable("delivery", "no channel runs in this process")
    return channels


def require_feature(call: ToolCall, op: Op) -> None:
    """A verb that the channel does not have is refused before any row is written."""
    channels, instance = call.deps.channels, call.place.instance
    content_fallback.check_supported(
        op, channels.get_kind(instance).features, channels.get_kind(instance).name, call.tool
    )


def check_text(field: str, text: str) -> str:
    """Return what is to be said, if it can be."""
    said = clean(text)
    if not said.strip():
        raise Invalid(field, "is empty")
    if len(said) > LONGEST_TEXT:
        raise Invalid(field, f"has {len(said)} characters, more than {LONGEST_TEXT}; write a file and use send_file")
    return said


def check_short_text(call: ToolCall, field: str, text: str) -> str:
    """Words that must go into one message."""
    said, channels, instance = check_text(field, text), call.deps.channels, call.place.instance
    most, unit = channels.get_kind(instance).max_text, channels.get_kind(instance).text_unit
    if not fits(said, most, unit):
        raise Invalid(field, f"has {measure(said, unit)} {unit}; one message takes {most} here")
    return said


def parse_seq(named: int | str) -> int | None:
    if isinstance(named, int):
        return named
    return int(named) if named.isascii() and named.isdecimal() and len(named) < 10 else None


def find_message(db: Db, call: ToolCall, named: int | str, field: str) -> Message:
    """The message that is meant, in the room of the call."""
    return find_message_in(db, call, named, field, "chatJid", call.place)


def find_target(db: Db, call: ToolCall, named: int | str) -> Message:
    """The message that something is done to, anybody's."""
    return _check_written(find_message(db, call, named, "targetId"), named, "targetId")


def find_source(db: Db, call: ToolCall, named: int | str) -> Message:
    """The message that is passed on: where `sourceJid` says, or, where nobody said, here."""
    found = find_message_in(db, call, named, "sourceMsgId", "sourceJid", call.also["sourceJid"], call.place)
    if found.direction == Direction.OUT and found.kind == MessageKind.SYSTEM:
        # Some of it is for one person alone: a link that signs its opener in.
        raise Invalid("sourceMsgId", f"{named} was said by the gateway itself, which is not passed on")
    if not found.platform_id and found.address != call.place.address:
        # Rooms are delivered to beside each other: the other one would not wait for this.
        raise Unavailable(f"message {named}", "it is not on the platform yet; try again once it is, or use send")
    return _check_written(found, named, "sourceMsgId")


def _check_written(found: Message, named: int | str, field: str) -> Message:
    if found.direction == Direction.IN and found.kind != MessageKind.CHAT:
        raise Invalid(field, f"{named} was not written in the room, so nothing can be done with it there")
    return found


def find_message_in(db: Db, call: ToolCall, named: int | str, field: str, room: str, *places: ReachableRoom) -> Message:
    """This session's number first, because agents see no other. It must lie in one of the rooms that the gate has let
    the call reach, whoever named it how."""
    found = _find_by_ref(db, call, named, places)
    if found is None:
        raise NotFound("message", str(named)[:80], "use the number that stands with the message")
    if not any((found.instance, found.address) == (place.instance, place.address) for place in places):
        raise Invalid(field, f"message {named} is not in this room; name its room in {room}")
    if found.direction == Direction.OUT and found.verb not in MESSAGES:
        raise Invalid(field, f"{named} is the number of a {found.verb}, not of a message")
    return found


def _find_by_ref(db: Db, call: ToolCall, named: int | str, places: Sequence[ReachableRoom]) -> Message | None:
    seq, session_id = parse_seq(named), call.caller.session_id
    found = messages.find_by_seq(db, session_id, seq) if session_id is not None and seq is not None else None
    if found is not None and found.direction == Direction.OUT and found.verb == Op.EDIT:
        return messages.get(db, int(found.content["target_id"]))  # an edit's number is as good as that of its message
    for place in places:
        for direction in Direction:
            found = found or messages.find(db, place.instance, place.address, direction, str(named))
    return found


def find_own_message(db: Db, call: ToolCall, named: int | str) -> Message:
    """A message of the group itself: what others said is theirs, and the platform's moderators'."""
    found = find_message(db, call, named, "targetId")
    if found.direction != Direction.OUT or found.folder != call.caller.folder:
        raise Refused(call.caller.folder, call.tool, f"message {named}", "only your own messages")
    return found


def bind_message(db: Db, message: Message, named: int | str) -> BoundReads:
    """A message as it stands, with its files: whoever agrees that something is done with it agrees to all of it."""
    last = messages.find_last_edit(db, message)
    text = last.text if last is not None else message.text
    files = [each for name in ("attachments", "files") for each in message.content.get(name) or ()]
    version = [message.id, last.id if last is not None else 0]
    facts = (bind_text(BoundKind.MESSAGE, str(named), text, version), *(_bind_file(each) for each in files))
    return BoundReads(facts=facts)


def bind_text(kind: BoundKind, name: str, text: str, version: Sequence[int] = ()) -> BoundFact:
    """A text, whole; or its beginning, with the length and the digest of the whole, which nobody can allow then."""
    digest = hashlib.sha256(msgspec.json.encode([*version, text])).hexdigest()
    if len(text) <= LONGEST_BOUND:
        return BoundFact(kind, name, digest, text)
    whole = hashlib.sha256(text.encode(errors="replace")).hexdigest()
    shown = f"{text[:LONGEST_BOUND]}… ({len(text)} characters, sha256 {whole})"
    return BoundFact(kind, name, digest, shown, cut=True)


def _bind_file(file: Any) -> BoundFact:
    """A file of a message, which is never changed: it is known by where it lies."""
    known = file if isinstance(file, dict) else {}
    digest = hashlib.sha256(msgspec.json.encode(file, order="sorted")).hexdigest()
    size = f"{known['size']:,} bytes" if isinstance(known.get("size"), int) else "of unknown size"
    shown = f"{size}, {known.get('mime') or 'of unknown kind'}, {digest[:16]}, goes along with the message"
    return BoundFact(BoundKind.FILE, str(known.get("name") or "without a name"), digest, shown)


async def find_approval(call: ToolCall, named: int | str) -> str:
    """Why a message of the group's own is not changed without a person: one allowed it as it is. '' if none did."""

    def find(db: Db) -> str:
        try:
            found = find_own_message(db, call, named)
        except GatepostError:  # the tool says so itself
            return ""
        by_call = requests.find_for_message(db, found.id)
        if by_call is not None:
            return f"the message was allowed as it is ({by_call.id})"
        task = scheduled_texts.find_task(db, found.id)
        agreed = task is not None and scheduled_texts.list_agreed(db, task)
        return f"the message is a text of {task} that was agreed to as it is" if agreed else ""

    return await call.read(find)
