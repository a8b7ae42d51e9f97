"""Questions of a runner to people while its turn goes on, and which of them this runner awaits. Each waits in the store
for its answer, and every answer is written down.

Before a provider acts it may ask for a permission. Those who manage an agent can be asked, and the request waits for
them. In a chat a card asks whoever may decide about the group; a question is put to the room.
"""

import hashlib
import json
from collections.abc import Callable, Collection
from typing import Any

from msgspec import Struct

from gatepost.core import ids
from gatepost.core.clock import HOUR
from gatepost.core.records import replace
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests import approved_plans
from gatepost.flow.requests.agent_questions import NOBODY
from gatepost.flow.requests.ask_approver import MOST_AN_HOUR, MOST_WAITING_IN_GROUP, AskingRules, ask, read_rules
from gatepost.flow.requests.request_loop import NOT_PERMITTED
from gatepost.flow.sessions.runner.turn_timeline import TimelineQuota, clean_value, excerpt
from gatepost.flow.sessions.sandbox.provider_specs import find_spec
from gatepost.flow.sessions.session_deps import SessionDeps
from gatepost.mailbox import runner_frames
from gatepost.mailbox.runner_frames import EventKind
from gatepost.messages.text import clean, one_line
from gatepost.store.port import Db, LockKind
from gatepost.store.rights import audit, requests, waiting_requests
from gatepost.store.rights.requests import PROVIDERS_OWN, NewRequest, Request, RequestKind, RequestState
from gatepost.store.sessions import errands, replays, sleeping_turns, timeline
from gatepost.store.sessions.groups import Group
from gatepost.store.sessions.sessions import Session
from gatepost.store.sessions.timeline import TimelineKind
from gatepost.store.sessions.turns import Turn

TOO_MANY = (
    "{} requests of this agent wait for an answer already, so this one was not put to anybody. Wait for those, or do"
    " without."
)
GROUP_TOO_MANY = (
    "{} requests of this agent's group wait for an answer already, so this one was not put to anybody. Wait for those,"
    " or do without."
)
TOO_OFTEN = "This agent has asked too often, so it was not put to anybody. Do without."
QUESTION = "question"  # the name of a request for an answer, which is no tool
LONGEST = 100  # characters of a name that came from inside
VERDICTS = {"allowed": "allow"}  # of a request's state; everything else is a no
MOST_WRITTEN = 200  # of one sandbox; the rest is answered alike
MOST_WAITING = 32  # of one agent, at once
IN_REPLAY = "this is a replay: nobody is asked"


def make_refusal(event: runner_frames.EventFrame, reason: str) -> runner_frames.PermissionAnswerFrame:
    return runner_frames.PermissionAnswerFrame(
        request=_plain(event.data.get("id")), verdict="deny", input={"reason": reason}
    )


class RecordedPermission(Struct, frozen=True):
    """`answer`: None if it waits. `rooms`: to be woken once it is committed."""

    answer: runner_frames.PermissionAnswerFrame | None
    rooms: tuple[tuple[str, str], ...] = ()


class ChatAsking(Struct, frozen=True):
    """The way in which people are asked about what a provider wants to do in a chat."""

    channels: ChannelInstances
    rules: AskingRules


class RequestOptions(Struct, frozen=True):
    """`expire`: how long whoever manages an agent has to answer. `editable`: its provider uses an input that a person
    puts in place of its own. `modes`: those that its provider has."""

    expire: int | None = None
    editable: bool = False
    modes: tuple[str, ...] = ()


NO_OPTIONS = RequestOptions()


