"""The one transaction in which an arrived event becomes a fact and finds its targets.

Invariants: an accepted message has at least one inbox row, whatever became of it; what is refused leaves nothing but
its record (no user, no room, no session); told before means nothing done.
"""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from gatepost.access import budgets, senders
from gatepost.access.senders import Rights, is_person
from gatepost.access.tree_scope import may_watch
from gatepost.core.clock import DAY
from gatepost.core.errors import GatepostError
from gatepost.core.records import replace
from gatepost.flow import pairing, panic_notice, sender_rights
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, add_outgoing_message
from gatepost.flow.intake import routing, slash_commands, verbs
from gatepost.flow.intake.attachments import StoredAttachment
from gatepost.flow.intake.routing import RouteChoice
from gatepost.flow.intake.slash_commands import CommandAction, SlashCommand
from gatepost.flow.requests import unknown_senders
from gatepost.flow.requests.answering import GivenAnswer, PersonMessage, read_answer
from gatepost.flow.requests.asking import AskedRequest, AskingRules
from gatepost.flow.requests.deciding import Decision
from gatepost.flow.sessions.session_stop import KILL_TIME, stop_session
from gatepost.messages.address import Address
from gatepost.messages.inbound import CLICK, Direction, Inbound, MessageKind, Receipt, Verb
from gatepost.store import (
    destinations,
    direct_rooms,
    groups,
    identities,
    inbox,
    messages,
    request_cards,
    reservations,
    room_history,
    rooms,
    routes,
    sessions,
    switches,
    watchers,
)
from gatepost.store.budgets import STOP, BudgetNotice, has_budgets
from gatepost.store.inbox import InboxState
from gatepost.store.messages import Message, NewMessage
from gatepost.store.outbox import EffectOrigin, OutboxEffect
from gatepost.store.port import Db
from gatepost.store.request_cards import RequestCard
from gatepost.store.rooms import Room, RoomPolicy
from gatepost.store.rule_cache import RuleCache
from gatepost.store.sessions import Session, SessionMode

NO_ROUTE = "No agent is set up for this chat. Whoever runs this gateway can add one with `gatepost route add`."
CLEARED = "Cleared. The next message starts a new conversation."
NOT_RUNNING = "Nothing is running here."
BUDGET = "budget_spent"
MOST_ALIKE = 10  # rooms of one name that are numbered one by one
MOST_WATCHING = 5  # conversations of one group that are shown what it watches: the busiest
STALE = (
    "Some messages from here reached me only long after they were written, so I left them unanswered."
    " Please send again what still matters."
)


class Arrival(Struct, frozen=True, kw_only=True):
    """A cleaned event, with what was found out about it before the transaction."""

    instance: str
    address: Address
    inbound: Inbound
    at: int
    kept: tuple[StoredAttachment, ...] = ()
    command: SlashCommand | None = None
    code: str | None = None  # it is a pairing code, which is nowhere else in here
    fault: str = ""  # why it cannot be taken, as a reason for the ledger …
    complaint: str = ""  # … and as words for the sender
    stale: bool = False


class IntakeResult(Struct, frozen=True, kw_only=True):
    """What became of it, and what is to be done once it is committed."""

    receipt: Receipt
    delivered: bool = False  # some session has it
    wake: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()  # sessions whose turn was ended in this transaction, and whose sandbox is to follow
    clear: tuple[str, ...] = ()
    notices: tuple[OutboxEffect, ...] = ()  # of what was stopped: they wait until nothing of it runs any more
    told: bool = False
    decision: Decision | None = None  # of a request
    paired: bool = False  # the sender was bound to a person
    asked: tuple[AskedRequest, ...] = ()  # whom people are asked about
    stranger: bool = False  # somebody who may not speak here, or whom nobody listens to; nobody answers them


