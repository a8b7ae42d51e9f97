"""What an agent says: send, reply, post, send_file. Each is a committed outbox row before the call returns."""

from typing import Annotated

from msgspec import Meta

from gatepost.access.tiers import Tier
from gatepost.flow.delivery.outgoing import Say, say
from gatepost.messages.outbound import File, Op
from gatepost.store import inbox
from gatepost.store.outbox import Effect
from gatepost.store.port import Db
from gatepost.tools import effects, files
from gatepost.tools.contract import Body, Call, tool
from gatepost.tools.effects import Room, Sent, Seq

MOST_MEDIA = 20

Media = Annotated[list[str], Meta(max_length=MOST_MEDIA)]
Answered = Annotated[
    Seq | str | None,
    Meta(description="The message answered, by number or platform id. Default: the newest of this turn."),
]


@tool(tier=Tier.AGENT, scoped_by="chatJid", group="messages")
async def send(
    call: Call, text: Annotated[Body, Meta(description="What to say. Markdown.")], chatJid: Room = None
) -> Sent:
    """Say something new in a room: an announcement, or news in a room other than the one you are answering.

    What you write as your answer is delivered by itself; do not send it as well. To answer one message in particular
    use reply, for a file use send_file (its caption is the text).
    """
    said = effects.words("text", text)
    return await effects.commit(call, lambda db: _say(db, call, said))


@tool(tier=Tier.WORKER, scoped_by="chatJid", group="messages")
async def reply(
    call: Call,
    text: Annotated[Body, Meta(description="What to say. Markdown.")],
    chatJid: Room = None,
    replyToId: Answered = None,
) -> Sent:
    """Answer one message so that people see which: when several are open, or while you are still at work.

    Your final answer is delivered by itself; do not reply with it as well. Not for new topics: use send.
    """
    said = effects.words("text", text)
    return await effects.commit(call, lambda db: _say(db, call, said, answers=_answered(db, call, replyToId)))


@tool(tier=Tier.AGENT, scoped_by="chatJid", group="messages")
async def post(
    call: Call,
    content: Annotated[Body, Meta(description="What to publish. Markdown.")],
    media: Annotated[Media | None, Meta(description="Files that go with it, named as for send_file.")] = None,
    chatJid: Room = None,
) -> Sent:
    """Publish something of your own on a feed (a toot, a submission, an announcement) that answers nobody.

    To talk to people in a room use send, to answer them reply, to give them a file send_file.
    """
    effects.require(call, Op.POST)
    said = effects.fitting(call, "content", content)

    async with files.copies(call, media or (), "media") as given:

        def publish(db: Db) -> list[Effect]:
            payload = {"text": said, "files": effects.listed(given)}
            return [effects.effect(db, call, Op.POST, payload, call.place.thread, said)]

        return await effects.commit(call, publish)


@tool(tier=Tier.WORKER, scoped_by="chatJid", group="messages")
async def send_file(
    call: Call,
    filepath: Annotated[str, Meta(description="A file under /workspace/agent or /workspace (not in/), or relative.")],
    filename: Annotated[str | None, Meta(description="The name that people see. Default: the file's own.")] = None,
    caption: Annotated[Body | None, Meta(description="The text that goes with it. It is the message.")] = None,
    chatJid: Room = None,
    replyToId: Answered = None,
) -> Sent:
    """Give people a file from your workspace. The caption is the message: do not send the text again.

    Not for what can be read in the chat: use send or reply.
    """
    said = effects.words("caption", caption) if caption else ""
    async with files.copies(call, [filepath], "filepath", filename or "") as given:

        def give(db: Db) -> list[Effect]:
            answers = _answered(db, call, replyToId) if replyToId is not None else None
            return _say(db, call, said, files=given, answers=answers)

        return await effects.commit(call, give)


def _say(
    db: Db, call: Call, text: str, files: tuple[File, ...] = (), answers: tuple[int, int | None] | None = None
) -> list[Effect]:
    place, turn = call.place, call.turn
    reply_to_id, in_reply_to = answers or (None, None)
    new = Say(
        key=call.key,
        origin="tool",
        instance=place.instance,
        address=place.address,
        thread=place.thread,
        text=text,
        folder=call.caller.folder,
        session_id=call.caller.session_id,
        turn_id=turn.id if turn else None,
        attempt=turn.attempt if turn else 1,
        reply_to_id=reply_to_id,
        in_reply_to=in_reply_to,
        files=files,
    )
    return say(db, effects.reach_of(call), new, call.now)


def _answered(db: Db, call: Call, named: int | str | None) -> tuple[int, int | None] | None:
    """(id, seq) of the message answered; None: there is nothing in this turn to answer."""
    if named is not None:
        found = effects.message(db, call, named, "replyToId")
        return found.id, effects.number(named)
    if call.turn is None or (call.turn.instance, call.turn.address) != (call.place.instance, call.place.address):
        return None
    for entry, message in reversed(inbox.of_turn(db, call.turn.id)):
        if message.platform_id and message.kind == "chat":
            return message.id, entry.seq
    return None
