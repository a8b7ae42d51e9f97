"""Sessions: list the live ones; show, set, stop, reset, close, fork or copy one, or say something in it.

One conversation is shown and spoken in by holders of the right, and by owners and admins of its agent. A person's words
go to the agent under their name; its answer goes to the room.
"""

import asyncio
from typing import Any, TypeGuard

import msgspec
from msgspec import Struct

from gatepost.access.senders import COMMANDING, Rights, check_sender
from gatepost.core.errors import Invalid, NotFound, Refused
from gatepost.flow import sender_rights
from gatepost.flow.codes import mask_codes
from gatepost.flow.sessions.forking import TOPIC_EXISTS, ForkRequest, SessionForker, parse_topic
from gatepost.messages.inbound import OPERATOR, Direction
from gatepost.messages.text import clean
from gatepost.serve.control.arguments.sessions import (
    CloseResult,
    CloseSessionArgs,
    CopySessionArgs,
    ForkSessionArgs,
    ListSessionsArgs,
    ResetResult,
    ResetSessionArgs,
    SendToSessionArgs,
    SentToSession,
    SessionDetails,
    SetSessionArgs,
    ShowSessionArgs,
    StopAllSessionsArgs,
    StopResult,
    StopSessionArgs,
)
from gatepost.serve.control.contract import OperationDeps, operation, read_operation
from gatepost.serve.control.declaration import OperationArgs
from gatepost.serve.control.operations.groups import check_provider, end_session
from gatepost.serve.control.rights import ROOT_FOLDER, has_right
from gatepost.serve.control.session_timeline import read_timeline
from gatepost.store.messages import inbox, messages
from gatepost.store.messages.messages import NewMessage
from gatepost.store.money import costs, reservations
from gatepost.store.people import identities
from gatepost.store.port import Db
from gatepost.store.rights import requests
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.sessions import groups, sessions, turns
from gatepost.store.sessions.forks import ForkedSession
from gatepost.store.sessions.sessions import Session

# Rights to one conversation are judged with each request. To everybody else there is no such conversation.

LONGEST_ID = 64


class SessionAccess(Struct, frozen=True):
    """A conversation, and what the caller is to its agent. `rights`: None for whom the operation's right alone lets
    in."""

    session: Session
    rights: Rights | None


def find_session(db: Db, session_id: str, caller: str, args: OperationArgs[Any]) -> SessionAccess:
    """Return the conversation, if this caller may have it now. One that is not there and one that is not theirs look
    alike."""
    session = sessions.get(db, session_id) if len(session_id) <= LONGEST_ID else None
    if session is not None:
        if caller == OPERATOR:
            return SessionAccess(session, None)
        rights = sender_rights.find_rights(db, caller, session.folder)
        if _may_control(rights, session.folder) and not session.agent and session.closed_at is None:
            return SessionAccess(session, rights)
        action = f"op:{args.info.right}"
        if any(has_right(db, caller, action, scope, args) for scope in (ROOT_FOLDER, session.folder)):
            return SessionAccess(session, None)
    hint = "`gatepost session list` shows them" if caller == OPERATOR else "or you are no owner or admin of its agent"
    raise NotFound("conversation", session_id[:80], hint)


def _may_control(rights: Rights | None, folder: str) -> TypeGuard[Rights]:
    """As in a chat: `root` is for owners."""
    return rights in COMMANDING and check_sender(RoomPolicy.PUBLIC, rights, folder).allowed


DEFAULT = "default"  # what takes a session's own provider or model back
MOST_WAITING, LARGEST_WAITING = 50, 1_000_000  # messages, and their characters, that wait in one conversation
OVER = "the conversation has ended"


def _get_live_session(db: Db, session_id: str) -> Session:
    session = sessions.get(db, session_id)
    if session is None or session.closed_at is not None:
        raise NotFound("live session", session_id, "`gatepost session list` shows them")
    return session


@read_operation
def list_sessions(db: Db, args: ListSessionsArgs, now: int) -> list[Session]:
    if args.folder and groups.get(db, args.folder) is None:
        raise NotFound("group", args.folder[:200], "`gatepost group list` shows them")
    return sessions.list_open(db, args.folder or None)


@operation
async def stop_all(deps: OperationDeps, args: StopAllSessionsArgs) -> list[StopResult]:
    live = [session.id for session in await deps.store.read(sessions.list_open)]
    stop = deps.stop_session
    done = (
        [False] * len(live) if stop is None else await asyncio.gather(*(stop(each, deps.caller_name) for each in live))
    )
    await deps.record_soon(stopped=sum(done))
    return list(map(StopResult, live, done))


@operation
async def close(deps: OperationDeps, args: CloseSessionArgs) -> CloseResult:
    session = await deps.store.read(_get_live_session, args.id)
    if deps.stop_session is not None:
        await deps.stop_session(session.id, deps.caller_name)
    now = deps.clock.now()

    def end(db: Db) -> CloseResult:
        end_session(db, session.id, f"closed by {deps.caller_name}", now)
        return CloseResult(session.id, True)

    return await deps.write(end)


@operation
async def set_session(deps: OperationDeps, args: SetSessionArgs) -> Session:
    if not args.provider and not args.model:
        raise Invalid("session", "name what is to be set: --provider or --model")
    provider = check_provider(deps.home, "" if args.provider == DEFAULT else args.provider)

    def change(db: Db) -> Session:
        session = _get_live_session(db, args.id)
        if args.provider and not provider and session.agent:
            raise Invalid("provider", f"{session.id} is a managed agent, which has a provider of its own; name one")
        if args.provider and provider != session.provider:
            sessions.set_provider(db, session.id, provider)
        if args.model:
            sessions.set_model(db, session.id, "" if args.model == DEFAULT else args.model)
        return _get_live_session(db, session.id)

    changed = await deps.write(change)
    if deps.renew_session is not None:
        deps.renew_session(changed.id)
    return changed


@operation
async def fork(deps: OperationDeps, args: ForkSessionArgs) -> ForkedSession:
    try:
        topic = parse_topic(args.topic)
        wish = ForkRequest(parent_id=args.id, topic=topic, force=args.force, by=deps.caller_name)
        return await _get_forker(deps).fork(wish, deps.write)
    except Invalid as error:
        if error.target != "child":  # what the tool calls a topic
            raise
        way = ", or replace it with --force" if error.why.startswith(TOPIC_EXISTS) else ""
        raise Invalid("topic", f"{error.why}{way}") from None


@operation
async def copy(deps: OperationDeps, args: CopySessionArgs) -> ForkedSession:
    wish = ForkRequest(parent_id=args.id, topic=None, title=args.title, by=deps.caller_name)
    return await _get_forker(deps).fork(wish, deps.write)


def _get_forker(deps: OperationDeps) -> SessionForker:
    forker = deps.extra.get("forker")
    assert isinstance(forker, SessionForker), "only a running gateway forks"
    return forker


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
    payer = identities.get_person(db, caller)
    if reservations.find_spent_budget(db, session.folder, payer, now, session.id) is not None:
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
