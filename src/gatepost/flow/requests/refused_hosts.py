"""Requests about hosts that no rule mentions, for groups whose option `egress` is `ask`. The connection is refused at
once, and one card asks. The answer holds for the conversation, or becomes a rule that `gatepost egress list` shows and
can take back."""

from msgspec import Struct

from gatepost.core.clock import HOUR, Clock
from gatepost.core.event_bus import EventBus
from gatepost.core.settings import Config
from gatepost.egress import rules
from gatepost.egress.rules import EgressTarget
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.ask_approver import AskedRequest, AskingRules, ask, read_rules
from gatepost.flow.requests.unknown_senders import was_refused
from gatepost.messages.text import clean
from gatepost.store.port import Db, LockKind, Store
from gatepost.store.rights import egress, requests, waiting_requests
from gatepost.store.rights.requests import AnswerLasts, NewRequest, Request, RequestKind, RequestState
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.turns import Turn
from gatepost.tools.call import Caller

OPTION, ASK = "egress", "ask"
MOST_WAITING = 5  # hosts of one group, at once
MOST_AN_HOUR = 20  # the same in an hour, whatever became of them
LONGEST_WHY = 500
ASKED = "a person was asked ({}); you are told what they decide, and can try again then"
NOT_AGAIN = "a person was asked before, and nobody allowed it; the same question is not asked again within a day"
TOO_MANY = "people were asked about too many hosts; wait until they have decided, or do without it"
OTHER_LETTERS = "It has letters of other alphabets, which may look like those of another name."


class HostQuestion(Struct, frozen=True):
    """A session that wants to reach a host."""

    caller: Caller
    target: EgressTarget
    turn: Turn | None = None
    tool: str = ""  # '': it just tried to connect
    why: str = ""  # the agent's own words


class AskedHost(Struct, frozen=True):
    said: str
    asked: AskedRequest | None = None


class RefusedHosts:
    """Asks people on behalf of the way out and of the tool."""

    def __init__(
        self, store: Store, clock: Clock, config: Config, events: EventBus, channels: ChannelInstances
    ) -> None:
        self._store, self._clock, self._config, self._events, self._channels = store, clock, config, events, channels

    async def is_allowed(self, caller: Caller, target: str) -> bool:
        return caller.session_id is not None and await self._store.read(
            is_allowed, caller.folder, caller.session_id, target
        )

    async def ask(self, caller: Caller, target: str, *, tool: str = "", why: str = "") -> str:
        if caller.session_id is None or not await self._store.read(can_ask, caller.folder, caller.session_id):
            return ""
        turn = caller.running() if caller.running is not None else None
        question = HostQuestion(caller, rules.read_target(target), turn, tool, why)
        limits = read_rules(self._config)
        answer = await self._store.write(
            ask_about_host, self._channels, limits, question, self._clock.now(), lane=caller.lane
        )
        if answer.asked is not None:
            self._events.requests()
            for room in answer.asked.rooms:
                self._events.room(*room)
        return answer.said


def asks_people(db: Db, folder: str) -> bool:
    """By the nearest group that says anything: the group itself, or one above it."""
    own = groups.get(db, folder)
    said = [
        each.options[OPTION]
        for each in ([own] if own else []) + groups.list_ancestors(db, folder)
        if OPTION in each.options
    ]
    return bool(said) and said[0] == ASK


def can_ask(db: Db, folder: str, session_id: str) -> bool:
    """Return True if there is anybody to be told the answer, and the group asks. By reading alone: a try costs no
    write."""
    session = sessions.get(db, session_id)
    return session is not None and session.closed_at is None and asks_people(db, folder)


def is_allowed(db: Db, folder: str, session_id: str, target: str) -> bool:
    """An answer counts while the group asks: an operator who stops that ends it."""
    found = requests.find_lasting(db, session_id, make_about(target))
    return found is not None and found.kind is RequestKind.HOST and asks_people(db, folder)


def make_about(target: str) -> str:
    return f"network:{target}"


def ask_about_host(
    db: Db, channels: ChannelInstances, limits: AskingRules, question: HostQuestion, now: int
) -> AskedHost:
    """One request for each group and host, however many of its sessions try. A no is remembered for a day."""
    caller, target = question.caller, question.target
    session = sessions.get(db, caller.session_id or "")
    if session is None or session.closed_at is not None or not rules.may_be_offered(target):
        return AskedHost("")
    db.lock(LockKind.QUOTA, "requests", caller.folder)
    last = requests.find_last_of_group(db, RequestKind.HOST, caller.folder, str(target))
    if last is not None and last.state is RequestState.PENDING:
        return AskedHost(ASKED.format(last.id))
    if was_refused(last, now):
        return AskedHost(NOT_AGAIN)
    waiting = waiting_requests.count_pending_of_kind(db, RequestKind.HOST, caller.folder)
    if waiting >= MOST_WAITING or (
        requests.count_of_kind_since(db, RequestKind.HOST, caller.folder, now - HOUR) >= MOST_AN_HOUR
    ):
        return AskedHost(TOO_MANY)
    turn = question.turn
    new = NewRequest(
        kind=RequestKind.HOST,
        name=str(target),
        folder=caller.folder,
        session_id=session.id,
        tool=question.tool,
        input=_describe(question, session.title or session.address),
        digest=f"{target} {now}",
        about=make_about(str(target)),
        why=render_consequence(target),
        instance=turn.instance if turn else session.instance,
        address=turn.address if turn else session.address,
        thread=turn.thread if turn else session.thread,
        rights=turn.rights if turn else "",
    )
    asked = ask(db, channels, limits, new, now)
    return AskedHost(ASKED.format(asked.request.id), asked)


def _describe(question: HostQuestion, conversation: str) -> dict[str, object]:
    target = question.target
    foreign = any(label.startswith("xn--") for label in target.host.split("."))
    about: dict[str, object] = {
        "host": target.host,
        "port": target.port,
        "spelling": OTHER_LETTERS if foreign else "",
        "conversation": conversation,
        "asked by": question.tool or "a connection that was refused",
        "why": clean(question.why)[:LONGEST_WHY],
    }
    return {name: value for name, value in about.items() if value}


def render_consequence(target: EgressTarget) -> str:
    return (
        f"What this agent can read, it can send to an allowed host. To allow it always adds a rule for {target}, names"
        " below it included."
    )


def make_lasting(state: RequestState, lasts: AnswerLasts) -> AnswerLasts:
    """A connection is not made once: whoever allows a host allows it for the conversation at least."""
    return AnswerLasts.SESSION if state is RequestState.ALLOWED and lasts is AnswerLasts.ONCE else lasts


def follow(db: Db, request: Request, now: int) -> None:
    """Store an answer that lasts as a rule. A rule that an operator made meanwhile for the same host stays."""
    requests.settle(db, request.id, now)
    if request.lasts is not AnswerLasts.ALWAYS:
        return
    target = rules.read_target(request.name)
    known = egress.list_rules(db)
    if any((rule.folder, rule.host, rule.port) == (request.folder, target.host, target.port) for rule in known):
        return
    allow = request.state is RequestState.ALLOWED
    by = request.answered_by
    egress.put(db, request.folder, target.host, target.port, allow=allow, local=False, by=by, now=now)
