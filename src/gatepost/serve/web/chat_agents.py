"""Who answers in a conversation of the page: the agent, what it runs on, and what it has cost.

It is what `/status` and `/usage` say, for the same people: who is a guest of an agent is told its name alone.
"""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gatepost.access.budgets import render_usd
from gatepost.access.senders import Rights
from gatepost.channels.local_channel import LocalChannel
from gatepost.core.clock import Clock
from gatepost.core.settings import Config
from gatepost.flow.intake.decision_explanation import ExplainedTarget, explain_decision
from gatepost.flow.intake.message_outcome import MessageOutcome
from gatepost.flow.intake.routed_message import RoutedMessage
from gatepost.flow.sessions.effective_group import load_effective_group
from gatepost.messages.address import LONGEST, parse
from gatepost.messages.inbound import Verb
from gatepost.messages.text import clean
from gatepost.serve.web.chat_places import read_room
from gatepost.serve.web.login import WebVisitor
from gatepost.store import costs, rooms, sessions, turns
from gatepost.store.port import Db, Store
from gatepost.store.rooms import RoomPolicy
from gatepost.store.sessions import Session

MOST = 20  # agents of one conversation that are named
REACHED = (MessageOutcome.WAKES, MessageOutcome.OBSERVES)
USUAL = "its own choice"


class ChatAgents:
    def __init__(self, store: Store, clock: Clock, config: Config, hub: LocalChannel) -> None:
        self._store, self._clock, self._config, self._hub = store, clock, config, hub

    async def list_agents(self, request: Request) -> Response:
        query, visitor = request.query_params, request.state.visitor
        room, thread = read_room(self._hub, query.get("room", ""), visitor), clean(query.get("thread", ""))[:LONGEST]
        found = await self._store.read(self._read, visitor, room, thread)
        return JSONResponse({"agents": found})

    def _read(self, db: Db, visitor: WebVisitor, room: str, thread: str) -> list[dict[str, Any]]:
        """Those who would get words of this visitor here."""
        known = rooms.get(db, self._hub.instance, room)
        said = RoutedMessage(
            instance=self._hub.instance,
            address=parse(room, "room"),
            sender=visitor.user,
            text="",
            verb=Verb.MESSAGE,
            thread=thread,
            direct=visitor.is_direct(room, self._hub.main_room),
        )
        policy = known.policy if known is not None else RoomPolicy.STRICT
        targets = explain_decision(db, said, policy, None, self._clock.now()).targets
        reached = [each for each in targets if each.outcome in REACHED and not each.chosen.observe]
        return [self._describe(db, each, room, thread) for each in reached[:MOST]]

    def _describe(self, db: Db, target: ExplainedTarget, room: str, thread: str) -> dict[str, Any]:
        chosen = target.chosen
        topic = thread if chosen.topic is None else chosen.topic
        key = sessions.key_of(chosen.mode, chosen.folder, self._hub.instance, room, topic)
        session = sessions.find_by_key(db, key)
        group = load_effective_group(db, self._config, chosen.folder, session.provider if session else "")
        name = (group.name if group else "") or chosen.folder
        if group is None or not may_see_costs(target.rights):
            return {"folder": chosen.folder, "name": name}
        model = (session.model if session else "") or group.model or USUAL
        about = {"folder": chosen.folder, "name": name, "provider": group.provider, "model": model}
        return {**about, **_describe_session(db, session)}


def may_see_costs(rights: Rights) -> bool:
    """As in a chat: `/status` and `/usage` are for members."""
    return rights != "guest"


def _describe_session(db: Db, session: Session | None) -> dict[str, Any]:
    if session is None:
        return {"session": "", "cost": render_usd(0), "working": False}
    working = turns.find_open(db, session.id) is not None
    return {"session": session.id, "cost": render_usd(costs.sum_for_session(db, session.id)), "working": working}
