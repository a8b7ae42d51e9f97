"""What agents ask, over all of them: as a list to read, and one of them by what somebody calls it."""

from msgspec import Struct

from gatepost.core.errors import Invalid
from gatepost.serve.agents.views import PendingRequest, ViewContext, make_pending_request, read_state
from gatepost.store import permissions, sessions
from gatepost.store.permissions import Permission
from gatepost.store.port import Db
from gatepost.store.sessions import SessionState

SHORTEST = 4  # beginning of an id


class RequestingAgent(Struct, frozen=True, rename="camel", kw_only=True):
    """The agent that asks; no more of it than a list needs."""

    agent_id: str
    title: str
    type: str
    folder: str
    status: SessionState


def list_pending(db: Db, eyes: ViewContext) -> list[tuple[RequestingAgent, PendingRequest]]:
    """Everything that waits for an answer, the oldest first."""
    known: dict[str, RequestingAgent] = {}
    found = []
    for each in permissions.list_pending(db):
        if each.session_id not in known and (session := sessions.get(db, each.session_id)) is not None:
            known[each.session_id] = RequestingAgent(
                agent_id=session.id,
                title=session.title,
                type=session.provider,
                folder=session.folder,
                status=read_state(db, session, eyes),
            )
        if each.session_id in known:
            found.append((known[each.session_id], make_pending_request(each)))
    return found


def find_request(db: Db, named: str) -> Permission | None:
    """By its id, waiting or not, or the beginning of one that waits."""
    found = permissions.get(db, named)
    if found is not None or len(named) < SHORTEST:
        return found
    near = permissions.list_ids_by_prefix(db, named)
    if len(near) > 1:
        raise _ambiguous_error(named, near)
    return permissions.get(db, near[0]) if near else None


def get_only_request(db: Db, session_id: str, named: str) -> Permission | None:
    """What an agent asks, if it is one thing."""
    found = permissions.list_pending(db, session_id)
    if len(found) > 1:
        raise _ambiguous_error(named, [each.id for each in found])
    return found[0] if found else None


def _ambiguous_error(named: str, ids: list[str]) -> Invalid:
    return Invalid("request", f"{named!r} means several requests: {', '.join(ids[:5])}")
