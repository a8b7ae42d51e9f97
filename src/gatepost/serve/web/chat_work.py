"""Work of an agent for its answers in a conversation: the tools that it used in each turn, as it went.

It is what `gatepost session show` tells, for the same people: owners and admins of the agent.
"""

from collections.abc import Sequence
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
from gatepost.store.port import Db, Store
from gatepost.store.rights import audit
from gatepost.store.sessions import timeline, turns
from gatepost.store.sessions.timeline import TimelineToolCall, ToolCallStatus

MOST_TURNS, MOST_CALLS = 30, 100  # that are shown; calls: of a turn
LATEST = 2  # turns that may have changed since the last look
MOST_AUDIT_ROWS = 2000  # that are searched
MOST_TOLD = 40  # entries of the timeline that are searched, for each turn
LONGEST_TOOL = 100  # characters of a tool's name, which an agent may have made up
NOT_JUDGED, FAILED = "", "failed"
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
        told = timeline.list_tool_calls(db, session.id, since, MOST_TOLD * most)
        return {
            "session": session.id,
            "open": running.id if running is not None else "",
            "turns": {turn: calls for turn in called if (calls := merge_calls(turn, called[turn], told))},
        }


def merge_calls(
    turn: str, judged: list[tuple[int, str, str, str]], told: Sequence[TimelineToolCall]
) -> list[dict[str, str]]:
    """Return what the gate judged, and between it what the agent told of its own tools, which no gate sees. An agent
    tells of all that it uses: what it calls by a name that the gate has judged in this turn is the gate's to tell."""
    names = {action for _, _, action, _ in judged}
    found = [(at, action, verdict) for at, _, action, verdict in judged]
    found += [
        (each.at, each.name, FAILED if each.status is ToolCallStatus.FAILED else NOT_JUDGED)
        for each in told
        if each.turn_id == turn and each.name not in names
    ]
    found.sort(key=lambda each: each[0])
    return [{"name": name[:LONGEST_TOOL], "verdict": verdict} for _, name, verdict in found[-MOST_CALLS:]]