def record_request(
    db: Db,
    session: Session,
    turn: Turn,
    event: runner_frames.EventFrame,
    now: int,
    others: Collection[str] = (),
    chat: ChatAsking | None = None,
    options: RequestOptions = NO_OPTIONS,
) -> RecordedPermission:
    """It waits until somebody answers, or the turn ends. A turn that was continued may ask again what was answered
    before: if that says the very same, the answer is given at once and written down. Under another name it is given
    only if no attempt had it: what an attempt had may be done already, so a person is asked again. `others`: what this
    runner waits for already. `chat`: None for an agent that somebody manages. A refusal whose reason is TOO_MANY's is
    the caller's to write down."""
    wish = _with_place(parse_permission_request(event), session, turn)
    wish = replace(wish, editable=options.editable and wish.kind is RequestKind.TOOL and not wish.cut)
    if chat is not None:
        if why := approved_plans.find_fault(wish, options.modes):
            return RecordedPermission(make_refusal(event, why))
        wish = approved_plans.drop_only_mode(wish, options.modes)
    db.lock(LockKind.QUOTA, "requests", session.folder)
    asked = requests.find_in_turn(db, session.id, turn.id, wish.name, wish.digest, others)
    if asked is not None and asked.state in (RequestState.ALLOWED, RequestState.DENIED, RequestState.EXPIRED):
        sleeping_turns.claim_answer(db, asked.id, now)
        return RecordedPermission(_repeat_answer(db, session, turn, asked, now))
    requests.withdraw_others(db, turn.id, {wish.name, *others}, now)
    if asked is not None and asked.state is RequestState.PENDING:
        rooms: tuple[tuple[str, str], ...] = ()
    elif waiting_requests.count_waiting(db, session.id) >= MOST_WAITING:
        return RecordedPermission(make_refusal(event, TOO_MANY.format(MOST_WAITING)))
    elif chat is not None and waiting_requests.count_waiting_in_group(db, session.folder) >= MOST_WAITING_IN_GROUP:
        return RecordedPermission(make_refusal(event, GROUP_TOO_MANY.format(MOST_WAITING_IN_GROUP)))
    elif chat is not None and requests.count_asked_since(db, session.id, now - HOUR) >= MOST_AN_HOUR:
        return RecordedPermission(make_refusal(event, TOO_OFTEN))
    elif chat is not None:
        found = ask(db, chat.channels, chat.rules, wish, now)
        asked, rooms = found.request, found.rooms
    else:
        requests.withdraw_replaced(db, wish, now)
        end = now + options.expire if options.expire is not None else None
        (asked, _), rooms = requests.add(db, replace(wish, expires_at=end, next_at=end), now), ()
    if session.agent:
        entry = {"requestId": asked.id, "name": asked.tool, "status": asked.state}
        timeline.add(db, session.id, turn.id, TimelineKind.PERMISSION, entry, now)
    return RecordedPermission(None, rooms)


def _with_place(wish: NewRequest, session: Session, turn: Turn) -> NewRequest:
    return replace(
        wish,
        folder=session.folder,
        session_id=session.id,
        turn_id=turn.id,
        instance=turn.instance,
        address=turn.address,
        thread=turn.thread,
        rights=turn.rights,
    )


def _repeat_answer(
    db: Db, session: Session, turn: Turn, asked: Request, now: int
) -> runner_frames.PermissionAnswerFrame:
    """Return what somebody answered to the same request before."""
    if session.agent:
        entry = {"requestId": asked.id, "name": asked.tool, "status": asked.state, "again": True}
        timeline.add(db, session.id, turn.id, TimelineKind.PERMISSION, entry, now)
    details = {
        "agent": session.id,
        "turn": turn.id,
        "tool": asked.tool,
        "request": asked.id,
        "answeredBy": asked.answered_by,
    }
    audit.append(db, audit.AuditRecord(now, f"agent:{session.folder}", "permission.again", asked.state, details))
    given = asked.answer if asked.state == RequestState.ALLOWED else {"reason": asked.reason or NOT_PERMITTED}
    return runner_frames.PermissionAnswerFrame(
        request=asked.name, verdict=VERDICTS.get(asked.state, "deny"), input=given
    )


def parse_permission_request(event: runner_frames.EventFrame) -> NewRequest:
    """Return what was asked, within bounds: whatever is inside could have made it up. Only a plan has consequences."""
    data, name, digest = event.data, _plain(event.data.get("id")), digest_of(event)
    if event.kind == EventKind.QUESTION:
        about, cut = excerpt({"question": data.get("text"), "options": data.get("options")})
        return NewRequest(name=name, kind=RequestKind.QUESTION, tool=QUESTION, input=about, digest=digest, cut=cut)
    given, cut = excerpt(data.get("input"))
    kind = _plain(data.get("kind"))
    is_plan = kind == RequestKind.PLAN
    follow_up = clean_value(data.get("follow_up") or "") if is_plan else ""
    return NewRequest(
        name=name,
        kind=RequestKind(kind) if kind in PROVIDERS_OWN else RequestKind.TOOL,
        tool=one_line(_plain(data.get("tool"))),
        input=given if isinstance(given, dict) else {},
        follow_up=follow_up.strip() if isinstance(follow_up, str) else "",
        next_mode=_plain(data.get("next_mode")) if is_plan else "",
        digest=digest,
        cut=cut or bool(data.get("cut")) or not isinstance(given, dict | None),
    )


