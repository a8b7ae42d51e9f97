"""What an agent says: send, reply, edit, like, send_file. Each is a committed outbox row before the call returns.

A message is named by the number that the agent sees (`seq`), or by the platform's id. A number is the session's own
if the session has it; agents see no other.
"""

import asyncio
import mimetypes
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from gatepost.access.tiers import Tier
from gatepost.core.errors import Invalid, NotFound, Refused, Unavailable, Unsupported
from gatepost.core.untrusted import open_root
from gatepost.flow.delivery.outgoing import Reach, Say, say
from gatepost.messages.outbound import Feature, File, Op
from gatepost.messages.text import clean
from gatepost.store import inbox, messages, outbox
from gatepost.store.messages import Message
from gatepost.store.outbox import Effect, NewEffect
from gatepost.store.port import Db
from gatepost.tools.contract import Body, Call, tool

LONGEST_TEXT = 100_000  # characters; more is a file
LONGEST_REACTION = 64
LARGEST_FILE = 100 * 1024 * 1024
SECRET_FOLDERS = frozenset({".ssh", ".gnupg", ".gpg", ".aws", ".azure", ".gcloud", ".kube", ".docker"})
SECRET_FILES = frozenset({".env", ".netrc", ".npmrc", ".pypirc", ".secret", "credentials", "private_key"})
SECRET_NAMES = SECRET_FOLDERS | SECRET_FILES | {"id_rsa", "id_ed25519"}

Room = Annotated[str | None, Meta(description="The room. Leave it out for the room of this turn.")]
Seq = Annotated[int, Meta(ge=0, le=2**53)]
Named = Annotated[Seq | str, Meta(description="The message's number as shown to you, or its platform id.")]
Answered = Annotated[
    Seq | str | None,
    Meta(description="The message answered, by number or platform id. Default: the newest of this turn."),
]


@dataclass(frozen=True, slots=True)
class Sent:
    """It is on its way; `seq` is its number, by which it can be edited."""

    ok: bool
    seq: int


@tool(tier=Tier.AGENT, scoped_by="chatJid", group="messages")
async def send(
    call: Call, text: Annotated[Body, Meta(description="What to say. Markdown.")], chatJid: Room = None
) -> Sent:
    """Say something new in a room: an announcement, or news in a room other than the one you are answering.

    What you write as your answer is delivered by itself; do not send it as well. To answer one message in particular
    use reply, for a file use send_file (its caption is the text).
    """
    said = _text("text", text)
    return await _commit(call, lambda db: _say(db, call, said))


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
    said = _text("text", text)
    return await _commit(call, lambda db: _say(db, call, said, answers=_answered(db, call, replyToId)))


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
    _require(call, Feature.EDIT, "use reply with the corrected text")
    said = _text("content", content)
    most = call.around.reach.max_text(call.place.instance)
    if most and len(said) > most:
        raise Invalid("content", f"has {len(said)} characters; one message takes {most} here")

    def change(db: Db) -> list[Effect]:
        target = _message(db, call, targetId, "targetId")
        if target.direction != "out" or target.folder != call.caller.folder:
            raise Refused(call.caller.folder, "edit", f"message {targetId}", "only your own messages can be edited")
        return [_act(db, call, Op.EDIT, target, text=said)]

    return await _commit(call, change)


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
    _require(call, Feature.REACT, "use reply with a word or an emoji")
    chosen = clean(reaction).strip()
    if not chosen or len(chosen) > LONGEST_REACTION:
        raise Invalid("reaction", "must be one emoji, or the platform's word for one")
    return await _commit(
        call, lambda db: [_act(db, call, Op.REACT, _message(db, call, targetId, "targetId"), reaction=chosen)]
    )


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
    folder, relative = _locate(call, filepath)
    said = _text("caption", caption) if caption else ""
    name = _file_name(filename or relative)
    keep = call.around.home.media / "out" / call.key.replace("/", "-")
    size = await asyncio.to_thread(_copy, folder, relative, keep)
    mime = mimetypes.guess_type(name)[0] or "application/octet-stream"
    file = File(name=name, mime=mime, path=str(keep / "0"), size=size)

    def give(db: Db) -> list[Effect]:
        answers = _answered(db, call, replyToId) if replyToId is not None else None
        return _say(db, call, said, files=(file,), answers=answers)

    try:
        return await _commit(call, give)
    except (NotFound, Refused, Unavailable):
        await asyncio.to_thread(shutil.rmtree, keep, ignore_errors=True)
        raise


async def _commit(call: Call, effects: Callable[[Db], list[Effect]]) -> Sent:
    made = await call.write_to_room(effects)
    return Sent(ok=True, seq=made[0].seq)


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
    return say(db, _reach(call), new, call.now)


