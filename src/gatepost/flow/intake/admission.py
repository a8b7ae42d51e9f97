"""Admission: who gets a message, and whether its sender may speak there. Nothing is written here, so it can also be
asked before the transaction of the message."""

from msgspec import Struct

from gatepost.access import senders
from gatepost.access.senders import is_program
from gatepost.core.records import replace
from gatepost.flow import onboarding, sender_rights
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.intake import slash_commands
from gatepost.flow.intake.accepted_message import Arrival, MessageContext, TargetAccess, find_session
from gatepost.flow.intake.message_outcome import DecidedBy
from gatepost.flow.intake.routed_message import (
    MessageRelation,
    RoutedMessage,
    make_question,
    read_relation,
    read_spoken,
)
from gatepost.flow.intake.routing import RouteChoice, RouteDecision
from gatepost.flow.intake.target_decision import RouteQuestion, Spoken, TargetDecision, decide_target
from gatepost.flow.requests import unknown_senders
from gatepost.flow.sessions.session_stop import works_for
from gatepost.messages.inbound import Direction, MessageKind, is_person, is_untrusted
from gatepost.store.engine.rule_cache import RuleCache
from gatepost.store.messages import messages
from gatepost.store.money import reservations
from gatepost.store.money.budgets import BudgetStatus, has_budgets
from gatepost.store.people import identities, newcomers
from gatepost.store.port import Db
from gatepost.store.rooms import rooms
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.sessions import sessions, turns
from gatepost.store.sessions.due_sessions import list_running
from gatepost.store.sessions.sessions import SessionMode

MOST_RUNNING = 20  # conversations of a room that one command ends
SPANNING = (SessionMode.SHARED, SessionMode.AGENT_SHARED)  # whose conversations have more than one thread


def make_routed(arrival: Arrival, relation: MessageRelation) -> RoutedMessage:
    """Return the facts of an arrival that decide who gets it."""
    inbound = arrival.inbound
    return RoutedMessage(
        instance=arrival.instance,
        address=arrival.address,
        sender=inbound.sender,
        text=inbound.text,
        verb=relation.verb,
        thread=relation.thread,
        event=inbound.event,
        kind=inbound.kind,
        direct=inbound.direct,
        parent=relation.parent,
        is_command=arrival.command is not None,
        ends_work=arrival.command is not None and slash_commands.is_urgent(arrival.command),
        with_files=bool(inbound.attachments),
        own_names=arrival.own_names,
    )


class MessageDecision(Struct, frozen=True):
    """The targets of a message. `choosing`: groups that its sender speaks to from now on; nobody gets it then."""

    question: RouteQuestion
    spoken: Spoken
    target: TargetDecision
    choosing: tuple[TargetAccess, ...] = ()


def decide_message(
    db: Db, rules: RuleCache, said: RoutedMessage, policy: RoomPolicy, now: int, *, may_choose: bool = True
) -> MessageDecision:
    """Decide who gets a message, or which groups its sender chooses. A choice that they may not make is text for
    whoever gets it otherwise."""
    question, spoken = make_question(db, rules, said), read_spoken(db, rules, said, now)
    target = decide_target(question, spoken)
    if target.change is None:
        if target.by in (DecidedBy.CHOICE, DecidedBy.ENGAGEMENT):
            target = _skip_forbidden(db, rules, said, policy, question, spoken, target)
        return MessageDecision(question, spoken, _add_running(db, said, question, target) if said.ends_work else target)
    choosing, _ = admit(db, rules, said.sender, policy, target.decision)
    if choosing and may_choose:
        return MessageDecision(question, spoken, target, tuple(choosing))
    return MessageDecision(question, spoken, decide_target(question, replace(spoken, address=None)))


def _add_running(db: Db, said: RoutedMessage, question: RouteQuestion, target: TargetDecision) -> TargetDecision:
    """Return the target with what runs in the room: a route that asks for words or a mention does not ask them of a
    command that ends work. If nothing runs in its thread, the sender's work elsewhere in the room counts."""
    decision = target.decision
    known = {
        sessions.key_of(each.mode, each.folder, said.instance, str(said.address), each.topic or said.thread)
        for each in decision.chosen
        if not each.observe
    }
    running = list_running(db, said.instance, str(said.address), MOST_RUNNING)
    here = [each for each in running if said.thread in each.threads or each.mode in SPANNING]
    found: list[RouteChoice] = []
    for each in here or running:
        way = question.find_way(each.folder) if each.key not in known else None
        if way is not None:
            found.append(replace(way, session=each.session_id, elsewhere=each not in here))
    return replace(target, decision=replace(decision, chosen=(*decision.chosen, *found))) if found else target


def _skip_forbidden(
    db: Db,
    rules: RuleCache,
    said: RoutedMessage,
    policy: RoomPolicy,
    question: RouteQuestion,
    spoken: Spoken,
    target: TargetDecision,
) -> TargetDecision:
    """Leave out targets that the sender may not speak to. An earlier choice, or the others' group, keeps nobody from
    the group that they may speak to."""
    admitted, rejected = admit(db, rules, said.sender, policy, target.decision)
    if any(not each.chosen.observe for each in admitted) or any(map(asks_first, rejected)):
        return target
    choice = replace(spoken.choice, folder="") if spoken.choice is not None else None
    otherwise = decide_target(question, replace(spoken, choice=choice, engaged=()))
    return otherwise if admit(db, rules, said.sender, policy, otherwise.decision)[0] else target


def asks_first(target: TargetAccess) -> bool:
    """Return True if its sender would be let in once somebody agrees."""
    return target.reason == senders.ASKS_FIRST and not target.chosen.observe