class UnrecordedSender(GatepostError):
    """A stranger whose messages are only counted by now. Raised within the transaction: nothing of it stays."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"a message is not written down: {reason}")
        self.reason = reason


class _MessageContext(Struct, frozen=True):
    """One accepted message on its way to its targets."""

    db: Db
    rules: RuleCache
    reach: ChannelInstances
    arrival: Arrival
    id: int
    thread: str
    now: int

    def end(
        self, state: InboxState, reason: str, rights: Rights, folder: str = "", *, told: bool = False
    ) -> IntakeResult:
        inbox.refuse(self.db, self.id, folder, rights, reason, self.now, state)
        return IntakeResult(receipt=Receipt(message_id=self.id, new=True, state=state, reason=reason), told=told)

    def add_notice(self, text: str, key: str = "") -> None:
        told = OutgoingMessage(
            key=key or f"notice:{self.id}",
            origin=EffectOrigin.NOTICE,
            instance=self.arrival.instance,
            address=self.arrival.inbound.address,
            thread=self.thread,
            text=text,
            reply_to_id=None if key else self.id,
        )
        add_outgoing_message(self.db, self.reach, told, self.now)


class _TargetAccess(Struct, frozen=True):
    chosen: RouteChoice
    rights: Rights
    reason: str = ""  # '' if the sender may speak there

    @property
    def folder(self) -> str:
        return self.chosen.folder


def accept(
    db: Db,
    reach: ChannelInstances,
    arrival: Arrival,
    now: int,
    spare: bool = False,
    rules: RuleCache | None = None,
    asking: AskingRules | None = None,
) -> IntakeResult:
    """Deduplicate, judge, route and queue one event. `spare`: write nothing down about a stranger (raises Spared).
    `asking`: how people are asked about strangers; None: nobody is."""
    rules = rules or RuleCache()
    rules.renew(db)
    accepted = _accept(db, rules, reach, arrival, now, asking)
    if spare and accepted.stranger:
        raise UnrecordedSender(accepted.receipt.reason)
    return accepted


def _accept(
    db: Db, rules: RuleCache, reach: ChannelInstances, arrival: Arrival, now: int, asking: AskingRules | None
) -> IntakeResult:
    inbound = arrival.inbound
    parent = _find_parent(db, arrival)
    thread = verbs.thread_of(inbound, parent)
    verb = verbs.promote(verbs.find_verb(inbound), parent)
    new = _make_message(arrival, thread, verb)
    message_id = messages.accept(db, new, now) or room_history.replace_fetched(db, new)
    if message_id is None:
        return _find_duplicate(db, arrival)
    case = _MessageContext(db, rules, reach, arrival, message_id, thread, now)
    if arrival.code is not None:
        return _redeem_code(case, arrival.code)
    answered = _read_answer(case, parent)
    if answered is not None and not answered.passes:
        return _end_answer(case, answered)
    if answered is not None:
        case.add_notice(answered.said)
        return replace(_route(case, new, verb, asking), told=True)
    return _route(case, new, verb, asking)


def _route(case: _MessageContext, new: NewMessage, verb: Verb, asking: AskingRules | None) -> IntakeResult:
    """Who gets it, and whether its sender may speak there."""
    db, rules, reach, arrival, thread = case.db, case.rules, case.reach, case.arrival, case.thread
    inbound, address = arrival.inbound, arrival.inbound.address
    room = rules.read(db, rooms.get, arrival.instance, address)
    policy = room.policy if room else reach.policy(arrival.instance)
    decision = _decide(db, rules, arrival, verb, thread)
    if not decision.chosen:
        rights = senders.rights_of(rules.read(db, sender_rights.read_standing, inbound.sender).roles, "")
        return _refuse_unrouted(case, decision, rights, senders.check_sender(policy, rights), verb)
    admitted, rejected = _admit(db, rules, inbound.sender, policy, decision)
    held = _hold_strangers(case, new, rejected, asking) if asking is not None else ()
    if held:
        rejected = [target for target in rejected if target.folder not in {each.request.folder for each in held}]
    result = _apply_admission(case, admitted, rejected, room) if admitted or not held else _make_held(case)
    return replace(result, asked=tuple(each for each in held if each.added)) if held else result


def _redeem_code(case: _MessageContext, code: str) -> IntakeResult:
    """Bind the sender to a person. Who has no valid code counts as a stranger, known or not."""
    inbound = case.arrival.inbound
    result = pairing.redeem_code(case.db, code, inbound.sender, case.now)
    if result.paired and inbound.direct:
        direct_rooms.add(case.db, inbound.sender, case.arrival.instance, inbound.address, case.now)
    case.rules.renew(case.db)  # nothing that is read behind this write may be kept
    if result.said:
        case.add_notice(result.said)
    state = InboxState.ANSWERED if result.paired else InboxState.REFUSED
    ended = case.end(state, result.reason, "guest", told=bool(result.said))
    return replace(ended, paired=result.paired, stranger=not result.paired)


def _hold_strangers(
    case: _MessageContext, new: NewMessage, rejected: Sequence[_TargetAccess], asking: AskingRules
) -> tuple[AskedRequest, ...]:
    """Whoever a room would let in once somebody agrees: what they write waits. A command of theirs does not."""
    arrival = case.arrival
    if arrival.fault or arrival.stale or arrival.command is not None or arrival.inbound.kind is not MessageKind.CHAT:
        return ()
    asked = [
        unknown_senders.hold(case.db, case.reach, asking, case.id, new, target.folder, target.rights, case.now)
        for target in rejected
        if target.reason == senders.ASKS_FIRST and not target.chosen.observe
    ]
    return tuple(each for each in asked if each is not None)


def _make_held(case: _MessageContext) -> IntakeResult:
    """Its files are kept, and it counts among what strangers write."""
    receipt = Receipt(message_id=case.id, new=True, state=InboxState.HELD)
    return IntakeResult(receipt=receipt, delivered=True, stranger=True)


def _read_answer(case: _MessageContext, parent: Message | None) -> GivenAnswer | None:
    """What a person answers to a request goes to no agent. Without an open card in the room it costs nothing."""
    arrival, inbound = case.arrival, case.arrival.inbound
    cards: tuple[RequestCard, ...] = ()
    if case.rules.read(case.db, request_cards.has_open):
        cards = case.rules.read(case.db, request_cards.list_open_in_room, arrival.instance, inbound.address)
    decides = arrival.command is not None and arrival.command.act is CommandAction.DECIDE
    if not (cards or inbound.click or decides) or arrival.fault or arrival.stale or not _is_spoken(inbound):
        return None
    said = PersonMessage(
        instance=arrival.instance,
        address=inbound.address,
        sender=inbound.sender,
        text=arrival.command.text if arrival.command is not None else inbound.text,
        click=inbound.click,
        answers=parent.id if parent is not None else None,
        command=arrival.command.head if arrival.command is not None else "",
    )
    return read_answer(case.db, case.reach, said, cards, case.now)


def _end_answer(case: _MessageContext, given: GivenAnswer) -> IntakeResult:
    case.rules.renew(case.db)  # cards were closed: nothing that is read behind this write may be kept
    if given.said:
        case.add_notice(given.said)
    ended = case.end(InboxState.ANSWERED, given.reason, "guest", told=bool(given.said))
    decided = given.decision is not None and given.decision.decided
    standing = case.rules.read(case.db, sender_rights.read_standing, case.arrival.inbound.sender).roles
    nobody = not (decided or standing.roles or standing.member_of)  # what they send is counted, and soon not kept
    return replace(ended, decision=given.decision, stranger=nobody)


def _is_spoken(inbound: Inbound) -> bool:
    """Whether a person wrote it or pressed a button: an edit, a reaction or what a task says decides nothing."""
    return inbound.kind is MessageKind.CHAT and inbound.event in ("message", CLICK) and is_person(inbound.sender)


def sessions_to_stop(db: Db, reach: ChannelInstances, arrival: Arrival) -> tuple[str, ...]:
    """What `accept` would have stopped for this command, told by reading alone. Nothing for one that was there before,
    or is too old."""
    inbound, command = arrival.inbound, arrival.command
    if command is None or arrival.fault or arrival.stale:
        return ()
    if (
        messages.find(db, arrival.instance, inbound.address, Direction.IN, inbound.platform_id, inbound.event)
        is not None
    ):
        return ()
    parent, rules = _find_parent(db, arrival), RuleCache()
    thread, verb = verbs.thread_of(inbound, parent), verbs.promote(verbs.find_verb(inbound), parent)
    room = rooms.get(db, arrival.instance, inbound.address)
    policy = room.policy if room else reach.policy(arrival.instance)
    admitted, _ = _admit(db, rules, inbound.sender, policy, _decide(db, rules, arrival, verb, thread))
    allowed = [each for each in admitted if not each.chosen.observe and slash_commands.may_use(command, each.rights)]
    case = _MessageContext(db, rules, reach, arrival, 0, thread, arrival.at)
    return tuple(session.id for each in allowed if (session := _find_session(case, each.chosen)) is not None)


def _decide(db: Db, rules: RuleCache, arrival: Arrival, verb: Verb, thread: str) -> routing.RouteDecision:
    inbound = arrival.inbound
    facts = routing.make_match_input(
        arrival.instance, arrival.address, sender=inbound.sender, verb=verb, text=inbound.text, thread=thread
    )
    known = rules.read(db, routes.list_all)
    return routing.decide(known, facts, lambda folder: rules.read(db, groups.get, folder) is not None)


def _admit(
    db: Db, rules: RuleCache, sender: str, policy: RoomPolicy, decision: routing.RouteDecision
) -> tuple[list[_TargetAccess], list[_TargetAccess]]:
    """The targets that the sender may speak to, and the others."""
    admitted: list[_TargetAccess] = []
    rejected: list[_TargetAccess] = []
    standing = rules.read(db, sender_rights.read_standing, sender)
    for chosen in decision.chosen:
        allowed = standing.judge(chosen.folder)
        rights = allowed or senders.rights_of(standing.roles, chosen.folder)
        verdict = senders.check_sender(policy, rights, chosen.folder) if allowed else senders.SHUT_OUT
        (admitted if verdict.allowed else rejected).append(_TargetAccess(chosen, rights, verdict.reason))
    return admitted, rejected


def _apply_admission(
    case: _MessageContext, admitted: list[_TargetAccess], rejected: list[_TargetAccess], room: Room | None
) -> IntakeResult:
    for target in rejected:
        inbox.refuse(case.db, case.id, target.folder, target.rights, target.reason, case.now)
    if not admitted:
        receipt = Receipt(message_id=case.id, new=True, state="refused", reason=rejected[0].reason)
        return IntakeResult(receipt=receipt, stranger=True)
    first, arrival = admitted[0], case.arrival
    if arrival.fault:
        case.add_notice(arrival.complaint)
        return case.end(InboxState.REFUSED, arrival.fault, first.rights, first.folder, told=True)
    if arrival.stale:
        case.add_notice(STALE, key=f"notice:stale:{arrival.instance}:{arrival.address}:{case.now // DAY}")
        return case.end(InboxState.FAILED, "stale", first.rights, first.folder, told=True)
    if arrival.command is not None:
        spoken_to = [target for target in admitted if not target.chosen.observe]
        done = _run_command(case, arrival.command, spoken_to) if spoken_to else None
        if done is not None:
            return done
    able = [target for target in admitted if target.chosen.observe or _check_budget(case, target)]
    if not able:
        return IntakeResult(receipt=Receipt(message_id=case.id, new=True, state="refused", reason=BUDGET), told=True)
    return replace(_deliver(case, able, room), told=len(able) < len(admitted))


def _check_budget(case: _MessageContext, target: _TargetAccess) -> bool:
    """Nobody is woken who could not ask a model anything; the room hears so once in the budget's period."""
    inbound = case.arrival.inbound
    if not case.rules.read(case.db, has_budgets):
        return True
    payer = None
    if inbound.kind is MessageKind.CHAT:
        payer = case.rules.read(case.db, identities.get_person, inbound.sender)
    denied = reservations.find_spent_budget(case.db, target.folder, payer, case.now)
    if denied is None:
        return True
    inbox.refuse(case.db, case.id, target.folder, target.rights, BUDGET, case.now)
    note = BudgetNotice(STOP, denied.standing)
    case.add_notice(
        budgets.render_notice(note), key=budgets.make_notice_key(note, case.arrival.instance, inbound.address)
    )
    return False


