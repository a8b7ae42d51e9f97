"""Questions of a runner to people while its turn goes on: permissions and questions. Each waits in the store for its
answer; here is which of them this runner awaits."""

from collections.abc import Callable
from typing import Any

from gatepost.flow.requests.agent_questions import NOBODY
from gatepost.flow.requests.asking import read_rules
from gatepost.flow.sessions import permissions
from gatepost.flow.sessions.awaited_answers import AwaitedAnswers
from gatepost.flow.sessions.permissions import ChatAsking, RequestTerms
from gatepost.flow.sessions.provider_specs import find_spec
from gatepost.flow.sessions.session_deps import SessionDeps
from gatepost.flow.sessions.timeline_events import TimelineQuota
from gatepost.mailbox import runner_frames
from gatepost.mailbox.runner_frames import EventKind
from gatepost.store import errands, replays
from gatepost.store.groups import Group
from gatepost.store.sessions import Session
from gatepost.store.turns import Turn

IN_REPLAY = "this is a replay: nobody is asked"


class RunnerRequests:
    def __init__(
        self,
        parts: SessionDeps,
        session: Session,
        group: Group,
        provider: str,
        send: Callable[[runner_frames.Frame], None],
    ) -> None:
        self._parts, self._session, self._group, self._provider, self._send = parts, session, group, provider, send
        self._at_once = 0  # requests of the turn that were answered as they came
        self._named: set[str] = set()  # that this runner has named
        self.awaited = AwaitedAnswers()

    async def record(self, turn: Turn, event: runner_frames.EventFrame, quota: TimelineQuota) -> None:
        """The request waits in the store until somebody answers: who manages this agent, or who may decide about its
        group. `quota`: of what the turn's timeline may hold."""
        refusal = self._find_refusal(turn, event, quota)
        if refusal:
            self._send(permissions.make_refusal(event, refusal))
            return
        wish = permissions.parse_permission_request(event)
        quota.count(wish.input)
        now, others = self._parts.clock.now(), frozenset(self._named)
        rules = read_rules(self._parts.config)
        chat = None if self._session.agent else ChatAsking(self._parts.reach, rules)
        spec = find_spec(self._parts.home, self._provider)
        terms = RequestTerms(rules.expire, spec.edits_input, tuple(each.id for each in spec.modes))
        recorded = await self._parts.store.write(
            permissions.record_request, self._session, turn, event, now, others, chat, terms, lane=self._session.id
        )
        for room in recorded.rooms:
            self._parts.bells.room(*room)
        known = recorded.answer
        if known is not None:
            self._send(known)
            self._at_once += 1
            if known.input == {"reason": permissions.TOO_MANY.format(permissions.MOST_WAITING)}:
                self._write_refusal(event, spec.mode_option)
        else:
            self._named.add(wish.name)
            self.awaited.add(wish.name, self._parts.listening.now())
        self._parts.bells.change(turn.instance, turn.address)
        self._parts.bells.requests()

    def _find_refusal(self, turn: Turn, event: runner_frames.EventFrame, quota: TimelineQuota) -> str:
        """Why nobody is asked; '' if somebody is."""
        if turn.instance == replays.INSTANCE:
            return IN_REPLAY
        if turn.instance == errands.INSTANCE and event.kind == EventKind.QUESTION:
            return NOBODY
        if quota.is_full() or self._at_once >= permissions.MOST_WRITTEN:
            return permissions.TOO_OFTEN
        return ""

    def _write_refusal(self, event: runner_frames.EventFrame, mode_option: str) -> None:
        now, own = self._parts.clock.now(), self._session.id
        self._parts.store.post(permissions.record_refusal, event, self._group, mode_option, own, now, lane=own)

    def answer(self, request: str, verdict: str, given: dict[str, Any]) -> None:
        """What somebody said to a request that waited."""
        self.awaited.remove(request, self._parts.listening.now())
        self._send(runner_frames.PermissionAnswerFrame(request=request, verdict=verdict, input=given))

    def end_turn(self) -> None:
        if self._named:
            self._parts.bells.requests()  # what nobody answered is withdrawn, and its cards say so
        self._at_once = 0
        self.awaited.clear()
