"""A plan that is approved in a chat: its card says what follows, and the transaction of the yes does it, once."""

from collections.abc import Collection

from gatepost.core.records import replace
from gatepost.messages.card import escape_markdown
from gatepost.messages.visible_text import show_hidden
from gatepost.store.messages import inbox, messages
from gatepost.store.messages.inbox import InboxMode
from gatepost.store.port import Db
from gatepost.store.rights.requests import NewRequest, Request, RequestKind, RequestState
from gatepost.store.rooms import origins
from gatepost.store.sessions import agents, sessions, turns

EVENT = "plan"
ONLY_MODE = "default"  # of a provider that declares none
MANAGED = "{0} is the plan of a managed agent: `gatepost permit allow {0}` approves it, /deny {0} refuses it."
UNKNOWN_MODE = (
    "The plan was not put to anybody: after it the agent would be in the mode {!r}, which there is not. There are: {}."
)


def find_fault(wish: NewRequest, modes: Collection[str]) -> str:
    """Why nobody is asked: what came from inside names a mode that its provider does not have."""
    known = modes or (ONLY_MODE,)
    if not wish.next_mode or wish.next_mode in known:
        return ""
    return UNKNOWN_MODE.format(wish.next_mode, ", ".join(known))


def drop_only_mode(wish: NewRequest, modes: Collection[str]) -> NewRequest:
    """A provider without modes stays as it is."""
    return wish if modes else replace(wish, next_mode="")


def find_obstacle(request: Request, state: RequestState) -> str:
    """Why nobody can allow it in a chat: the mode of a managed agent's plan is checked where that agent is managed."""
    managed = request.kind is RequestKind.PLAN and request.instance == agents.INSTANCE
    if not managed or state is not RequestState.ALLOWED or not (request.next_mode or request.follow_up):
        return ""
    return MANAGED.format(request.id)


def render_consequences(request: Request) -> str:
    """For the card, as markdown: what a yes means beyond the plan itself."""
    said: list[str] = []
    if request.next_mode:
        said.append(f"If you allow it, the agent goes on in the mode {escape_markdown(request.next_mode)}.")
    if request.follow_up:
        shown = escape_markdown(show_hidden(request.follow_up))
        said.append(f"If you allow it, the agent is then given this prompt, which is its own: {shown}")
    return "\n\n".join(said)


def follow(db: Db, request: Request, now: int) -> bool:
    """Apply an approved plan, in the transaction that allows it. Return True if its session must be told about a
    change. A mode belongs to its provider: it is left out if the conversation has another provider by now."""
    session = sessions.get(db, request.session_id) if request.session_id is not None else None
    if request.kind is not RequestKind.PLAN or session is None or session.closed_at is not None:
        return False
    turn = turns.get(db, request.turn_id)
    changes = bool(request.next_mode) and turn is not None and session.provider in ("", turn.provider)
    if changes:
        agents.set_permission_mode(db, session.id, request.next_mode)
    if request.follow_up:
        _add_prompt(db, request, session.id, now)
    return changes or bool(request.follow_up)


def _add_prompt(db: Db, request: Request, session_id: str, now: int) -> None:
    """The agent's own words, in the room of its turn: people have seen them on the card."""
    content = {"event": EVENT, "request": request.id, "text": request.follow_up}
    message_id = messages.add_system(db, request, f"{EVENT}:{request.id}", content, now)
    if message_id is not None:
        origins.add_next_step(db, message_id, origins.get_for_turn(db, request.turn_id))
        inbox.enqueue(db, message_id, session_id, request.folder, request.rights or "guest", now, InboxMode.NEXT)