def _find_parent(db: Db, arrival: Arrival) -> Message | None:
    """The message that this one is about: the agent's if there is one of that id, else somebody's."""
    wanted, address = verbs.parent_of(arrival.inbound), arrival.inbound.address
    if not wanted:
        return None
    ours = messages.find(db, arrival.instance, address, Direction.OUT, wanted)
    return ours or messages.find(db, arrival.instance, address, Direction.IN, wanted)


def _make_message(arrival: Arrival, thread: str, verb: Verb) -> NewMessage:
    inbound = arrival.inbound
    return NewMessage(
        instance=arrival.instance,
        address=inbound.address,
        direction=Direction.IN,
        kind=inbound.kind,
        sender=inbound.sender,
        text=inbound.text,
        at=arrival.at,
        platform_id=inbound.platform_id,
        event=inbound.event,
        verb=verb,
        thread=thread,
        sender_name=inbound.sender_name,
        content=_render_content(arrival, verb),
        reply_to=verbs.parent_of(inbound),
    )


def _render_content(arrival: Arrival, verb: Verb) -> str:
    """The message as the agent gets it. A reaction stays what it was: that it is a mention matters to routes alone."""
    inbound = arrival.inbound
    emoji = verbs.reaction_of(inbound.event)
    content: dict[str, Any] = {
        **inbound.extra,
        "text": inbound.text,
        "sender": inbound.sender_name or inbound.sender,
        "senderId": inbound.sender,
        "senderName": inbound.sender_name,
        "verb": verbs.find_verb(inbound) if emoji else verb,
    }
    if emoji:
        content["reaction"] = emoji
    if arrival.command is not None and arrival.command.act is CommandAction.PASS:
        content["text"], content["command"] = arrival.command.text, arrival.command.head
    if arrival.kept:
        content["attachments"] = [
            {"type": each.kind, "name": each.name, "mimeType": each.mime, "size": each.size, "path": each.path}
            for each in arrival.kept
        ]
    if (quote := inbound.reply_to) is not None:
        content["replyTo"] = {"id": quote.platform_id, "text": quote.text, "sender": quote.sender}
    return msgspec.json.encode(content).decode()


