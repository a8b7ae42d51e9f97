"""Errands: an agent gives work to another one, by a message in a room without people, in the transaction of the call.
The result returns once, as a message of the gateway's own.

The gateway itself records where the result returns, who is behind it and how many steps led there. The text of the
message changes none of it. Files that go along are the host's copies.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from gatepost.access.tiers import ROOT_FOLDER
from gatepost.channels.contract import get_file_folder_name
from gatepost.core import ids
from gatepost.core.errors import NotFound, Refused, Unavailable
from gatepost.core.settings import setting
from gatepost.flow import sender_rights
from gatepost.flow.intake.attachments import StoredAttachment, flush_folder, make_safe_names
from gatepost.messages.inbound import OPERATOR, Attachment, AttachmentKind, Direction, is_person
from gatepost.messages.outbound import OutboundFile
from gatepost.store.messages import inbox, messages
from gatepost.store.messages.messages import NewMessage
from gatepost.store.money import budgets
from gatepost.store.port import Db, LockKind
from gatepost.store.rooms import origins
from gatepost.store.rooms.origins import OriginChain
from gatepost.store.sessions import errands, groups, sessions, turns
from gatepost.store.sessions.errands import Errand, ErrandOutcome, ErrandState, NewErrand
from gatepost.store.sessions.turns import TurnState
from gatepost.tools.call import ToolCall

MOST_OPEN = setting(
    "errands.most_open", 20, help="How many errands that one conversation gave out may be open at a time."
)
MOST_OPEN_GROUP = setting(
    "errands.most_open_group", 100, help="How many open errands one group may have to do at a time."
)
MOST_NAMED = 20  # open conversations of one session with one group: each has a sandbox and files of its own
RIGHTS = "agent"  # of what an agent puts in
EVENT = "errand"  # also how the keys of such messages begin


class ErrandOrder(Struct, frozen=True, kw_only=True):
    """The work that is to be done, and by whom. `name`: of a conversation beside the usual one with that group."""

    folder: str
    text: str
    name: str = ""
    files: tuple[StoredAttachment, ...] = ()


def give_errand(db: Db, call: ToolCall, order: ErrandOrder) -> Errand:
    """Made again, the call is the same errand."""
    known = errands.find_by_call(db, call.key)
    if known is not None:
        return known
    caller = sessions.get(db, call.caller.session_id or "")
    if caller is None or caller.closed_at is not None:
        why = "an errand returns to the conversation that gave it out, and this call has none"
        raise Refused(call.caller.folder, call.tool, order.folder, why)
    turn = turns.get(db, call.turn.id) if call.turn is not None and call.approved is None else None
    if turn is not None and turn.state is TurnState.FAILED:
        raise Refused(call.caller.folder, call.tool, order.folder, "the turn was ended before this call")
    if groups.get(db, order.folder) is None:
        raise NotFound("group", order.folder[:80], "use refresh_groups to see which there are")
    chain = call.chain(db)
    if why := _find_denial(db, order.folder, chain):
        raise Refused(call.caller.folder, call.tool, order.folder, why)
    _check_limits(db, call, order, chain)
    errand_id = errands.make_id()
    session = errands.find_or_add_session(db, caller.id, order.folder, order.name, call.now)
    message_id = messages.accept(db, _make_message(call, order, errand_id, session.address), call.now)
    assert message_id is not None  # its id is new
    origins.add_next_step(db, message_id, chain)
    inbox.enqueue(db, message_id, session.id, order.folder, RIGHTS, call.now)
    where = call.turn or caller
    new = NewErrand(
        id=errand_id,
        call_key=call.key,
        parent=where.thread if where.instance == errands.INSTANCE else "",
        caller_folder=call.caller.folder,
        caller_session=caller.id,
        caller_turn=call.turn.id if call.turn else "",
        rights=call.turn.rights if call.turn else RIGHTS,
        instance=where.instance,
        address=where.address,
        thread=where.thread,
        folder=order.folder,
        session_id=session.id,
        room=session.address,
        message_id=message_id,
    )
    return errands.add(db, new, call.now)


def _find_denial(db: Db, folder: str, chain: OriginChain) -> str:
    """Return why the people behind a turn may not have that group work for them; '' if they may. Somebody who is shut
    out of a group cannot reach it through another agent. Root works for owners alone."""
    people = [each.person for each in chain.origins if is_person(each.person) and each.person]
    rights = ["owner" if each == OPERATOR else sender_rights.find_rights(db, each, folder) for each in people]
    if None in rights:
        return "somebody who is behind this turn may not speak to it"
    if folder == ROOT_FOLDER and set(rights) != {"owner"}:
        return "root works for owners alone, and not only owners are behind this turn"
    return ""


def _check_limits(db: Db, call: ToolCall, order: ErrandOrder, chain: OriginChain) -> None:
    db.lock(LockKind.QUOTA, "errands")
    own, config = call.caller.folder, call.deps.config
    payer = next((each.person for each in chain.origins if each.person), "")
    spent = [each for each in budgets.list_applicable(db, order.folder, payer, call.now) if each.spent >= each.limit]
    why = ""
    if spent:
        why = f"its budget is spent ({spent[0].scope.kind} {spent[0].scope.name}, this {spent[0].period})"
    elif errands.count_open(db, call.caller.session_id or "") >= config[MOST_OPEN]:
        why = f"{config[MOST_OPEN]} errands of this conversation are open ({MOST_OPEN.name}); wait until some return"
    elif errands.count_open_for_group(db, order.folder) >= config[MOST_OPEN_GROUP]:
        why = f"it has {config[MOST_OPEN_GROUP]} open errands already ({MOST_OPEN_GROUP.name}); try again later"
    elif order.name and _count_names(db, call, order) >= MOST_NAMED:
        why = f"you have {MOST_NAMED} conversations with it that have names; use one of these, or leave the name out"
    if why:
        raise Refused(own, call.tool, order.folder, why)


def _count_names(db: Db, call: ToolCall, order: ErrandOrder) -> int:
    return errands.count_named_sessions(db, call.caller.session_id or "", order.folder, order.name, MOST_NAMED)


def _make_message(call: ToolCall, order: ErrandOrder, errand_id: str, address: str) -> NewMessage:
    sender = f"agent:{call.caller.folder}"
    name = f"agent {call.caller.folder}"
    content: dict[str, Any] = {
        "text": order.text,
        "sender": name,
        "senderId": sender,
        "senderName": name,
        "verb": "message",
        "errand": errand_id,
    }
    if order.files:
        content["attachments"] = render_attachments(order.files)
    return NewMessage(
        instance=errands.INSTANCE,
        address=address,
        thread=errand_id,
        direction=Direction.IN,
        sender=sender,
        sender_name=name,
        text=order.text,
        at=call.now,
        platform_id=f"errand/{errand_id}",
        content=msgspec.json.encode(content).decode(),
        folder=order.folder,
    )


def render_attachments(files: Sequence[StoredAttachment]) -> list[dict[str, str | int]]:
    """As a message keeps them."""
    return [
        {"type": each.kind, "name": each.name, "mimeType": each.mime, "size": each.size, "path": each.path}
        for each in files
    ]


def return_result(db: Db, errand: Errand, now: int) -> str | None:
    """The session to wake; None if there is nothing to return, or nobody left. Judged in the transaction that returns
    it: something may have come meanwhile."""
    if not errands.is_finished(db, errand.id):
        return None
    outcome = errands.get_outcome(db, errand)
    caller = sessions.get(db, errand.caller_session)
    if caller is None or caller.closed_at is not None:
        errands.finish(db, errand.id, outcome, None, now)
        return None
    message_id = messages.add_system(db, errand, f"{EVENT}:{errand.id}", _render(errand, outcome), now, outcome.text)
    assert message_id is not None  # one that is finished has not returned
    chain = origins.get_inherited(db, errand.message_id)
    origins.put(db, message_id, chain.origins, chain.depth)
    inbox.enqueue(db, message_id, caller.id, caller.folder, errand.rights, now)
    errands.finish(db, errand.id, outcome, message_id, now)
    return caller.id


def _render(errand: Errand, outcome: ErrandOutcome) -> dict[str, Any]:
    content: dict[str, Any] = {
        "event": EVENT,
        "errand": errand.id,
        "group": errand.folder,
        "state": outcome.state,
        "text": outcome.text,
    }
    if outcome.state is ErrandState.FAILED:
        content["error"] = outcome.reason
    if outcome.files:
        content["attachments"] = render_attachments(_list_attachments(outcome))
    return content


def _list_attachments(outcome: ErrandOutcome) -> list[StoredAttachment]:
    """Return where the channel of errands keeps them."""
    names = make_safe_names([Attachment(name=each.name, mime=each.mime) for each in outcome.files])
    return [
        StoredAttachment(
            name,
            each.mime,
            find_kind(each.mime),
            each.size,
            f"{errands.PLATFORM}/{get_file_folder_name(each.key)}/{each.place}",
        )
        for name, each in zip(names, outcome.files, strict=True)
    ]


def find_kind(mime: str) -> AttachmentKind:
    kind = mime.partition("/")[0]
    return AttachmentKind(kind) if kind in ("image", "audio", "video") else AttachmentKind.FILE


def make_attachments(media: Path, files: Sequence[OutboundFile]) -> tuple[StoredAttachment, ...]:
    """Move them to where files lie that come with a message; what no message names there is removed in time."""
    if not files:
        return ()
    folder = f"in/{ids.new('f')}"
    names = make_safe_names([Attachment(name=each.name, mime=each.mime) for each in files])
    try:
        (media / folder).mkdir(mode=0o700, parents=True)
        for name, each in zip(names, files, strict=True):
            os.rename(each.path, media / folder / name)
        for path in (media / folder, media / "in"):
            flush_folder(path)
    except OSError as error:
        shutil.rmtree(media / folder, ignore_errors=True)
        raise Unavailable("the disk", f"the files could not be kept: {error.strerror}") from None
    return tuple(
        StoredAttachment(name, each.mime, find_kind(each.mime), each.size, f"{folder}/{name}")
        for name, each in zip(names, files, strict=True)
    )
