"""The right to see and steer one conversation: for holders of the operation's right, and the owners and admins of its
agent.

Rights are judged with each request, by the person. To everybody else there is no such conversation.
"""

from typing import Any, TypeGuard

from msgspec import Struct

from gatepost.access.senders import COMMANDING, Rights, check_sender
from gatepost.core.errors import NotFound
from gatepost.flow import sender_rights
from gatepost.serve.control.contract import OPERATOR
from gatepost.serve.control.declaration import OperationArgs
from gatepost.serve.control.rights import ROOT_FOLDER, has_right
from gatepost.store.port import Db
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.sessions import sessions
from gatepost.store.sessions.sessions import Session

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
    raise NotFound("conversation", session_id[:80], "or you are no owner or admin of its agent")


def _may_control(rights: Rights | None, folder: str) -> TypeGuard[Rights]:
    """As in a chat: `root` is for owners."""
    return rights in COMMANDING and check_sender(RoomPolicy.PUBLIC, rights, folder).allowed
