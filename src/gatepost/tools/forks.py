"""Forking a conversation: a side-conversation that knows what this one knows."""

from typing import Annotated

from msgspec import Meta, Struct

from gatepost.access.subjects import Subject
from gatepost.access.tiers import Tier
from gatepost.core.errors import NotFound, Unavailable
from gatepost.messages.text import clean
from gatepost.store.port import Db
from gatepost.store.sessions import sessions
from gatepost.store.sessions.forks import ForkMethod
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import tool


class TopicFork(Struct, frozen=True, kw_only=True):
    """`how`: copied, the provider's whole conversation; transcript, what was said, as far as it is known."""

    folder: str
    parent_topic: str
    child_topic: str
    session_id: str
    how: ForkMethod


@tool(tier=Tier.AGENT, group="sessions", effects=(Subject.ERASE,), destructive=True)
async def fork_topic(
    call: ToolCall,
    child: Annotated[str, Meta(description="The new topic: the thread in this room whose messages go there.")],
    parent: Annotated[
        str | None, Meta(description='The topic to fork from, "" for the main one. Left out: this conversation.')
    ] = None,
    force: Annotated[bool, Meta(description="Replace the conversation that the topic has.")] = False,
) -> TopicFork:
    """Branch a topic of this room from a conversation's current state: the child knows all that was said so far.

    For a focused side-conversation that needs this one's context and should not pollute it. The parent goes on as
    before. It fails with topic_exists if the child exists and force is not set. To start without context, do nothing:
    a message in a new topic does that.
    """
    if call.deps.forker is None:
        raise Unavailable("fork_topic", "no agent runs in this process")
    source = await call.read(_find_parent, call, parent)
    made = await call.deps.forker.fork_topic(call, source, clean(child), force=force)
    return TopicFork(
        folder=made.folder,
        parent_topic=made.parent_topic,
        child_topic=made.topic,
        session_id=made.session_id,
        how=made.how,
    )


def _find_parent(db: Db, call: ToolCall, parent: str | None) -> str:
    """The caller's own session, or one of its group in the room of the call."""
    own = sessions.get(db, call.caller.session_id) if call.caller.session_id is not None else None
    if own is None:
        raise NotFound("session", call.caller.session_id or "", "this caller has none")
    if parent is None or parent == own.thread:
        return own.id
    room = call.turn or own
    for each in sessions.list_in_room(db, room.address):
        if (each.folder, each.instance, each.thread) == (own.folder, room.instance, parent):
            return each.id
    raise NotFound("topic", parent[:80], "use list_sessions to see them")
