"""Questions of a runner to people while its turn goes on: permissions and questions. Each waits in the store for its
answer; here is which of them this runner awaits."""

from collections.abc import Callable
from typing import Any

from gatepost.flow.requests.agent_questions import NOBODY
from gatepost.flow.requests.ask_approver import read_rules
from gatepost.flow.sessions.runner import permissions
from gatepost.flow.sessions.runner.permissions import ChatAsking, RequestOptions
from gatepost.flow.sessions.runner.turn_timeline import TimelineQuota
from gatepost.flow.sessions.sandbox.provider_specs import find_spec
from gatepost.flow.sessions.session_deps import SessionDeps
from gatepost.mailbox import runner_frames
from gatepost.mailbox.runner_frames import EventKind
from gatepost.store.sessions import errands, replays
from gatepost.store.sessions.groups import Group
from gatepost.store.sessions.sessions import Session
from gatepost.store.sessions.turns import Turn

IN_REPLAY = "this is a replay: nobody is asked"


class AwaitedAnswers:
    """Decisions of people that a runner's turn waits for, and for how long already, in microseconds of listening."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}
        self.since: int | None = None  # None: it waits for nobody
        self.waited = 0  # of the turn's time, before the wait of now

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def __bool__(self) -> bool:
        return bool(self._names)

    def add(self, name: str, now: int) -> None:
        self._names[name] = None
        self.since = now if self.since is None else self.since

    def remove(self, name: str, now: int) -> bool:
        """Take an answer that is there. The others have their whole time again: the turn has something to do.
        Return False if nobody waits for it."""
        if name not in self._names:
            return False
        del self._names[name]
        assert self.since is not None
        self.waited += now - self.since
        self.since = now if self._names else None
        return True

    def end_use(self, use: str) -> None:
        """End the use of a tool: what was asked about it is awaited no longer, answered or not. Only the runner says
        so, and what it says does not lengthen its turn: that wait is the turn's own time."""
        for name in [each for each in self._names if use and each.rpartition("~")[0] == use]:
            del self._names[name]
        self.since = self.since if self._names else None

    def clear(self) -> None:
        """Forget all: there is another turn, or none."""
        self._names.clear()
        self.since, self.waited = None, 0


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
        self.is_used = False  # its turn's end is to be told here
        self.awaited = AwaitedAnswers()

    async def record(self, turn: Turn, event: runner_frames.EventFrame, quota: TimelineQuota) -> None:
        """Have a request wait in the store until somebody answers: whoever manages this agent, or decides about its
        group. `quota`: of what the turn's timeline may hold."""
        refusal = self._find_refusal(turn, event, quota)
        if refusal:
            self._send(permissions.make_refusal(event, refusal))
            return
        wish = permissions.parse_permission_request(event)
        quota.count(wish.input)
        now, others = self._parts.clock.now(), frozenset(self._named)
        rules = read_rules(self._parts.config)
        chat = None if self._session.agent else ChatAsking(self._parts.channels, rules)
        spec = find_spec(self._parts.home, self._provider)
        options = RequestOptions(rules.expire, spec.edits_input, tuple(each.id for each in spec.modes))
        recorded = await self._parts.store.write(
            permissions.record_request, self._session, turn, event, now, others, chat, options, lane=self._session.id
        )
        self.is_used = True
        for room in recorded.rooms:
            self._parts.events.room(*room)
        known = recorded.answer
        if known is not None:
            self._send(known)
            self._at_once += 1
            if known.input == {"reason": permissions.TOO_MANY.format(permissions.MOST_WAITING)}:
                self._write_refusal(event, spec.mode_option)
        else:
            self._named.add(wish.name)
            self.awaited.add(wish.name, self._parts.listening.now())
        self._parts.events.change(turn.instance, turn.address)
        self._parts.events.requests()

    def _find_refusal(self, turn: Turn, event: runner_frames.EventFrame, quota: TimelineQuota) -> str:
        """Return why nobody is asked, '' if somebody is."""
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
        """Pass on what somebody said to a request that waited."""
        self.awaited.remove(request, self._parts.listening.now())
        self._send(runner_frames.PermissionAnswerFrame(request=request, verdict=verdict, input=given))

    def end_turn(self) -> None:
        if self._named:
            self._parts.events.requests()  # what nobody answered is withdrawn, and its cards say so
        self._at_once, self.is_used = 0, bool(self._named)
        self.awaited.clear()
