"""A conversation is made shorter: by its provider, if that understands /compact, else by us.

By us, a turn of its own asks the agent for a summary. When that turn ends well, the conversation is given up and the
next one begins with the summary, all in the transaction of the turn's end. A turn that fails changes nothing.
"""

from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, add_outgoing_message
from gatepost.messages.outbound import Op
from gatepost.store.messages import inbox, messages, outbox
from gatepost.store.messages.inbox import InboxMode
from gatepost.store.messages.outbox import EffectOrigin
from gatepost.store.port import Db
from gatepost.store.rooms import origins
from gatepost.store.rooms.origins import Origin
from gatepost.store.sessions import sessions, turns
from gatepost.store.sessions.sessions import Session
from gatepost.store.sessions.turns import Turn

COMMAND = "/compact"
EVENT = "compact"
LONGEST_SUMMARY = 16_000  # characters
LONGEST_WISH = 2000
SHORTENED = "Compacted. The conversation goes on from this summary."
DONE = "Compacted."
NO_SUMMARY = "Nothing was compacted: the agent gave no summary. The conversation is as it was."
INSTRUCTION = (
    "This conversation is about to be made shorter: what you answer now is all that you will know of it. Write a"
    " summary that lets you go on without it: who is here and what they want, what was decided and why, what is done"
    " and where it lies (files, names, numbers), what is still open, and what you would do next. Call no tools. Write"
    " the summary alone, in at most 1500 words."
)


def add_request(
    db: Db, session: Session, who: Origin, rights: str, key: str, wish: str, now: int, *, native: bool
) -> None:
    """Queue the turn that does it. `who` asks, and pays for it; `native`: the provider understands the command itself;
    `wish`: what the summary should keep."""
    wish = wish[:LONGEST_WISH]
    if native:
        text = f"{COMMAND} {wish}".rstrip()
        content = {"event": EVENT, "text": text, "command": text}
    else:
        text = f"{INSTRUCTION}\nIn particular: {wish}" if wish else INSTRUCTION
        content = {"event": EVENT, "text": text}
    message_id = messages.add_system(db, who, key, content, now, text)
    if message_id is not None:
        origins.put(db, message_id, [who], 0)
        inbox.enqueue(db, message_id, session.id, session.folder, rights, now, InboxMode.COMPACT)


def finish_turn(db: Db, channels: ChannelInstances, turn: Turn, usage: str, now: int) -> bool:
    """As `turns.finish`, for a turn that was to make its conversation shorter."""
    asked = [message for entry, message in inbox.list_for_turn(db, turn.id) if entry.mode is InboxMode.COMPACT]
    if not turns.finish(db, turn.id, turn.epoch, usage, now):
        return False
    effects = outbox.list_for_turn(db, turn.id)
    said = [str(each.payload.get("text", "")) for each in effects if _is_result(each.origin, each.op)]
    summary = "\n\n".join(said).strip()[-LONGEST_SUMMARY:]
    native = any(message.content.get("command") for message in asked)
    if summary and not native:
        sessions.shorten_conversation(db, turn.session_id, summary)
    if not (native and summary):  # then the agent has said so itself
        _add_notice(db, channels, turn, DONE if native else SHORTENED if summary else NO_SUMMARY, now)
    return True


def _is_result(origin: EffectOrigin, op: Op) -> bool:
    return origin is EffectOrigin.RESULT and op is Op.SEND


def _add_notice(db: Db, channels: ChannelInstances, turn: Turn, text: str, now: int) -> None:
    notice = OutgoingMessage(
        key=f"notice/compact/{turn.id}",
        origin=EffectOrigin.NOTICE,
        instance=turn.instance,
        address=turn.address,
        thread=turn.thread,
        text=text,
        session_id=turn.session_id,
    )
    add_outgoing_message(db, channels, notice, now)
