"""Acts of an agent on messages that are there: its own, and other people's.

If a channel has no such verb, the call is refused before anything is written. The refusal names a call that works.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from gatepost.access.subjects import Subject
from gatepost.access.tiers import Tier
from gatepost.core.errors import Invalid, Unavailable, Unsupported
from gatepost.messages.outbound import Op
from gatepost.messages.text import clean
from gatepost.store.messages import outbox
from gatepost.store.messages.outbox import OutboxEffect
from gatepost.store.port import Db
from gatepost.store.rights.requests import BoundReads
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import Body, tool
from gatepost.tools.kit import outbox_effects
from gatepost.tools.kit.outbox_effects import MessageRef, Room, SendReceipt, Source

LONGEST_REACTION = 64
DISLIKE = "👎"


async def _read_own(call: ToolCall, arguments: Mapping[str, Any]) -> BoundReads:
    named = arguments["targetId"]

    def read(db: Db) -> BoundReads:
        return outbox_effects.bind_message(db, outbox_effects.find_own_message(db, call, named), named)

    return await call.read(read)


async def _read_source(call: ToolCall, arguments: Mapping[str, Any]) -> BoundReads:
    named = arguments["sourceMsgId"]

    def read(db: Db) -> BoundReads:
        found = outbox_effects.find_source(db, call, named)
        if outbox.has_unsent_edit(db, found.id):  # the platform may pass on the words before it, or refuse it
            raise Unavailable(f"message {named}", "its edit is not on the platform yet; try again once it is")
        return outbox_effects.bind_message(db, found, named)

    return await call.read(read)


async def _find_approval(call: ToolCall, arguments: Mapping[str, Any]) -> str:
    """Return why a person must agree, or '' if nobody must. A message that a person allowed is not changed or taken
    back without one."""
    return await outbox_effects.find_approval(call, arguments["targetId"])


@tool(
    tier=Tier.WORKER,
    scoped_by="chatJid",
    group="messages",
    effects=(Subject.SPEAK,),
    destructive=True,
    idempotent=True,
    reads=_read_own,
    holds_if=_find_approval,
)
async def edit(
    call: ToolCall,
    targetId: MessageRef,
    content: Annotated[Body, Meta(description="The whole new text.")],
    chatJid: Room = None,
) -> SendReceipt:
    """Replace the text of a message that you sent: to correct it, or to keep one status line current.

    Only your own messages. People may have read the old text: for news that they must not miss use reply.
    """
    outbox_effects.require_feature(call, Op.EDIT)
    said = outbox_effects.check_short_text(call, "content", content)
    return await outbox_effects.add_message_effect(
        call, Op.EDIT, lambda db: outbox_effects.find_own_message(db, call, targetId), text=said
    )


@tool(
    tier=Tier.AGENT,
    scoped_by="chatJid",
    group="messages",
    effects=(Subject.SPEAK, Subject.ERASE),
    destructive=True,
    idempotent=True,
    reads=_read_own,
    holds_if=_find_approval,
)
async def delete(call: ToolCall, targetId: MessageRef, chatJid: Room = None) -> SendReceipt:
    """Take back a message that you sent, when it should not stand there at all.

    Only your own messages. To correct one use edit; people may have read it, so say what was wrong with reply.
    """
    outbox_effects.require_feature(call, Op.DELETE)
    return await outbox_effects.add_message_effect(
        call, Op.DELETE, lambda db: outbox_effects.find_own_message(db, call, targetId)
    )


@tool(tier=Tier.WORKER, scoped_by="chatJid", group="messages", effects=(Subject.SPEAK,), idempotent=True)
async def like(
    call: ToolCall,
    targetId: MessageRef,
    reaction: Annotated[str, Meta(description="An emoji, or the platform's own word for one.")],
    chatJid: Room = None,
) -> SendReceipt:
    """React to a message with an emoji, when that says enough and words would be noise.

    For anything that needs words use reply.
    """
    outbox_effects.require_feature(call, Op.REACT)
    chosen = clean(reaction).strip()
    if not chosen or len(chosen) > LONGEST_REACTION:
        raise Invalid("reaction", "must be one emoji, or the platform's word for one")
    return await _react(call, targetId, chosen)


@tool(tier=Tier.AGENT, scoped_by="chatJid", group="messages", effects=(Subject.SPEAK,), idempotent=True)
async def dislike(call: ToolCall, targetId: MessageRef, chatJid: Room = None) -> SendReceipt:
    """Disagree with a message by a thumb down, when no reason is needed.

    For another reaction use like, to say why use reply.
    """
    outbox_effects.require_feature(call, Op.REACT)
    return await _react(call, targetId, DISLIKE)


@tool(
    tier=Tier.AGENT,
    scoped_by="chatJid",
    former_names=("targetJid",),
    also_scoped_by=("sourceJid",),
    group="messages",
    effects=(Subject.SPEAK, Subject.HAND_OUT),
    reads=_read_source,
)
async def forward(
    call: ToolCall,
    sourceMsgId: MessageRef,
    chatJid: Annotated[str, Meta(min_length=1, description="The room that it goes to.")],
    comment: Annotated[Body, Meta(description="Words of yours that go with it.")] = "",
    sourceJid: Source = None,
) -> SendReceipt:
    """Give a message to another room as it is, under its author's name.

    To answer it where it stands use reply; on a feed use repost, or quote to comment on it.
    """
    return await _share_message(call, Op.FORWARD, sourceMsgId, _comment(call, comment) if comment else "")


@tool(
    tier=Tier.AGENT,
    scoped_by="chatJid",
    also_scoped_by=("sourceJid",),
    group="messages",
    effects=(Subject.SPEAK, Subject.PUBLISH),
    reads=_read_source,
)
async def quote(
    call: ToolCall,
    sourceMsgId: MessageRef,
    comment: Annotated[Body, Meta(description="What you say about it.")],
    chatJid: Room = None,
    sourceJid: Source = None,
) -> SendReceipt:
    """Publish somebody's message on your own feed with a comment of yours.

    Without a comment use repost; to talk to its author use reply; to give it to a room use forward.
    """
    return await _share_message(call, Op.QUOTE, sourceMsgId, _comment(call, comment))


@tool(
    tier=Tier.AGENT,
    scoped_by="chatJid",
    also_scoped_by=("sourceJid",),
    group="messages",
    effects=(Subject.SPEAK, Subject.PUBLISH),
    reads=_read_source,
)
async def repost(
    call: ToolCall, sourceMsgId: MessageRef, chatJid: Room = None, sourceJid: Source = None
) -> SendReceipt:
    """Share somebody's message on your own feed as it is: a boost.

    To comment on it use quote, to give it to a room use forward, to show that you like it use like.
    """
    return await _share_message(call, Op.REPOST, sourceMsgId, "")


@tool(tier=Tier.AGENT, scoped_by="chatJid", group="messages", effects=(Subject.SPEAK,), idempotent=True)
async def pin_message(call: ToolCall, targetId: MessageRef, chatJid: Room = None) -> SendReceipt:
    """Pin a message, anybody's, so that people find it: a status that you keep current by edit, a decision, a link.

    Unpin what no longer holds with unpin_message.
    """
    outbox_effects.require_feature(call, Op.PIN)
    return await outbox_effects.add_message_effect(
        call, Op.PIN, lambda db: outbox_effects.find_target(db, call, targetId)
    )


@tool(tier=Tier.AGENT, scoped_by="chatJid", group="messages", effects=(Subject.SPEAK,), idempotent=True)
async def unpin_message(call: ToolCall, targetId: MessageRef, chatJid: Room = None) -> SendReceipt:
    """Take the pin off one message; the message stays.

    For all of them at once use unpin_all, to take the message back use delete.
    """
    outbox_effects.require_feature(call, Op.UNPIN)
    return await outbox_effects.add_message_effect(
        call, Op.UNPIN, lambda db: outbox_effects.find_target(db, call, targetId)
    )


@tool(
    tier=Tier.AGENT, scoped_by="chatJid", group="messages", effects=(Subject.SPEAK,), destructive=True, idempotent=True
)
async def unpin_all(call: ToolCall, chatJid: Room = None) -> SendReceipt:
    """Take the pins off every message of a room, other people's too. Only when that is what they want.

    For one message use unpin_message.
    """
    outbox_effects.require_feature(call, Op.UNPIN_ALL)
    return await outbox_effects.commit_effects(
        call, lambda db: [outbox_effects.add_effect(db, call, Op.UNPIN_ALL, {}, call.place.thread)]
    )


async def _react(call: ToolCall, named: int | str, reaction: str) -> SendReceipt:
    """A reaction that the platform does not have is refused before any row is written."""
    channels, place = call.deps.channels, call.place
    if hint := channels.explain_reaction(place.instance, place.address, reaction):
        raise Unsupported(call.tool, channels.get_kind(place.instance).name, hint)
    return await outbox_effects.add_message_effect(
        call, Op.REACT, lambda db: outbox_effects.find_target(db, call, named), reaction=reaction
    )


def _comment(call: ToolCall, comment: str) -> str:
    return outbox_effects.check_short_text(call, "comment", comment)


async def _share_message(call: ToolCall, op: Op, named: int | str, comment: str) -> SendReceipt:
    outbox_effects.require_feature(call, op)
    origin = call.also["sourceJid"].instance

    def add(db: Db) -> list[OutboxEffect]:
        found = outbox_effects.find_source(db, call, named)
        if found.instance != call.place.instance:
            raise Unsupported(call.tool, _between(call, origin), "use send with its text, and say whose it is")
        return [outbox_effects.add_effect(db, call, op, {"text": comment}, call.place.thread, comment, found.id)]

    return await outbox_effects.commit_effects(call, add)


def _between(call: ToolCall, origin: str) -> str:
    """A platform passes on what is its own."""
    return f"{call.deps.channels.get_kind(origin).name} to {call.deps.channels.get_kind(call.place.instance).name}"
