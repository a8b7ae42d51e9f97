"""What the agent of a conversation did for its answers: the tools that it used in each turn, as it went.

It is what `gatepost session show` tells, for the same people: owners and admins of the agent.
"""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gatepost.access.senders import COMMANDING
from gatepost.channels.local_channel import LocalChannel
from gatepost.messages.address import LONGEST
from gatepost.messages.text import clean
from gatepost.serve.web.chat_agents import ChatAgents
from gatepost.serve.web.chat_places import read_room
from gatepost.serve.web.signin.visitors import WebVisitor
from gatepost.store import audit, turns
from gatepost.store.port import Db, Store

MOST_TURNS, MOST_CALLS = 30, 100  # that are shown; calls: of a turn
LATEST = 2  # turns that may have changed since the last look
MOST_AUDIT_ROWS = 2000  # that are searched
READ_S = 2.0
NEVER = 2**62
NOTHING: dict[str, Any] = {"session": "", "open": "", "turns": {}}


class ChatWork:
    def __init__(self, store: Store, hub: LocalChannel, agents: ChatAgents) -> None:
        self._store, self._hub, self._agents = store, hub, agents

    async def list_calls(self, request: Request) -> Response:
        """`latest`: of the last turns alone, for a page that knows the others."""
        query, visitor = request.query_params, request.state.visitor
        room, thread = read_room(self._hub, query.get("room", ""), visitor), clean(query.get("thread", ""))[:LONGEST]
        most = LATEST if query.get("latest") else MOST_TURNS
        found = await self._store.read(
            self._read, visitor, room, thread, most, within=READ_S, lane=f"work {visitor.user}"
        )
        return JSONResponse(found)

    def _read(self, db: Db, visitor: WebVisitor, room: str, thread: str, most: int) -> dict[str, Any]:
        found = self._agents.find_session(db, visitor, room, thread)
        if found is None or found[1] not in COMMANDING:
            return NOTHING
        session, running = found[0], turns.find_open(db, found[0].id)
        shown = turns.list_for_session(db, session.id, NEVER, most)
        since = min((each.started_at for each in shown), default=NEVER)
        called = audit.list_for_turns(db, [each.id for each in shown], since, None, MOST_AUDIT_ROWS) if shown else {}
        return {
            "session": session.id,
            "open": running.id if running is not None else "",
            "turns": {turn: _render_calls(calls) for turn, calls in called.items() if calls},
        }


def _render_calls(calls: list[tuple[int, str, str, str]]) -> list[dict[str, str]]:
    return [{"name": action, "verdict": verdict} for _, _, action, verdict in calls[-MOST_CALLS:]]
