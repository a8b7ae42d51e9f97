"""One conversation, wherever it takes place: what was said and done, words for its agent, stop and reset.

For holders of the operation's right, and for owners and admins of the agent. Words of a person go to the agent under
their name; its answer goes to the room.
"""

import msgspec

from gatepost.access.senders import Rights
from gatepost.core.errors import Invalid, NotFound, Refused
from gatepost.flow.codes import mask_codes
from gatepost.messages.inbound import Direction
from gatepost.messages.text import clean
from gatepost.serve.control.arguments.agents.session_control import (
    ResetResult,
    ResetSessionArgs,
    SendToSessionArgs,
    SentToSession,
    SessionDetails,
    ShowSessionArgs,
    StopSessionArgs,
)
from gatepost.serve.control.arguments.agents.sessions import StopResult
from gatepost.serve.control.contract import OperationDeps, operation
from gatepost.serve.control.session_rights import SessionAccess, find_session
from gatepost.serve.control.session_timeline import read_timeline
from gatepost.store.messages import inbox, messages
from gatepost.store.messages.messages import NewMessage
from gatepost.store.money import costs, reservations
from gatepost.store.people import identities
from gatepost.store.port import Db
from gatepost.store.rights import requests
from gatepost.store.sessions import groups, sessions, turns
from gatepost.store.sessions.sessions import Session

MOST_WAITING, LARGEST_WAITING = 50, 1_000_000  # messages, and their characters, that wait in one conversation
OVER = "the conversation has ended"


@operation
async def show(deps: OperationDeps, args: ShowSessionArgs) -> SessionDetails:
    return await deps.store.read(read_details, args, deps.caller)


def read_details(db: Db, args: ShowSessionArgs, caller: str) -> SessionDetails:
    access = find_session(db, args.id, caller, args)
    session, line = access.session, read_timeline(db, access.session, args.before, args.limit)
    group, turn = groups.get(db, session.folder), turns.find_open(db, session.id)
    return SessionDetails(
        id=session.id,
        agent=(group.name if group else "") or session.folder,
        folder=session.folder,
        title=session.title,
        instance=session.instance,
        address=session.address,
        thread=session.thread,
        provider=session.provider or (turn.provider if turn is not None else ""),
        model=session.model,
        state=session.state,
        running=turn is not None,
        waiting=inbox.count_waiting(db, session.id),
        cost=costs.sum_for_session(db, session.id),
        created_at=session.created_at,
        active_at=session.active_at,
        closed_at=session.closed_at,
        parent=session.parent,
        managed=bool(session.agent),
        speaks=access.rights is not None,
        older=line.older,
        events=line.events,
    )


@operation
async def send(deps: OperationDeps, args: SendToSessionArgs) -> SentToSession:
    text = mask_codes(clean(args.text).strip())
    if not text:
        raise Invalid("text", "it is empty")
    now = deps.clock.now()

    def add(db: Db) -> tuple[Session, int]:
        access = find_session(db, args.id, deps.caller, args)
        return access.session, _add_message(db, access, deps.caller, text, now)

    session, message_id = await deps.write(add)
    deps.events.session(session.id)
    deps.events.change(session.instance, session.address)
    return SentToSession(session.id, message_id)


def _add_message(db: Db, access: SessionAccess, caller: str, text: str, now: int) -> int:
    """Return what somebody says, for the agent. People in the room see the answer alone."""
    session, rights = access.session, _check_speaker(access, caller)
    if why := inbox.check_room(db, session.id, rights, len(text), MOST_WAITING, LARGEST_WAITING):
        raise Refused(caller, "write", session.id, f"{why}; wait until the agent has answered some")
    if reservations.find_spent_budget(db, session.folder, identities.get_person(db, caller), now) is not None:
        raise Refused(caller, "write", session.id, "the budget is spent")
    name = caller.rpartition("/")[2]
    content = {"text": text, "sender": name, "senderId": caller, "senderName": name, "verb": "message"}
    new = NewMessage(
        instance=session.instance,
        address=session.address,
        thread=session.thread,
        direction=Direction.IN,
        sender=caller,
        sender_name=name,
        text=text,
        content=msgspec.json.encode(content).decode(),
        at=now,
        folder=session.folder,
    )
    message_id = messages.accept(db, new, now)
    assert message_id is not None  # without a platform's id it cannot clash, and nobody can answer it there
    inbox.enqueue(db, message_id, session.id, session.folder, rights, now)
    return message_id


def _check_speaker(access: SessionAccess, caller: str) -> Rights:
    """Words to an agent carry the rights of who says them: whoever is nobody there has none to give."""
    if access.rights is None:
        raise Refused(caller, "write", access.session.id, "owners and admins of its agent speak there")
    return access.rights


@operation
async def stop(deps: OperationDeps, args: StopSessionArgs) -> StopResult:
    session = await deps.store.read(_find_live, args, deps.caller)
    stopped = deps.stop_session is not None and await deps.stop_session(session.id, deps.caller_name)
    await deps.record_soon(folder=session.folder)
    return StopResult(args.id, stopped)


@operation
async def reset(deps: OperationDeps, args: ResetSessionArgs) -> ResetResult:
    session = await deps.store.read(_find_live, args, deps.caller)
    stopped = deps.stop_session is not None and await deps.stop_session(session.id, deps.caller_name)
    now = deps.clock.now()

    def forget(db: Db) -> None:
        _find_live(db, args, deps.caller)
        requests.withdraw_for_session(db, session.id, OVER, now)
        sessions.remove_conversations(db, session.id, now)

    await deps.write(forget, folder=session.folder)
    if deps.renew_session is not None:
        deps.renew_session(session.id)  # a provider that woke up meanwhile would remember all the same
    deps.events.change(session.instance, session.address)
    return ResetResult(session.id, stopped)


def _find_live(db: Db, args: StopSessionArgs | ResetSessionArgs, caller: str) -> Session:
    session = find_session(db, args.id, caller, args).session
    if session.closed_at is not None:
        raise NotFound("live session", args.id)
    return session