def _act(db: Db, call: Call, op: Op, target: Message, *, text: str = "", reaction: str = "") -> Effect:
    """An effect on a message that is there."""
    return outbox.add(
        db,
        NewEffect(
            key=call.key,
            op=op.value,
            origin="tool",
            instance=target.instance,
            address=target.address,
            thread=target.thread,
            text=text or reaction,
            payload={"text": text} if text else {"reaction": reaction},
            folder=call.caller.folder,
            session_id=call.caller.session_id,
            turn_id=call.turn.id if call.turn else None,
            attempt=call.turn.attempt if call.turn else 1,
            target_id=target.id,
        ),
        call.now,
    )


def _reach(call: Call) -> Reach:
    reach = call.around.reach
    if not isinstance(reach, Reach):
        raise Unavailable("delivery", "no channel runs in this process")
    return reach


def _require(call: Call, feature: Feature, hint: str) -> None:
    """A verb that the channel does not have is refused before any row is written."""
    instance = call.place.instance
    if feature not in call.around.reach.features(instance):
        raise Unsupported(call.tool, call.around.reach.platform(instance), hint)


def _text(field: str, text: str) -> str:
    said = clean(text)
    if not said.strip():
        raise Invalid(field, "is empty")
    if len(said) > LONGEST_TEXT:
        raise Invalid(field, f"has {len(said)} characters, more than {LONGEST_TEXT}; write a file and use send_file")
    return said


def _answered(db: Db, call: Call, named: int | str | None) -> tuple[int, int | None] | None:
    """(id, seq) of the message answered; None: there is nothing in this turn to answer."""
    if named is not None:
        found = _message(db, call, named, "replyToId")
        return found.id, _seq(named)
    if call.turn is None or (call.turn.instance, call.turn.address) != (call.place.instance, call.place.address):
        return None
    for entry, message in reversed(inbox.of_turn(db, call.turn.id)):
        if message.platform_id and message.kind == "chat":
            return message.id, entry.seq
    return None


def _seq(named: int | str) -> int | None:
    if isinstance(named, int):
        return named
    return int(named) if named.isascii() and named.isdecimal() and len(named) < 10 else None


def _message(db: Db, call: Call, named: int | str, field: str) -> Message:
    """The message that is meant: this session's number first, because agents see no other."""
    place, seq, session_id = call.place, _seq(named), call.caller.session_id
    found = messages.by_seq(db, session_id, seq) if session_id is not None and seq is not None else None
    if found is None:
        for direction in ("in", "out"):
            found = found or messages.find(db, place.instance, place.address, direction, str(named))
    if found is None:
        raise NotFound("message", str(named)[:80], "use the number that stands with the message")
    if (found.instance, found.address) != (place.instance, place.address):
        raise Invalid(field, f"message {named} is not in this room; name its room in chatJid")
    return found


def _locate(call: Call, filepath: str) -> tuple[Path, str]:
    """The folder on the host that a path inside belongs to, and the rest of it."""
    home, caller = call.around.home, call.caller
    parts = [part for part in filepath.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in filepath:
        raise Invalid("filepath", f"{filepath[:200]!r} leads out of the workspace")
    if filepath.startswith("/"):
        if parts[:1] != ["workspace"]:
            raise Invalid("filepath", f"{filepath[:200]!r} is not under /workspace/agent or /workspace")
        parts = parts[1:]
        inside, parts = (parts[:1] == ["agent"], parts[1:] if parts[:1] == ["agent"] else parts)
    else:
        inside = True
    secret = next((part for part in parts if part.lower() in SECRET_NAMES), None)
    if secret is not None:
        raise Invalid(
            "filepath", f"{secret!r} is a name for secrets and is not given away; rename the file if it is none"
        )
    if not parts or (not inside and parts[0] == "in"):
        raise Invalid("filepath", f"{filepath[:200]!r} is no file that you may send")
    if inside:
        return home.group(caller.folder), "/".join(parts)
    if caller.session_id is None:
        raise Invalid("filepath", "there is no session; name a file under /workspace/agent")
    return home.session(caller.session_id), "/".join(parts)


def _copy(folder: Path, relative: str, keep: Path) -> int:
    """The delivery's own copy: what the sandbox does to its file afterwards does not matter."""
    keep.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with open_root(folder) as root:
            return root.copy_out(relative, keep / "0", LARGEST_FILE)
    except BaseException:
        shutil.rmtree(keep, ignore_errors=True)
        raise


def _file_name(name: str) -> str:
    plain = "".join(char for char in clean(name).replace("\\", "/").rsplit("/", 1)[-1] if char.isprintable())
    return plain.strip()[:200] or "file"