def _find_duplicate(db: Db, arrival: Arrival) -> IntakeResult:
    inbound = arrival.inbound
    known = messages.find(db, arrival.instance, inbound.address, Direction.IN, inbound.platform_id, inbound.event)
    assert known is not None  # the unique index has just found it
    entries = inbox.list_for_message(db, known.id)
    state, reason = (entries[0].state, entries[0].reason) if entries else ("", "")
    return IntakeResult(receipt=Receipt(message_id=known.id, new=False, state=state, reason=reason))


def _refuse_unrouted(
    case: _MessageContext, decision: routing.RouteDecision, rights: Rights, verdict: senders.SenderVerdict, verb: Verb
) -> IntakeResult:
    """Nobody gets it. Those who belong here are told, if they spoke to us."""
    if decision.dropped_by is not None:
        return replace(
            case.end(InboxState.REFUSED, f"dropped_by_route {decision.dropped_by.id}", rights), stranger=True
        )
    if not verdict.allowed:
        return replace(case.end(InboxState.REFUSED, verdict.reason, rights), stranger=True)
    command = case.arrival.command
    if command is not None and command.act is CommandAction.TELL:
        return _answer_command(case, command, rights, "")
    if rights != "guest" and (case.arrival.inbound.direct or verb is Verb.MENTION):
        case.add_notice(NO_ROUTE)
        return case.end(InboxState.REFUSED, "no_route", rights, told=True)
    return replace(case.end(InboxState.REFUSED, "no_route", rights), stranger=True)


