"""Send or give a message again that failed. The rows themselves say whether that was done: a second wish changes
nothing."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

from gatepost.access.senders import Rights, check_sender, is_person
from gatepost.core.clock import iso
from gatepost.core.errors import Invalid, NotFound, Refused
from gatepost.flow import sender_rights
from gatepost.messages.inbound import MessageKind
from gatepost.serve.control.arguments.records.ledger_retry import RetryMessageArgs, RetryResult
from gatepost.serve.control.contract import OperationDeps, operation
from gatepost.store.messages import inbox, messages, outbox
from gatepost.store.messages.inbox import InboxEntry, InboxMode, InboxState
from gatepost.store.messages.messages import Message
from gatepost.store.messages.outbox import EffectOrigin, EffectState, OutboxEffect
from gatepost.store.port import Db
from gatepost.store.rooms import rooms
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.sessions import sessions

AGAIN = (EffectState.FAILED, EffectState.UNCERTAIN)


@operation
async def retry(deps: OperationDeps, args: RetryMessageArgs) -> RetryResult:
    effects = await deps.store.read(outbox.list_for_message, args.message)
    paths = [path for each in effects if each.state in AGAIN for path in _list_files(each)]
    if not await asyncio.to_thread(_are_there, paths):
        raise Invalid("message", f"{args.message} has files, which were removed when it failed; it must be made anew")
    now = deps.clock.now()
    done = await deps.write(lambda db: retry_rows(db, args, now))
    if done.sent:
        deps.events.room(done.instance, done.address)
    for session_id in done.given:
        deps.events.session(session_id)
    deps.events.change(done.instance, done.address)
    return done


def _list_files(effect: OutboxEffect) -> list[Path]:
    return [Path(each["path"]) for each in effect.payload.get("files") or ()]


def _are_there(paths: Iterable[Path]) -> bool:
    return all(path.is_file() for path in paths)


def retry_rows(db: Db, args: RetryMessageArgs, now: int) -> RetryResult:
    message_id = args.message
    message = messages.get(db, message_id)
    if message is None:
        raise NotFound("message", str(message_id), "`gatepost ledger list` shows the newest")
    effects = [each for each in outbox.list_for_message(db, message_id) if each.state in AGAIN]
    if any(each.origin is EffectOrigin.STATUS for each in effects):
        raise Invalid("message", f"{message_id} is an interim line of a turn that is over")
    entries = [each for each in inbox.list_for_message(db, message_id) if each.state is InboxState.FAILED]
    if not effects and not entries:
        raise Invalid("message", f"{message_id} neither failed nor is uncertain; `gatepost trace {message_id}` has it")
    moments = {iso(at) for at in (*(each.updated_at for each in effects), *(each.updated_at for each in entries))}
    if args.changed_at and args.changed_at not in moments:
        raise Invalid("changed_at", f"{message_id} was tried again since then, and failed again; look at it first")
    sent = [each for each in effects if outbox.retry_ended(db, each.id, now)]
    given = [
        _get_session(each) for each in entries if inbox.retry_failed(db, each.id, _check_entry(db, message, each), now)
    ]
    return RetryResult(
        message=message_id,
        instance=message.instance,
        address=message.address,
        sent=len(sent),
        given=given,
        doubtful=any(each.state is EffectState.UNCERTAIN for each in sent),
    )


def _get_session(entry: InboxEntry) -> str:
    assert entry.session_id is not None  # what failed had a turn, and so a session
    return entry.session_id


def _check_entry(db: Db, message: Message, entry: InboxEntry) -> Rights:
    """The rights under which the agent gets it: those of now, judged as if it had just been said."""
    if entry.mode is InboxMode.TASK:
        raise Invalid("message", f"{message.id} is a task's; `gatepost task run` runs the task again")
    if message.kind is not MessageKind.CHAT or not is_person(message.sender):
        raise Invalid("message", f"{message.id} was not written by a person, so nobody gives it to an agent again")
    session = sessions.get(db, entry.session_id) if entry.session_id else None
    if session is None or session.closed_at is not None:
        raise Invalid("message", f"the conversation of {message.id} is closed; it must be said anew")
    room = rooms.get(db, message.instance, message.address)
    rights = sender_rights.find_rights(db, message.sender, entry.folder)
    policy = room.policy if room is not None else RoomPolicy.STRICT
    if rights is None or not check_sender(policy, rights, entry.folder).allowed:
        raise Refused(message.sender, "write", entry.folder, "nobody lets its sender speak there now")
    return rights
