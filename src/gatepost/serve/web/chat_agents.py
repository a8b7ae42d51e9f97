"""The agents of a conversation of the page: those that answer, what they run on and have cost, and those that could
answer instead.

It is what `/status` and `/usage` say, for the same people: a guest of an agent is told its name alone. A visitor may
choose whom `@group` would reach in their words.
"""

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gatepost.access.senders import COMMANDING, Rights, check_sender
from gatepost.access.tiers import covers
from gatepost.channels.local_channel import LocalChannel
from gatepost.core.clock import Clock
from gatepost.core.money import render_about_usd
from gatepost.core.settings import Config
from gatepost.flow import sender_rights
from gatepost.flow.intake.decision_explanation import ExplainedTarget, explain_decision
from gatepost.flow.intake.message_outcome import MessageOutcome
from gatepost.flow.intake.routed_message import RoutedMessage, make_question
from gatepost.flow.intake.slash_commands import CommandAction, is_allowed, list_specs
from gatepost.flow.sessions.sandbox.effective_group import load_effective_group
from gatepost.flow.sessions.sandbox.sandbox_plan import DEMO
from gatepost.messages.address import LONGEST, parse
from gatepost.messages.inbound import Verb
from gatepost.messages.text import clean
from gatepost.serve.web.chat_places import read_room
from gatepost.serve.web.dashboard.sidebar import is_first_run
from gatepost.serve.web.signin.visitors import WebVisitor
from gatepost.store.engine.rule_cache import RuleCache
from gatepost.store.money import costs
from gatepost.store.port import Db, Store
from gatepost.store.rights import audit
from gatepost.store.rooms import rooms
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.sessions import groups, sessions, timeline, turns
from gatepost.store.sessions.sessions import Session
from gatepost.store.sessions.timeline import TimelineToolCall, ToolCallStatus

MOST = 20  # agents of one conversation that are named
REACHED = (MessageOutcome.WAKES, MessageOutcome.OBSERVES)
MOST_CHOICES = 50
MOST_TURNS, MOST_CALLS = 30, 100  # that are shown; calls: of a turn
LATEST = 2  # turns that may have changed since the last look
MOST_AUDIT_ROWS = 2000  # that are searched
MOST_TOLD = 40  # entries of the timeline that are searched, for each turn
LONGEST_TOOL = 100  # characters of a tool's name, which an agent may have made up
NOT_JUDGED, FAILED = "", "failed"
READ_S = 2.0
NEVER = 2**62
NOTHING: dict[str, Any] = {"session": "", "open": "", "turns": {}}


class ChatAgents:
    def __init__(self, store: Store, clock: Clock, config: Config, hub: LocalChannel) -> None:
        self._store, self._clock, self._config, self._hub = store, clock, config, hub

    async def list_agents(self, request: Request) -> Response:
        query, visitor = request.query_params, request.state.visitor
        room, thread = read_room(self._hub, query.get("room", ""), visitor), clean(query.get("thread", ""))[:LONGEST]
        return JSONResponse(await self._store.read(self._read, visitor, room, thread))

    def _read(self, db: Db, visitor: WebVisitor, room: str, thread: str) -> dict[str, Any]:
        """Read who would get words of this visitor here, and whom they may choose in their place. `demo`: the demo
        answers here, and they may connect an agent."""
        said, policy = self._make_question(db, visitor, room, thread)
        reached = self._list_reached(db, said, policy)
        agents = [self._describe(db, each, room, thread) for each in reached[:MOST]]
        demo = any(each.get("provider") == DEMO for each in agents) and is_first_run(db, self._config, visitor.user)
        choices, commands = _list_choices(db, said, policy), _list_commands(reached[0].rights) if reached else []
        return {"agents": agents, "choices": choices, "commands": commands, "demo": demo}

    def find_session(self, db: Db, visitor: WebVisitor, room: str, thread: str) -> tuple[Session, Rights] | None:
        """Return the conversation of the agent that gets the visitor's words here first, and what they are to that
        agent."""
        for target in self._list_reached(db, *self._make_question(db, visitor, room, thread))[:1]:
            session = self._find_session(db, target, room, thread)
            return (session, target.rights) if session is not None else None
        return None

    def may_write(self, db: Db, visitor: WebVisitor, room: str, thread: str) -> bool:
        """Return True if somebody gets what the visitor says here."""
        return bool(self._list_reached(db, *self._make_question(db, visitor, room, thread)))

    def _make_question(self, db: Db, visitor: WebVisitor, room: str, thread: str) -> tuple[RoutedMessage, RoomPolicy]:
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
        return said, known.policy if known is not None else RoomPolicy.STRICT

    def _list_reached(self, db: Db, said: RoutedMessage, policy: RoomPolicy) -> list[ExplainedTarget]:
        targets = explain_decision(db, said, policy, None, self._clock.now()).targets
        return [each for each in targets if each.outcome in REACHED and not each.chosen.observe]

    def _find_session(self, db: Db, target: ExplainedTarget, room: str, thread: str) -> Session | None:
        chosen = target.chosen
        topic = thread if chosen.topic is None else chosen.topic
        key = sessions.key_of(chosen.mode, chosen.folder, self._hub.instance, room, topic)
        return sessions.find_by_key(db, key)

    def _describe(self, db: Db, target: ExplainedTarget, room: str, thread: str) -> dict[str, Any]:
        chosen, session = target.chosen, self._find_session(db, target, room, thread)
        group = load_effective_group(db, self._config, chosen.folder, session.provider if session else "")
        name = (group.name if group else "") or chosen.folder
        if group is None or not may_see_costs(target.rights):
            return {"folder": chosen.folder, "name": name}
        model = (session.model if session else "") or group.model
        about = {"folder": chosen.folder, "name": name, "provider": group.provider, "model": model}
        return {**about, **_describe_session(db, session)}