def _run_command(case: _MessageContext, command: SlashCommand, targets: Sequence[_TargetAccess]) -> IntakeResult | None:
    """Carry out what the gateway does by itself; None if the message goes to the agent."""
    first = targets[0]
    if command.act is CommandAction.DROP:
        return case.end(InboxState.CANCELLED, "dropped command", first.rights, first.folder)
    allowed = [target for target in targets if slash_commands.may_use(command, target.rights)]
    if not allowed:
        case.add_notice(f"Only an owner or an admin of this agent may use {command.head}.")
        return case.end(InboxState.REFUSED, "command_denied", first.rights, first.folder, told=True)
    first = allowed[0]
    if command.act is CommandAction.TELL:
        return _answer_command(case, command, first.rights, first.folder)
    if command.act is CommandAction.PASS:
        return None
    concerned = tuple(session.id for target in allowed if (session := _find_session(case, target.chosen)) is not None)
    done = f"command {command.head}"
    notices = _stop_sessions(case, concerned)
    if command.act is CommandAction.CLEAR:
        for session_id in concerned:
            sessions.remove_conversations(case.db, session_id)
        case.add_notice(CLEARED)
        ended = case.end(InboxState.ANSWERED, done, first.rights, first.folder, told=True)
        return replace(ended, clear=concerned, notices=notices)
    if not notices:
        case.add_notice(NOT_RUNNING)
    ended = case.end(InboxState.ANSWERED, done, first.rights, first.folder, told=not notices)
    return replace(ended, stop=concerned, notices=notices)


