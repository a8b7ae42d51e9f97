"""One conversation on the page, wherever it takes place: what was said and done, a button to stop it, a line to type.

For owners and admins of its group. Their rights are judged with each request, by the person; to everybody else there is
no such conversation. What is typed goes to the agent under the name of whoever types; its answer goes to the room.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeGuard

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gatepost.access.senders import COMMANDING, Rights, check_sender
from gatepost.core.clock import Clock
from gatepost.core.errors import Invalid, NotFound, Refused
from gatepost.core.event_bus import EventBus
from gatepost.flow import sender_rights
from gatepost.flow.code_masking import mask_codes
from gatepost.messages.inbound import Direction
from gatepost.messages.text import clean
from gatepost.serve.web.json_body import read_text_field
from gatepost.store import audit, groups, identities, inbox, messages, reservations, sessions, turns
from gatepost.store.messages import NewMessage
from gatepost.store.port import Db, Store
from gatepost.store.rooms import RoomPolicy
from gatepost.store.sessions import Session, SessionState

MOST_MESSAGES, MOST_TURNS, MOST_CALLS = 60, 10, 100  # that are shown
MOST_AUDIT_ROWS = 1000  # that are searched for calls of tools
LONGEST_SHOWN = 4000  # characters of one text
LARGEST_SHOWN = 60_000  # and of all of them
LONGEST_TEXT = 20_000
LARGEST_BODY = 4 * LONGEST_TEXT + 1024  # bytes
MOST_WAITING, LARGEST_WAITING = 50, 1_000_000  # messages, and their characters, that wait in one conversation

StopSession = Callable[[str, str], Awaitable[bool]]


async def stop_nothing(session_id: str, by: str) -> bool:
    """For a site without agents."""
    return False


class RemoteControl:
    def __init__(self, store: Store, clock: Clock, bells: EventBus, stop: StopSession) -> None:
        self._store, self._clock, self._bells, self._stop = store, clock, bells, stop

    def routes(self) -> list[Route]:
        return [
            Route("/sessions/{id}", self.show, methods=["GET"]),
            Route("/sessions/{id}/messages", self.add_message, methods=["POST"]),
            Route("/sessions/{id}/stop", self.stop, methods=["POST"]),
        ]

    async def show(self, request: Request) -> Response:
        found = await self._store.read(read_session, request.path_params["id"], request.state.user)
        return JSONResponse(found)

    async def add_message(self, request: Request) -> Response:
        text = mask_codes(clean(await read_text_field(request, "text", LARGEST_BODY)).strip())
        if not text or len(text) > LONGEST_TEXT:
            raise Invalid("text", f"it is empty or longer than {LONGEST_TEXT} characters")
        given, by, now = request.path_params["id"], request.state.user, self._clock.now()
        session = await self._store.write(type_message, given, by, text, now)
        self._bells.session(session.id)
        self._bells.change(session.instance, session.address)
        return JSONResponse({"ok": True})

    async def stop(self, request: Request) -> Response:
        given, by = request.path_params["id"], request.state.user
        session = await self._store.write(_order_stop, given, by, self._clock.now())
        return JSONResponse({"ok": True, "stopped": await self._stop(session.id, by)})


def find_session(db: Db, session_id: str, user: str) -> tuple[Session, Rights]:
    """The conversation, if this person may control it now. Not there and not hers look alike."""
    session = sessions.get(db, session_id) if len(session_id) <= 64 else None
    rights = sender_rights.find_rights(db, user, session.folder) if session is not None else None
    if session is None or session.agent or session.closed_at is not None or not _may_control(rights, session.folder):
        raise NotFound("conversation", session_id[:80], "or you are no owner or admin of its agent")
    return session, rights


def _may_control(rights: Rights | None, folder: str) -> TypeGuard[Rights]:
    """As in a chat: `root` is for owners."""
    return rights in COMMANDING and check_sender(RoomPolicy.PUBLIC, rights, folder).allowed


def read_session(db: Db, session_id: str, user: str) -> dict[str, Any]:
    session, _ = find_session(db, session_id, user)
    group, turn = groups.get(db, session.folder), turns.find_open(db, session.id)
    return {
        "id": session.id,
        "agent": (group.name if group else "") or session.folder,
        "folder": session.folder,
        "title": session.title,
        "room": session.address,
        "thread": session.thread,
        "running": session.state is SessionState.RUNNING and turn is not None,
        "waiting": inbox.count_waiting(db, session.id),
        "entries": sorted((*_list_messages(db, session), *_list_turns(db, session)), key=lambda each: each["at"]),
    }


def _list_messages(db: Db, session: Session) -> list[dict[str, Any]]:
    rows, _ = messages.list_for_session(db, session.id, 2**62, MOST_MESSAGES, LARGEST_SHOWN)
    return [
        {
            "at": message.at // 1000,
            "kind": "said" if message.direction == Direction.OUT else str(message.kind),
            "who": message.sender_name or message.sender if message.direction == Direction.IN else "",
            "text": message.text[:LONGEST_SHOWN],
        }
        for _, message, _ in rows
        if message.text
    ]


def _list_turns(db: Db, session: Session) -> list[dict[str, Any]]:
    """When each began, how it ended, and which tools it called."""
    found: list[dict[str, Any]] = []
    shown = turns.list_for_session(db, session.id, 2**62, MOST_TURNS)
    since = min((each.started_at for each in shown), default=0)
    called = audit.list_for_turns(db, [each.id for each in shown], since, None, MOST_AUDIT_ROWS) if shown else {}
    for turn in shown:
        error = f": {turn.error[:LONGEST_SHOWN]}" if turn.error else ""
        found.append(
            {"at": turn.started_at // 1000, "kind": "turn", "who": turn.provider, "text": f"{turn.state}{error}"}
        )
        for at, _, action, verdict in called[turn.id][-MOST_CALLS:]:
            found.append({"at": at // 1000, "kind": "call", "who": "", "text": f"{action}: {verdict}"})
    return found


def type_message(db: Db, session_id: str, user: str, text: str, now: int) -> Session:
    """What somebody types, for the agent. People in the room see the answer alone."""
    session, rights = find_session(db, session_id, user)
    if why := inbox.check_room(db, session.id, rights, len(text), MOST_WAITING, LARGEST_WAITING):
        raise Refused(user, "write", session.id, f"{why}; wait until the agent has answered some")
    if reservations.find_spent_budget(db, session.folder, identities.get_person(db, user), now) is not None:
        raise Refused(user, "write", session.id, "the budget is spent")
    name = user.rpartition("/")[2]
    content = {"text": text, "sender": name, "senderId": user, "senderName": name, "verb": "message"}
    new = NewMessage(
        instance=session.instance,
        address=session.address,
        thread=session.thread,
        direction=Direction.IN,
        sender=user,
        sender_name=name,
        text=text,
        content=msgspec.json.encode(content).decode(),
        at=now,
        folder=session.folder,
    )
    message_id = messages.accept(db, new, now)
    assert message_id is not None  # without a platform's id it cannot clash, and nobody can answer it there
    inbox.enqueue(db, message_id, session.id, session.folder, rights, now)
    _record(db, now, user, "session.type", session)
    return session


def _order_stop(db: Db, session_id: str, user: str, now: int) -> Session:
    session, _ = find_session(db, session_id, user)
    _record(db, now, user, "session.stop", session)
    return session


def _record(db: Db, now: int, user: str, action: str, session: Session) -> None:
    details = {"session": session.id, "folder": session.folder}
    audit.append(db, audit.AuditRecord(now, user, action, "done", details))