def _list_choices(db: Db, said: RoutedMessage, policy: RoomPolicy) -> list[dict[str, str]]:
    """List the groups to which routes lead from here, and those below them, as far as the visitor may speak there."""
    addressed = {each.folder for each in make_question(db, RuleCache(), said).list_addressed()}
    access = sender_rights.read_access(db, said.sender)
    found: list[dict[str, str]] = []
    for group in groups.list_all(db):
        if len(found) == MOST_CHOICES:
            break
        if not any(covers(folder, group.folder) for folder in addressed):
            continue
        rights = access.judge(group.folder)
        if rights is not None and check_sender(policy, rights, group.folder).allowed:
            found.append({"folder": group.folder, "name": group.name or group.folder})
    return found


def _list_commands(rights: Rights) -> list[dict[str, str]]:
    """List the commands for the agent here that somebody with these rights may give. Others do what the page has
    buttons for."""
    return [
        {"name": each.name, "help": each.help.replace("`", "")}
        for each in list_specs()
        if each.listed and each.act is CommandAction.RUN and not each.anywhere and is_allowed(each.right, rights)
    ]


def may_see_costs(rights: Rights) -> bool:
    """As in a chat: `/status` and `/usage` are for members."""
    return rights != "guest"


def _describe_session(db: Db, session: Session | None) -> dict[str, Any]:
    if session is None:
        return {"session": "", "cost": render_about_usd(0), "working": False}
    working = turns.find_open(db, session.id) is not None
    return {"session": session.id, "cost": render_about_usd(costs.sum_for_session(db, session.id)), "working": working}


class ChatWork:
    """Work of an agent for its answers in a conversation: the tools that it used in each turn, as it went.

    It is what `gatepost session show` tells, for the same people: owners and admins of the agent.
    """

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
        listed = timeline.list_tool_calls(db, session.id, since, MOST_TOLD * most)
        return {
            "session": session.id,
            "open": running.id if running is not None else "",
            "turns": {turn: calls for turn in called if (calls := merge_calls(turn, called[turn], listed))},
        }


def merge_calls(
    turn: str, judged: list[tuple[int, str, str, str]], listed: Sequence[TimelineToolCall]
) -> list[dict[str, str]]:
    """Return what the gate judged, and between it what the agent told of its own tools, which no gate sees. An agent
    tells of all that it uses: what it calls by a name that the gate has judged in this turn is the gate's to tell."""
    names = {action for _, _, action, _ in judged}
    found = [(at, action, verdict) for at, _, action, verdict in judged]
    found += [
        (each.at, each.name, FAILED if each.status is ToolCallStatus.FAILED else NOT_JUDGED)
        for each in listed
        if each.turn_id == turn and each.name not in names
    ]
    found.sort(key=lambda each: each[0])
    return [{"name": name[:LONGEST_TOOL], "verdict": verdict} for _, name, verdict in found[-MOST_CALLS:]]