def _stop_sessions(case: _MessageContext, concerned: Sequence[str]) -> tuple[OutboxEffect, ...]:
    """Here and not afterwards: a stop that was accepted is carried out, whatever happens to this process."""
    by = case.arrival.inbound.sender
    stopped = (stop_session(case.db, case.reach, session_id, by, case.now, hold=KILL_TIME) for session_id in concerned)
    return tuple(notice for notice in stopped if notice is not None)


def _answer_command(case: _MessageContext, command: SlashCommand, rights: Rights, folder: str) -> IntakeResult:
    group = groups.get(case.db, folder) if folder else None
    agent = (group.name or folder) if group else ""
    if command.head == "/help":
        case.add_notice(slash_commands.render_help(rights, agent))
    elif command.head == "/chatid":
        case.add_notice(f"{case.arrival.address} (channel {case.arrival.instance})")
    else:
        case.add_notice(f"pong: this chat goes to {agent}" if agent else "pong: no agent is set up for this chat")
    return case.end(InboxState.ANSWERED, f"command {command.head}", rights, folder, told=True)


def _record_direct_room(case: _MessageContext) -> None:
    """Where the sender can be reached alone: the room of the channel in which they wrote last."""
    sender, instance, address = case.arrival.inbound.sender, case.arrival.instance, case.arrival.inbound.address
    if case.rules.read(case.db, direct_rooms.find_address, sender, instance) != address:
        direct_rooms.add(case.db, sender, instance, address, case.now)
        case.rules.renew(case.db)


def _find_session(case: _MessageContext, chosen: RouteChoice) -> Session | None:
    """The session that a message here would go to, if there is one. Never made for a command."""
    key = sessions.key_of(chosen.mode, chosen.folder, case.arrival.instance, *_place(case, chosen))
    return sessions.find_by_key(case.db, key)


def _place(case: _MessageContext, chosen: RouteChoice) -> tuple[str, str]:
    return case.arrival.inbound.address, case.thread if chosen.topic is None else chosen.topic


