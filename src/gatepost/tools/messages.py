"""Words of an agent: send, reply, post, send_file. Each is a committed outbox row before the call returns."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from gatepost.access.subjects import Subject
from gatepost.access.tiers import Tier
from gatepost.flow.delivery.outgoing_messages import OutgoingMessage, add_outgoing_message
from gatepost.messages.outbound import Op, OutboundFile
from gatepost.store.messages import inbox
from gatepost.store.messages.outbox import EffectOrigin, OutboxEffect
from gatepost.store.port import Db
from gatepost.store.rights.requests import BoundReads
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import Body, tool
from gatepost.tools.kit import outbox_effects, outgoing_files
from gatepost.tools.kit.outbox_effects import Room, SendReceipt, Seq

MOST_MEDIA = 20

Media = Annotated[list[str], Meta(max_length=MOST_MEDIA)]
RepliedMessageRef = Annotated[
    Seq | str | None,
    Meta(description="A message's number, or its platform id. Default: the newest of this turn."),
]


@tool(tier=Tier.AGENT, scoped_by="chatJid", group="messages", effects=(Subject.SPEAK,), core=True)
async def send(
    call: ToolCall, text: Annotated[Body, Meta(description="Markdown.")], chatJid: Room = None
) -> SendReceipt:
    """Say something new, such as news in another room. Your final answer is delivered by itself: do not send it."""
    said = outbox_effects.check_text("text", text)
    return await outbox_effects.commit_effects(call, lambda db: _add_message(db, call, said))


@tool(tier=Tier.WORKER, scoped_by="chatJid", group="messages", effects=(Subject.SPEAK,), core=True)
async def reply(
    call: ToolCall,
    text: Annotated[Body, Meta(description="Markdown.")],
    chatJid: Room = None,
    replyToId: RepliedMessageRef = None,
) -> SendReceipt:
    """Answer one message among several, or while you are still at work. Your final answer is delivered by itself."""
    said = outbox_effects.check_text("text", text)
    return await outbox_effects.commit_effects(
        call, lambda db: _add_message(db, call, said, answers=_find_replied(db, call, replyToId))
    )


async def _read_media(call: ToolCall, arguments: Mapping[str, Any]) -> BoundReads:
    return await outgoing_files.freeze_files(call, arguments.get("media") or (), "media")


async def _read_file(call: ToolCall, arguments: Mapping[str, Any]) -> BoundReads:
    return await outgoing_files.freeze_files(call, [arguments["filepath"]], "filepath")


@tool(
    tier=Tier.AGENT,
    scoped_by="chatJid",
    group="messages",
    effects=(Subject.SPEAK, Subject.PUBLISH, Subject.HAND_OUT),
    reads=_read_media,
)
async def post(
    call: ToolCall,
    content: Annotated[Body, Meta(description="What to publish. Markdown.")],
    media: Annotated[Media | None, Meta(description="Files that go with it, named as for send_file.")] = None,
    chatJid: Room = None,
) -> SendReceipt:
    """Publish something of your own on a feed (a toot, a submission, an announcement) that answers nobody.

    To talk to people in a room use send, to answer them reply, to give them a file send_file.
    """
    outbox_effects.require_feature(call, Op.POST)
    said = outbox_effects.check_short_text(call, "content", content)

    async with outgoing_files.copy_files(call, media or (), "media") as given:

        def publish(db: Db) -> list[OutboxEffect]:
            payload = {"text": said, "files": outbox_effects.render_files(given)}
            return [outbox_effects.add_effect(db, call, Op.POST, payload, call.place.thread, said)]

        return await outbox_effects.commit_effects(call, publish)


@tool(
    tier=Tier.WORKER,
    scoped_by="chatJid",
    group="messages",
    effects=(Subject.SPEAK, Subject.HAND_OUT),
    reads=_read_file,
    core=True,
)
async def send_file(
    call: ToolCall,
    filepath: Annotated[str, Meta(description="Relative, or in /workspace/agent or /workspace (not in/).")],
    filename: Annotated[str | None, Meta(description="The name that people see.")] = None,
    caption: Annotated[Body | None, Meta(description="Its text.")] = None,
    chatJid: Room = None,
    replyToId: RepliedMessageRef = None,
) -> SendReceipt:
    """Give people a file. Its caption is the message: do not send the text again."""
    said = outbox_effects.check_text("caption", caption) if caption else ""
    async with outgoing_files.copy_files(call, [filepath], "filepath", filename or "") as given:

        def give(db: Db) -> list[OutboxEffect]:
            answers = _find_replied(db, call, replyToId) if replyToId is not None else None
            return _add_message(db, call, said, files=given, answers=answers)

        return await outbox_effects.commit_effects(call, give)


def _add_message(
    db: Db,
    call: ToolCall,
    text: str,
    files: tuple[OutboundFile, ...] = (),
    answers: tuple[int, int | None] | None = None,
) -> list[OutboxEffect]:
    place, turn = call.place, call.turn
    reply_to_id, in_reply_to = answers or (None, None)
    here = turn is not None and (turn.instance, turn.address) == (place.instance, place.address)
    new = OutgoingMessage(
        key=call.key,
        origin=EffectOrigin.TOOL,
        instance=place.instance,
        address=place.address,
        thread=place.thread,
        topic=turn.topic if turn is not None and here else "",
        text=text,
        folder=call.caller.folder,
        session_id=call.caller.session_id,
        turn_id=turn.id if turn else None,
        attempt=turn.attempt if turn else 1,
        reply_to_id=reply_to_id,
        in_reply_to=in_reply_to,
        files=files,
    )
    return add_outgoing_message(db, outbox_effects.get_channels(call), new, call.now)


def _find_replied(db: Db, call: ToolCall, named: int | str | None) -> tuple[int, int | None] | None:
    """(id, seq) of the message answered; None: there is nothing in this turn to answer."""
    if named is not None:
        found = outbox_effects.find_message(db, call, named, "replyToId")
        return found.id, outbox_effects.parse_seq(named)
    if call.turn is None or (call.turn.instance, call.turn.address) != (call.place.instance, call.place.address):
        return None
    return inbox.find_last_of_people(db, call.turn.id)
