"""What an agent does with messages that are there: its own, and other people's.

Where a channel has no such verb, the call is refused before anything is written, with a call that works.
"""

from typing import Annotated

from msgspec import Meta

from gatepost.access.tiers import Tier
from gatepost.core.errors import Invalid, Unsupported
from gatepost.messages.outbound import Op
from gatepost.messages.text import clean
from gatepost.store.outbox import Effect
from gatepost.store.port import Db
from gatepost.tools import effects
from gatepost.tools.contract import Body, Call, tool
from gatepost.tools.effects import Named, Room, Sent, Source

LONGEST_REACTION = 64
DISLIKE = "👎"


@tool(tier=Tier.WORKER, scoped_by="chatJid", group="messages", destructive=True, idempotent=True)
async def edit(
    call: Call,
    targetId: Named,
    content: Annotated[Body, Meta(description="The whole new text.")],
    chatJid: Room = None,
) -> Sent:
    """Replace the text of a message that you sent: to correct it, or to keep one status line current.

    Only your own messages. People may have read the old text: for news that they must not miss use reply.
    """
    effects.require(call, Op.EDIT)
    said = effects.fitting(call, "content", content)
    return await effects.act(call, Op.EDIT, lambda db: effects.own(db, call, targetId), text=said)


@tool(tier=Tier.AGENT, scoped_by="chatJid", group="messages", destructive=True, idempotent=True)
async def delete(call: Call, targetId: Named, chatJid: Room = None) -> Sent:
    """Take back a message that you sent, when it should not stand there at all.

    Only your own messages. To correct one use edit; people may have read it, so say what was wrong with reply.
    """
    effects.require(call, Op.DELETE)
    return await effects.act(call, Op.DELETE, lambda db: effects.own(db, call, targetId))


@tool(tier=Tier.WORKER, scoped_by="chatJid", group="messages", idempotent=True)
async def like(
    call: Call,
    targetId: Named,
    reaction: Annotated[str, Meta(description="An emoji, or the platform's own word for one.")],
    chatJid: Room = None,
) -> Sent:
    """React to a message with an emoji, when that says enough and words would be noise.

    For anything that needs words use reply.
    """
    effects.require(call, Op.REACT)
    chosen = clean(reaction).strip()
    if not chosen or len(chosen) > LONGEST_REACTION:
        raise Invalid("reaction", "must be one emoji, or the platform's word for one")
    return await _react(call, targetId, chosen)


@tool(tier=Tier.AGENT, scoped_by="chatJid", group="messages", idempotent=True)
async def dislike(call: Call, targetId: Named, chatJid: Room = None) -> Sent:
    """Disagree with a message by a thumb down, when no reason is needed.

    For another reaction use like, to say why use reply.
    """
    effects.require(call, Op.REACT)
    return await _react(call, targetId, DISLIKE)


@tool(tier=Tier.AGENT, scoped_by="targetJid", also_scoped_by=("sourceJid",), group="messages")
async def forward(
    call: Call,
    sourceMsgId: Named,
    targetJid: Annotated[str, Meta(min_length=1, description="The room that it goes to.")],
    comment: Annotated[Body, Meta(description="Words of yours that go with it.")] = "",
    sourceJid: Source = None,
) -> Sent:
    """Give a message to another room as it is, under its author's name.

    To answer it where it stands use reply; on a feed use repost, or quote to comment on it.
    """
    return await _pass_on(call, Op.FORWARD, sourceMsgId, _comment(call, comment) if comment else "")


@tool(tier=Tier.AGENT, scoped_by="chatJid", also_scoped_by=("sourceJid",), group="messages")
async def quote(
    call: Call,
    sourceMsgId: Named,
    comment: Annotated[Body, Meta(description="What you say about it.")],
    chatJid: Room = None,
    sourceJid: Source = None,
) -> Sent:
    """Publish somebody's message on your own feed with a comment of yours.

    Without a comment use repost; to talk to its author use reply; to give it to a room use forward.
    """
    return await _pass_on(call, Op.QUOTE, sourceMsgId, _comment(call, comment))


@tool(tier=Tier.AGENT, scoped_by="chatJid", also_scoped_by=("sourceJid",), group="messages")
async def repost(call: Call, sourceMsgId: Named, chatJid: Room = None, sourceJid: Source = None) -> Sent:
    """Share somebody's message on your own feed as it is: a boost.

    To comment on it use quote, to give it to a room use forward, to show that you like it use like.
    """
    return await _pass_on(call, Op.REPOST, sourceMsgId, "")


@tool(tier=Tier.AGENT, scoped_by="chatJid", group="messages", idempotent=True)
async def pin_message(call: Call, targetId: Named, chatJid: Room = None) -> Sent:
    """Pin a message, anybody's, so that people find it: a status that you keep current by edit, a decision, a link.

    Unpin what no longer holds with unpin_message.
    """
    effects.require(call, Op.PIN)
    return await effects.act(call, Op.PIN, lambda db: effects.target(db, call, targetId))


@tool(tier=Tier.AGENT, scoped_by="chatJid", group="messages", idempotent=True)
async def unpin_message(call: Call, targetId: Named, chatJid: Room = None) -> Sent:
    """Take the pin off one message; the message stays.

    For all of them at once use unpin_all, to take the message back use delete.
    """
    effects.require(call, Op.UNPIN)
    return await effects.act(call, Op.UNPIN, lambda db: effects.target(db, call, targetId))


@tool(tier=Tier.AGENT, scoped_by="chatJid", group="messages", destructive=True, idempotent=True)
async def unpin_all(call: Call, chatJid: Room = None) -> Sent:
    """Take the pins off every message of a room, other people's too. Only when that is what they want.

    For one message use unpin_message.
    """
    effects.require(call, Op.UNPIN_ALL)
    return await effects.commit(call, lambda db: [effects.effect(db, call, Op.UNPIN_ALL, {}, call.place.thread)])


async def _react(call: Call, named: int | str, reaction: str) -> Sent:
    return await effects.act(call, Op.REACT, lambda db: effects.target(db, call, named), reaction=reaction)


def _comment(call: Call, comment: str) -> str:
    return effects.fitting(call, "comment", comment)


async def _pass_on(call: Call, op: Op, named: int | str, comment: str) -> Sent:
    effects.require(call, op)
    origin = call.also["sourceJid"].instance

    def add(db: Db) -> list[Effect]:
        found = effects.source(db, call, named)
        if found.instance != call.place.instance:
            raise Unsupported(call.tool, _between(call, origin), "use send with its text, and say whose it is")
        return [effects.effect(db, call, op, {"text": comment}, call.place.thread, comment, found.id)]

    return await effects.commit(call, add)


def _between(call: Call, origin: str) -> str:
    """A platform passes on what is its own."""
    return f"{call.around.reach.platform(origin)} to {call.around.reach.platform(call.place.instance)}"