def _deliver(case: _MessageContext, targets: Sequence[_TargetAccess], room: Room | None) -> IntakeResult:
    """One inbox row per session; of two routes to the same one, that which wakes it counts."""
    arrival, db = case.arrival, case.db
    if room is None:
        name, direct = arrival.inbound.room_name, arrival.inbound.direct
        policy = case.reach.policy(arrival.instance)
        rooms.add(db, arrival.instance, arrival.inbound.address, name, direct, policy, case.now)
        case.rules.renew(db)  # nothing that is read behind this write may be kept if it is undone
    if arrival.inbound.direct and is_person(arrival.inbound.sender):
        _record_direct_room(case)
    queued: dict[str, bool] = {}  # by session: whether it is woken
    keys: set[str] = set()
    for target in sorted(targets, key=lambda each: each.chosen.observe):
        chosen = target.chosen
        place = (chosen.mode, chosen.folder, arrival.instance, *_place(case, chosen))
        if (key := sessions.key_of(*place)) in keys:
            continue
        keys.add(key)
        claimed = sessions.claim_seq_by_key(db, key, case.now)
        session, seq = claimed or (sessions.find_or_add(db, *place, case.now), None)
        queued[session.id] = not chosen.observe
        if session.created_at == case.now or chosen.mode == SessionMode.AGENT_SHARED:
            _add_destination(case, chosen)
        window = chosen.route.window_messages, chosen.route.window_chars
        speaks_of_it = chosen.observe or window != (None, None)
        if speaks_of_it and window != (session.window_messages, session.window_chars):
            sessions.set_window(db, session.id, *window)
        record = inbox.observe if chosen.observe else inbox.enqueue
        record(db, case.id, session.id, chosen.folder, target.rights, case.now, seq=seq)
    for session, rights in _find_watchers(case, targets):
        if session.id not in queued:
            queued[session.id] = False
            inbox.observe(db, case.id, session.id, session.folder, rights, case.now)
    wake = tuple(session_id for session_id, triggers in queued.items() if triggers)
    state = InboxState.QUEUED if wake else InboxState.OBSERVED
    halted = case.rules.read(db, switches.get, switches.PANIC) if wake else None
    if halted is not None:
        address = arrival.inbound.address
        panic_notice.add_panic_notice(db, case.reach, halted, arrival.instance, address, case.thread, case.now)
    receipt = Receipt(message_id=case.id, new=True, state=state)
    return IntakeResult(receipt=receipt, delivered=True, wake=wake, told=halted is not None)


def _find_watchers(case: _MessageContext, targets: Sequence[_TargetAccess]) -> list[tuple[Session, Rights]]:
    """The conversations of groups that watch one of these: it is context for each that is going on. A group that was
    sealed since is watched no more."""
    found = []
    for target in targets:
        if target.chosen.observe:
            continue
        for observer in case.rules.read(case.db, watchers.list_observers, target.folder):
            source = case.rules.read(case.db, groups.get, target.folder)
            if source is not None and may_watch(observer, target.folder, open=source.open):
                found += [(each, target.rights) for each in sessions.list_open(case.db, observer, MOST_WATCHING)]
    return found


def _add_destination(case: _MessageContext, chosen: RouteChoice) -> None:
    """Give the room a name that the group can send to. A session that spans rooms answers in a room's last thread."""
    arrival, thread = case.arrival, case.thread if chosen.mode == SessionMode.AGENT_SHARED else ""
    address = arrival.inbound.address
    known = destinations.find_by_room(case.db, chosen.folder, arrival.instance, address)
    if known is None:
        name = _free_name(case.db, chosen.folder, room_name(arrival.inbound.room_name, arrival.address))
        destinations.add_room(case.db, chosen.folder, name, arrival.instance, address, thread, case.now)
    elif known.thread != thread and chosen.mode == SessionMode.AGENT_SHARED:
        destinations.add_room(case.db, chosen.folder, known.name, arrival.instance, address, thread, case.now)


def room_name(given: str, address: Address) -> str:
    """A readable name for a room: its own, else the end of its address."""
    for source in (given, address.segments[-1], address.platform):
        slug = re.sub(r"[^a-z0-9]+", "-", source.lower()).strip("-")[:40].strip("-")
        if slug:
            break
    return slug


def _free_name(db: Db, folder: str, wanted: str) -> str:
    """The name, with a number if it is taken. Among many rooms of one name, one that cannot be taken yet is tried soon:
    nobody looks through a thousand."""
    name, number = wanted, 2
    while destinations.get(db, folder, name) is not None:
        name = f"{wanted}-{number}"
        number = number + 1 if number != MOST_ALIKE else destinations.count(db, folder) + 1
    return name
