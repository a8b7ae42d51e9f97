"""Who gets a message, and whether its sender may speak there. Reading alone: nothing is written here, so it can also
be asked before the transaction of the message."""

from gatepost.access import senders
from gatepost.access.senders import COMMANDING
from gatepost.flow import sender_rights
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.intake import routing, slash_commands, verbs
from gatepost.flow.intake.accepted_message import Arrival, MessageContext, TargetAccess, find_session
from gatepost.flow.intake.addressing import may_be_addressed, parse_address
from gatepost.flow.intake.engagement import PLAIN
from gatepost.flow.intake.route_question import RouteQuestion
from gatepost.flow.intake.target_decision import Spoken, TargetDecision, decide_target
from gatepost.flow.requests import unknown_senders
from gatepost.flow.sessions.session_stop import works_for
from gatepost.messages.inbound import Direction, MessageKind, Verb
from gatepost.messages.untrusted import is_untrusted
from gatepost.store import engagements, groups, identities, messages, rooms, routes, sticky_choices, turns
from gatepost.store.engagements import Engagement
from gatepost.store.messages import Message
from gatepost.store.port import Db
from gatepost.store.rooms import RoomPolicy
from gatepost.store.rule_cache import RuleCache

NOTHING_SPOKEN = Spoken()


def find_parent(db: Db, arrival: Arrival) -> Message | None:
    """The message that this one is about: the agent's if there is one of that id, else somebody's."""
    wanted, address = verbs.parent_of(arrival.inbound), arrival.inbound.address
    if not wanted:
        return None
    ours = messages.find(db, arrival.instance, address, Direction.OUT, wanted)
    return ours or messages.find(db, arrival.instance, address, Direction.IN, wanted)


def make_question(db: Db, rules: RuleCache, arrival: Arrival, verb: Verb, thread: str) -> RouteQuestion:
    inbound = arrival.inbound
    known = rules.read(db, routes.list_all)
    facts = routing.make_match_input(
        arrival.instance,
        arrival.address,
        sender=inbound.sender,
        verb=verb,
        text=inbound.text,
        thread=thread,
        names=rules.read(db, identities.list_names, inbound.sender) if routing.asks_sender(known) else (),
    )
    return RouteQuestion(known, facts, lambda folder: rules.read(db, groups.get, folder) is not None)


def read_spoken(
    db: Db, rules: RuleCache, reach: ChannelInstances, arrival: Arrival, verb: Verb, parent: Message | None, now: int
) -> Spoken:
    """What a person says besides what routes ask for. It costs nothing where nobody is engaged and nobody chose."""
    inbound, thread = arrival.inbound, verbs.thread_of(arrival.inbound, parent)
    if inbound.kind is not MessageKind.CHAT or verb is Verb.UNTRUSTED or not senders.is_person(inbound.sender):
        return NOTHING_SPOKEN
    wrote = parent.folder if parent is not None and verb is Verb.MENTION and verbs.is_agents(parent) else ""
    if inbound.event != "message":
        return Spoken(parent=wrote)
    address = None
    if arrival.command is None and may_be_addressed(inbound.text):
        address = parse_address(inbound.text, reach.own_names(arrival.instance))
    if address is not None and not address.rest and inbound.attachments:
        address = None  # it is about the files
    place = (arrival.instance, inbound.address, thread)
    choice, engaged = None, list[Engagement]()
    if rules.read_place(db, sticky_choices.has_any):
        choice = rules.read_place(db, sticky_choices.get, *place, inbound.sender)
    if rules.read_place(db, engagements.has_any):
        engaged = rules.read_place(db, engagements.list_at, *place)
    on = tuple(each for each in engaged if each.is_on(now))
    return Spoken(parent=wrote, address=address, choice=choice, engaged=on, plain=verb in PLAIN)


def decide_route(
    db: Db, rules: RuleCache, reach: ChannelInstances, arrival: Arrival, verb: Verb, parent: Message | None, now: int
) -> TargetDecision:
    """Who gets it. `parent`: the message that it is about."""
    question = make_question(db, rules, arrival, verb, verbs.thread_of(arrival.inbound, parent))
    return decide_target(question, read_spoken(db, rules, reach, arrival, verb, parent, now))


