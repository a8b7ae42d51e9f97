"""Who gets a message, and whether its sender may speak there. Reading alone: nothing is written here, so it can also
be asked before the transaction of the message."""

from gatepost.access import senders
from gatepost.access.senders import COMMANDING
from gatepost.flow import sender_rights
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.intake import routing, slash_commands, verbs
from gatepost.flow.intake.accepted_message import Arrival, MessageContext, TargetAccess, find_session
from gatepost.flow.requests import unknown_senders
from gatepost.flow.sessions.session_stop import works_for
from gatepost.messages.inbound import Direction, Verb
from gatepost.messages.untrusted import is_untrusted
from gatepost.store import groups, identities, messages, rooms, routes, turns
from gatepost.store.messages import Message
from gatepost.store.port import Db
from gatepost.store.rooms import RoomPolicy
from gatepost.store.rule_cache import RuleCache


def find_parent(db: Db, arrival: Arrival) -> Message | None:
    """The message that this one is about: the agent's if there is one of that id, else somebody's."""
    wanted, address = verbs.parent_of(arrival.inbound), arrival.inbound.address
    if not wanted:
        return None
    ours = messages.find(db, arrival.instance, address, Direction.OUT, wanted)
    return ours or messages.find(db, arrival.instance, address, Direction.IN, wanted)


def decide_route(db: Db, rules: RuleCache, arrival: Arrival, verb: Verb, thread: str) -> routing.RouteDecision:
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
    return routing.decide(known, facts, lambda folder: rules.read(db, groups.get, folder) is not None)


def admit(
    db: Db, rules: RuleCache, sender: str, policy: RoomPolicy, decision: routing.RouteDecision
) -> tuple[list[TargetAccess], list[TargetAccess]]:
    """The targets that the sender may speak to, and the others."""
    admitted: list[TargetAccess] = []
    rejected: list[TargetAccess] = []
    standing = rules.read(db, sender_rights.read_standing, sender)
    for chosen in decision.chosen:
        allowed = standing.judge(chosen.folder)
        rights = allowed or senders.rights_of(standing.roles, chosen.folder)
        verdict = senders.check_sender(policy, rights, chosen.folder) if allowed else senders.SHUT_OUT
        if not verdict.allowed and is_untrusted(sender):
            verdict = senders.UNTRUSTED  # nobody is asked about them: whoever claims the name would be let in
        (admitted if verdict.allowed else rejected).append(TargetAccess(chosen, rights, verdict.reason))
    return admitted, rejected


def wants_files(db: Db, reach: ChannelInstances, arrival: Arrival, now: int) -> bool:
    """Whether somebody would get this message, told by reading alone: only then are its files fetched. A guess, which
    `accept` corrects (`FilesWanted`)."""
    inbound = arrival.inbound
    if arrival.stale or _is_known(db, arrival):
        return False
    rules, parent = RuleCache(), find_parent(db, arrival)
    thread, verb = verbs.thread_of(inbound, parent), verbs.promote(verbs.find_verb(inbound), parent)
    room = rooms.get(db, arrival.instance, inbound.address)
    policy = room.policy if room else reach.policy(arrival.instance)
    decision = decide_route(db, rules, arrival, verb, thread)
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
    admitted, _ = admit(db, rules, inbound.sender, policy, decide_route(db, rules, arrival, verb, thread))
    allowed = [each for each in admitted if not each.chosen.observe and slash_commands.may_use(command, each.rights)]
    case = MessageContext(db, rules, reach, arrival, 0, thread, arrival.at)
    names = identities.list_names(db, inbound.sender)
    found = ((each.rights in COMMANDING, find_session(case, each.chosen)) for each in allowed)
    return tuple(session.id for all_, session in found if session and (all_ or _is_working_for(db, session.id, names)))


def _is_working_for(db: Db, session_id: str, names: tuple[str, ...]) -> bool:
    turn = turns.find_open(db, session_id)
    return turn is not None and works_for(db, turn, names)