def digest_of(event: runner_frames.EventFrame) -> str:
    """Return the digest of everything that is asked, before anything is cut. `whole` is the runner's own, of what did
    not fit a frame."""
    about = {name: event.data[name] for name in sorted(event.data) if name != "id"}
    try:
        text = json.dumps([event.kind, about], sort_keys=True)
    except RecursionError:
        return ids.new("never")  # what cannot be compared is never the same
    return hashlib.sha256(text.encode()).hexdigest()


def record_refusal(
    db: Db, event: runner_frames.EventFrame, group: Group, option: str, session_id: str, now: int
) -> None:
    """Record which tool was refused. Its input stays inside: it may hold anything. `option`: it holds the mode."""
    details = {
        "session": session_id,
        "turn": event.turn,
        "tool": QUESTION if event.kind == EventKind.QUESTION else one_line(_plain(event.data.get("tool"))),
        option: _plain(group.options.get(option, "")),
    }
    audit.append(db, audit.AuditRecord(now, f"agent:{group.folder}", "permission", "refused", details))


def _plain(value: object) -> str:
    return clean(str(value))[:LONGEST] if isinstance(value, str) else ""


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
        deps: SessionDeps,
        session: Session,
        group: Group,
        provider: str,
        send: Callable[[runner_frames.Frame], None],
    ) -> None:
        self._deps, self._session, self._group, self._provider, self._send = deps, session, group, provider, send
        self._at_once = 0  # requests of the turn that were answered as they came
        self._named: set[str] = set()  # that this runner has named
        self.is_used = False  # its turn's end is to be told here
        self.awaited = AwaitedAnswers()

    async def record(self, turn: Turn, event: runner_frames.EventFrame, quota: TimelineQuota) -> None:
        """Have a request wait in the store until somebody answers: whoever manages this agent, or decides about its
        group. `quota`: of what the turn's timeline may hold."""
        refusal = self._find_refusal(turn, event, quota)
        if refusal:
            self._send(make_refusal(event, refusal))
            return
        wish = parse_permission_request(event)
        quota.count(wish.input)
        now, others = self._deps.clock.now(), frozenset(self._named)
        rules = read_rules(self._deps.config)
        chat = None if self._session.agent else ChatAsking(self._deps.channels, rules)
        spec = find_spec(self._deps.home, self._provider)
        options = RequestOptions(rules.expire, spec.edits_input, tuple(each.id for each in spec.modes))
        recorded = await self._deps.store.write(
            record_request, self._session, turn, event, now, others, chat, options, lane=self._session.id
        )
        self.is_used = True
        for room in recorded.rooms:
            self._deps.events.room(*room)
        known = recorded.answer
        if known is not None:
            self._send(known)
            self._at_once += 1
            if known.input == {"reason": TOO_MANY.format(MOST_WAITING)}:
                self._write_refusal(event, spec.mode_option)
        else:
            self._named.add(wish.name)
            self.awaited.add(wish.name, self._deps.listening.now())
        self._deps.events.change(turn.instance, turn.address)
        self._deps.events.requests()

    def _find_refusal(self, turn: Turn, event: runner_frames.EventFrame, quota: TimelineQuota) -> str:
        """Return why nobody is asked, '' if somebody is."""
        if turn.instance == replays.INSTANCE:
            return IN_REPLAY
        if turn.instance == errands.INSTANCE and event.kind == EventKind.QUESTION:
            return NOBODY
        if quota.is_full() or self._at_once >= MOST_WRITTEN:
            return TOO_OFTEN
        return ""

    def _write_refusal(self, event: runner_frames.EventFrame, mode_option: str) -> None:
        now, own = self._deps.clock.now(), self._session.id
        self._deps.store.post(record_refusal, event, self._group, mode_option, own, now, lane=own)

    def answer(self, request: str, verdict: str, given: dict[str, Any]) -> None:
        """Pass on what somebody said to a request that waited."""
        self.awaited.remove(request, self._deps.listening.now())
        self._send(runner_frames.PermissionAnswerFrame(request=request, verdict=verdict, input=given))

    def end_turn(self) -> None:
        if self._named:
            self._deps.events.requests()  # what nobody answered is withdrawn, and its cards say so
        self._at_once, self.is_used = 0, bool(self._named)
        self.awaited.clear()