def admit(
    db: Db, rules: RuleCache, sender: str, policy: RoomPolicy, decision: routing.RouteDecision
) -> tuple[list[TargetAccess], list[TargetAccess]]:
    """The targets that the sender may speak to, and the others."""
    admitted: list[TargetAccess] = []
    rejected: list[TargetAccess] = []
    standing = rules.read(db, sender_rights.read_standing, sender)
    for chosen in decision.chosen:
        rights, verdict = _judge(standing, policy, chosen.folder)
        if chosen.via and rights == "guest" and verdict.allowed:  # by naming it nobody comes further than routes lead
            verdict = _judge(standing, policy, chosen.via)[1]
        if not verdict.allowed and is_untrusted(sender):
            verdict = senders.UNTRUSTED  # nobody is asked about them: whoever claims the name would be let in
        (admitted if verdict.allowed else rejected).append(TargetAccess(chosen, rights, verdict.reason))
    return admitted, rejected


def _judge(
    standing: sender_rights.PersonStanding, policy: RoomPolicy, folder: str
) -> tuple[senders.Rights, senders.SenderVerdict]:
    allowed = standing.judge(folder)
    rights = allowed or senders.rights_of(standing.roles, folder)
    return rights, senders.check_sender(policy, rights, folder) if allowed else senders.SHUT_OUT


def wants_files(db: Db, reach: ChannelInstances, arrival: Arrival, now: int) -> bool:
    """Whether somebody would get this message, told by reading alone: only then are its files fetched. A guess, which
    `accept` corrects (`FilesWanted`)."""
    inbound = arrival.inbound
    if arrival.stale or _is_known(db, arrival):
        return False
    rules, parent = RuleCache(), find_parent(db, arrival)
    verb = verbs.promote(verbs.find_verb(inbound), parent)
    room = rooms.get(db, arrival.instance, inbound.address)
    policy = room.policy if room else reach.policy(arrival.instance)
    decision = decide_route(db, rules, reach, arrival, verb, parent, now).decision
    admitted, rejected = admit(db, rules, inbound.sender, policy, decision)
    return bool(admitted) or any(
        each.reason == senders.ASKS_FIRST and unknown_senders.may_hold(db, each.folder, inbound.sender, now)
        for each in rejected
    )


def _is_known(db: Db, arrival: Arrival) -> bool:
    instance, inbound = arrival.instance, arrival.inbound
    known = messages.find(db, instance, inbound.address, Direction.IN, inbound.platform_id, inbound.event)
    return known is not None


def sessions_to_stop(db: Db, reach: ChannelInstances, arrival: Arrival) -> tuple[str, ...]:
    """What `accept` would have stopped for this command, told by reading alone. Nothing for one that was there before,
    or is too old."""
    inbound, command = arrival.inbound, arrival.command
    if command is None or arrival.fault or arrival.stale or _is_known(db, arrival):
        return ()
    parent, rules = find_parent(db, arrival), RuleCache()
    thread, verb = verbs.thread_of(inbound, parent), verbs.promote(verbs.find_verb(inbound), parent)
    room = rooms.get(db, arrival.instance, inbound.address)
    policy = room.policy if room else reach.policy(arrival.instance)
    decision = decide_route(db, rules, reach, arrival, verb, parent, arrival.at).decision
    admitted, _ = admit(db, rules, inbound.sender, policy, decision)
    allowed = [each for each in admitted if not each.chosen.observe and slash_commands.may_use(command, each.rights)]
    case = MessageContext(db, rules, reach, arrival, 0, thread, arrival.at)
    names = identities.list_names(db, inbound.sender)
    found = ((each.rights in COMMANDING, find_session(case, each.chosen)) for each in allowed)
    return tuple(session.id for all_, session in found if session and (all_ or _is_working_for(db, session.id, names)))


def _is_working_for(db: Db, session_id: str, names: tuple[str, ...]) -> bool:
    turn = turns.find_open(db, session_id)
    return turn is not None and works_for(db, turn, names)