def find_spent_budget(
    db: Db,
    rules: RuleCache,
    kind: MessageKind,
    sender: str,
    chosen: RouteChoice,
    place: tuple[str, str, str],
    now: int,
) -> BudgetStatus | None:
    """Return the budget by which an agent could not ask a model anything for this sender, or the cap of the
    conversation here; None if it could. `place`: instance, address and thread."""
    if not rules.read(db, has_budgets):
        return None
    payer = rules.read(db, identities.get_person, sender) if kind is MessageKind.CHAT else None
    instance, address, thread = place
    topic = thread if chosen.topic is None else chosen.topic
    session = sessions.find_by_key(db, sessions.key_of(chosen.mode, chosen.folder, instance, address, topic))
    return reservations.find_spent(db, chosen.folder, payer, now, session.id if session is not None else "")


def decide_route(
    db: Db, rules: RuleCache, arrival: Arrival, relation: MessageRelation, policy: RoomPolicy, now: int
) -> RouteDecision:
    """Return who gets it."""
    return decide_message(db, rules, make_routed(arrival, relation), policy, now).target.decision


def admit(
    db: Db, rules: RuleCache, sender: str, policy: RoomPolicy, decision: RouteDecision
) -> tuple[list[TargetAccess], list[TargetAccess]]:
    """Return the targets that the sender may speak to, and the others."""
    admitted: list[TargetAccess] = []
    rejected: list[TargetAccess] = []
    access = rules.read(db, sender_rights.read_access, sender)
    for chosen in decision.chosen:
        rights, verdict = _judge(access, policy, chosen.folder)
        if chosen.via and rights == "guest" and verdict.allowed:  # by naming it nobody comes further than routes lead
            verdict = _judge(access, policy, chosen.via)[1]
        if not verdict.allowed and is_untrusted(sender):
            verdict = senders.UNTRUSTED  # nobody is asked about them: whoever claims the name would be let in
        (admitted if verdict.allowed else rejected).append(TargetAccess(chosen, rights, verdict.reason))
    return admitted, rejected


def _judge(
    access: sender_rights.SenderAccess, policy: RoomPolicy, folder: str
) -> tuple[senders.Rights, senders.SenderVerdict]:
    allowed = access.judge(folder)
    rights = allowed or senders.rights_of(access.roles, folder)
    return rights, senders.check_sender(policy, rights, folder) if allowed else senders.SHUT_OUT


def find_policy(db: Db, rules: RuleCache, channels: ChannelInstances, arrival: Arrival) -> RoomPolicy:
    """Return the treatment of somebody unknown in the room of an arrival. If nobody has said anything about a direct
    chat, people are asked about them, unless an entrance is open to them."""
    room = rules.read(db, rooms.get, arrival.instance, arrival.inbound.address)
    if room is not None:
        return room.policy
    policy, sender = channels.policy(arrival.instance), arrival.inbound.sender
    asks = arrival.inbound.direct and channels.asks_strangers(arrival.instance)
    if not asks or policy is not RoomPolicy.STRICT or not is_person(sender) or is_program(sender):
        return policy
    entrances = rules.read(db, newcomers.list_entrances)
    is_greeted = onboarding.find_entrance(entrances, onboarding.make_applicant(arrival)) is not None
    return policy if is_greeted else RoomPolicy.REQUEST_APPROVAL


def wants_files(db: Db, channels: ChannelInstances, arrival: Arrival, now: int) -> bool:
    """Return True if somebody would get this message, told by reading alone: only then are its files fetched. A guess,
    which `accept` corrects (`FilesWanted`)."""
    inbound = arrival.inbound
    if arrival.stale or _is_known(db, arrival):
        return False
    rules = RuleCache()
    policy = find_policy(db, rules, channels, arrival)
    relation = read_relation(db, arrival.instance, inbound)
    decision = decide_route(db, rules, arrival, relation, policy, now)
    admitted, rejected = admit(db, rules, inbound.sender, policy, decision)
    return bool(admitted) or any(
        asks_first(each) and unknown_senders.may_hold(db, each.folder, inbound.sender, now) for each in rejected
    )


def _is_known(db: Db, arrival: Arrival) -> bool:
    instance, inbound = arrival.instance, arrival.inbound
    known = messages.find(db, instance, inbound.address, Direction.IN, inbound.platform_id, inbound.event)
    return known is not None


def sessions_to_stop(db: Db, channels: ChannelInstances, arrival: Arrival) -> tuple[str, ...]:
    """Return what `accept` would have stopped for this command, told by reading alone. Nothing for one that was there
    before, or is too old."""
    inbound, command = arrival.inbound, arrival.command
    if command is None or arrival.fault or arrival.stale or _is_known(db, arrival):
        return ()
    rules, relation = RuleCache(), read_relation(db, arrival.instance, inbound)
    policy = find_policy(db, rules, channels, arrival)
    decision = decide_route(db, rules, arrival, relation, policy, arrival.at)
    admitted, _ = admit(db, rules, inbound.sender, policy, decision)
    allowed = [each for each in admitted if not each.chosen.observe and slash_commands.may_use(command, each.rights)]
    context = MessageContext(db, rules, channels, arrival, 0, relation.thread, arrival.at)
    names = identities.list_names(db, inbound.sender)
    found = ((each.may_end_all, find_session(context, each.chosen)) for each in allowed)
    return tuple(session.id for all_, session in found if session and (all_ or _is_working_for(db, session.id, names)))


def _is_working_for(db: Db, session_id: str, names: tuple[str, ...]) -> bool:
    turn = turns.find_open(db, session_id)
    return turn is not None and works_for(db, turn, names)
