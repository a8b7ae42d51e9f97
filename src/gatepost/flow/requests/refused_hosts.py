"""Requests about hosts that no rule mentions, for groups that ask people about them. The connection is refused at once,
and one card asks. The answer holds for the conversation, or becomes a rule that `gatepost egress list` shows and can
take back.

A try writes only if it makes a card, so an agent that tries many hosts costs reads alone.
"""

from contextlib import suppress

from msgspec import Struct

from gatepost.core.clock import HOUR, Clock
from gatepost.core.errors import Invalid
from gatepost.core.event_bus import EventBus
from gatepost.core.settings import Config
from gatepost.egress import rules
from gatepost.egress.rules import EgressTarget
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.ask_approver import AskedRequest, AskingRules, ask, can_reach_approver, read_rules
from gatepost.flow.requests.unknown_senders import was_refused
from gatepost.messages.text import clean
from gatepost.store.port import Db, LockKind, Store
from gatepost.store.rights import egress, requests, waiting_requests
from gatepost.store.rights.requests import AnswerLasts, NewRequest, Request, RequestKind, RequestState
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.turns import Turn
from gatepost.tools.call import Caller

MOST_WAITING = 5  # hosts of one group, at once
MOST_AN_HOUR = 20  # the same in an hour, whatever became of them
MOST_WAITING_HERE = 50  # hosts of all groups, at once
MOST_NAMED, MOST_LOOKED_AT = 10, 50  # other hosts that a card names, and tries among which they are looked for
MOST_IN_NOTICE = 3
LONGEST_WHY = 500
ASKED = "a person was asked ({}); you are told what they decide, and can try again then"
NOT_AGAIN = "a person was asked before, and nobody allowed it; the same question is not asked again within a day"
TOO_MANY = "people were asked about too many hosts; wait until they have decided, or do without it"
OTHER_LETTERS = (
    "The name is shown in its encoded form (xn--…). It has letters of other alphabets, which may look like those of"
    " another name."
)


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
        self._usual = config[rules.UNKNOWN_HOSTS] == rules.ASK

    async def is_allowed(self, caller: Caller, target: str) -> bool:
        return caller.session_id is not None and await self._store.read(
            is_allowed, caller.folder, caller.session_id, target, self._usual
        )

    async def ask(self, caller: Caller, target: str, *, tool: str = "", why: str = "") -> str:
        if caller.session_id is None:
            return ""
        turn = caller.running() if caller.running is not None else None
        question = HostQuestion(caller, rules.read_target(target), turn, tool, why)
        limits = read_rules(self._config)
        said = await self._store.read(find_known_answer, self._channels, question, self._usual, self._clock.now())
        if said is not None:
            return said
        answer = await self._store.write(
            ask_about_host, self._channels, limits, question, self._clock.now(), lane=caller.lane
        )
        if answer.asked is not None:
            self._events.requests()
            for room in answer.asked.rooms:
                self._events.room(*room)
        return answer.said


def asks_people(db: Db, folder: str, usual: bool) -> bool:
    """By the nearest group that says anything: the group itself, or one above it; else as the setting says."""
    own = groups.get(db, folder)
    said = (rules.find_own_word(each.options) for each in ([own] if own else []) + groups.list_ancestors(db, folder))
    return next((word for word in said if word is not None), usual)


def find_known_answer(db: Db, channels: ChannelInstances, question: HostQuestion, usual: bool, now: int) -> str | None:
    """Return what the agent is told without a new card, '' if nobody is asked. None: a person is to be asked."""
    folder, target = question.caller.folder, question.target
    session = sessions.get(db, question.caller.session_id or "")
    if session is None or session.closed_at is not None or not rules.may_be_offered(target):
        return ""  # there is nobody to be told the answer, or nothing to ask
    if not asks_people(db, folder, usual):
        return ""
    if (known := _find_answer(db, folder, target, now)) is not None:
        return known
    turn = question.turn
    instance, turn_id = (turn.instance, turn.id) if turn is not None else (session.instance, "")
    address = turn.address if turn is not None else session.address
    return None if can_reach_approver(db, channels, folder, turn_id, instance, address) else ""


def _find_answer(db: Db, folder: str, target: EgressTarget, now: int) -> str | None:
    """Return what was asked about a host before, or why no more is asked now."""
    last = requests.find_last_of_group(db, RequestKind.HOST, folder, str(target))
    if last is not None and last.state is RequestState.PENDING:
        return ASKED.format(last.id)
    if was_refused(last, now):
        return NOT_AGAIN
    crowded = (
        waiting_requests.count_pending_of_kind(db, RequestKind.HOST, folder) >= MOST_WAITING
        or requests.count_of_kind_since(db, RequestKind.HOST, folder, now - HOUR) >= MOST_AN_HOUR
        or waiting_requests.count_pending_of_kind(db, RequestKind.HOST) >= MOST_WAITING_HERE
    )
    return TOO_MANY if crowded else None


def is_allowed(db: Db, folder: str, session_id: str, target: str, usual: bool) -> bool:
    """An answer counts while the group asks: an operator who stops that ends it."""
    found = requests.find_lasting(db, session_id, make_about(target))
    return found is not None and found.kind is RequestKind.HOST and asks_people(db, folder, usual)


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
    if (known := _find_answer(db, caller.folder, target, now)) is not None:
        return AskedHost(known)
    turn = question.turn
    new = NewRequest(
        kind=RequestKind.HOST,
        name=str(target),
        folder=caller.folder,
        session_id=session.id,
        turn_id=turn.id if turn else "",
        tool=question.tool,
        input=_describe(question, session.title or session.address, _list_others(db, caller.folder, target, now)),
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


def list_refused_hosts(db: Db, session_id: str, since: int) -> list[str]:
    """Return a few hosts that a session was refused, to be named to people; the latest first."""
    found: list[str] = []
    for tried in egress.list_targets_refused_since(db, session_id, since, MOST_NAMED):
        with suppress(Invalid):  # a model, or what is no host's name
            target = rules.read_target(tried)
            found += [str(target)] if len(target.host) <= rules.LONGEST_OFFERED else []
    return found[:MOST_IN_NOTICE]


def _list_others(db: Db, folder: str, target: EgressTarget, now: int) -> list[str]:
    """Return other hosts that the group was refused in the last hour and that nobody was asked about: there are too
    many for a card each."""
    found: list[str] = []
    for tried in egress.list_refused_targets(db, folder, now - HOUR, MOST_LOOKED_AT):
        with suppress(Invalid):
            other = rules.read_target(tried)
            if other == target or not rules.may_be_offered(other) or str(other) in found:
                continue
            if requests.find_last_of_group(db, RequestKind.HOST, folder, str(other)) is None:
                found.append(str(other))
    more = [f"{len(found) - MOST_NAMED} more"] if len(found) > MOST_NAMED else []
    return [*found[:MOST_NAMED], *more]


def _describe(question: HostQuestion, conversation: str, others: list[str]) -> dict[str, object]:
    target = question.target
    foreign = any(label.startswith("xn--") for label in target.host.split("."))
    about: dict[str, object] = {
        "host": target.host,
        "port": target.port,
        "spelling": OTHER_LETTERS if foreign else "",
        "conversation": conversation,
        "asked by": question.tool or "a connection that was refused",
        "why": clean(question.why)[:LONGEST_WHY],
        "also refused": ", ".join(others),
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


def render_outcome(request: Request, decision: str) -> dict[str, str]:
    """Return what the agent is told."""
    again = f" You may reach {request.name} now: try again." if request.state is RequestState.ALLOWED else ""
    return {"host": request.name, "result": f"{decision}{again}"}


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
