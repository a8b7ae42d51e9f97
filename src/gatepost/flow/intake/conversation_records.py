"""What a message changes for those that follow it in its room and thread: who is engaged there, and what its sender
chose. Written in the transaction of the message, and only if something changes."""

from collections.abc import Sequence

from gatepost.access.senders import is_person
from gatepost.core.records import replace
from gatepost.flow.intake.accepted_message import IntakeResult, MessageContext, TargetAccess
from gatepost.flow.intake.engagement import PLAIN, get_ttl, make_engagement
from gatepost.flow.intake.route_question import RouteQuestion
from gatepost.flow.intake.routing import RouteChoice, needs_words
from gatepost.flow.intake.target_decision import ChoiceChange, DecidedBy, Spoken, TargetDecision
from gatepost.messages.inbound import MessageKind, Verb
from gatepost.store import engagements, sticky_choices
from gatepost.store.inbox import InboxState
from gatepost.store.routes import NEVER_ENDS
from gatepost.store.sticky_choices import StickyChoice

CHOSEN = "chosen"


def record_engagements(
    case: MessageContext,
    question: RouteQuestion,
    spoken: Spoken,
    target: TargetDecision,
    admitted: Sequence[TargetAccess],
    verb: Verb,
) -> None:
    """Groups that were spoken to stay in the conversation for as long as their routes say. Where they get every message
    anyway nothing is written; nor while more than half of the time is left."""
    engaging = [each.chosen for each in admitted if _engages(case, target, each.chosen, verb)]
    if not engaging:
        return
    woken = {each.folder for each in question.list_woken_plainly()}
    changed = False
    for chosen in engaging:
        named = target.by in (DecidedBy.REPLY, DecidedBy.CHILD)
        if chosen.folder not in woken and not (named and woken):
            changed = _engage(case, question, spoken, chosen) or changed
    if changed:
        case.rules.renew(case.db)  # nothing that is read behind this write may be kept if it is undone


def _engages(case: MessageContext, target: TargetDecision, chosen: RouteChoice, verb: Verb) -> bool:
    """Whether this message speaks to the group: by a mention, a reply, its name, in a direct room, or by whatever its
    route asks for if that names a time."""
    arrival, inbound, route = case.arrival, case.arrival.inbound, chosen.route
    if inbound.kind is not MessageKind.CHAT or inbound.event != "message" or not is_person(inbound.sender):
        return False
    if chosen.observe or arrival.command is not None or not get_ttl(route, arrival.engages_s):
        return False
    if target.by in (DecidedBy.REPLY, DecidedBy.CHILD):
        return True
    if target.by is not DecidedBy.ROUTE or (verb in PLAIN and not needs_words(route)):
        return False  # so would be every other message
    return verb is Verb.MENTION or inbound.direct or route.ttl_s is not None


def _engage(case: MessageContext, question: RouteQuestion, spoken: Spoken, chosen: RouteChoice) -> bool:
    """True if anything was written. Of the groups whose routes do not go on (`also`) one is engaged at a time."""
    route, place = chosen.route, (case.arrival.instance, case.arrival.inbound.address, case.thread)
    ttl_s = get_ttl(route, case.arrival.engages_s)
    known = next((each for each in spoken.engaged if each.folder == chosen.folder), None)
    same = known is not None and known.route_id == route.id and (known.until is None) == (ttl_s == NEVER_ENDS)
    if same and known is not None and known.is_fresh(case.now):
        return False
    engagements.put(case.db, make_engagement(place, chosen.folder, route.id, ttl_s, case.now))
    if not route.also:
        going_on = {each.id for each in question.routes if each.also}
        for other in spoken.engaged:
            if other.folder != chosen.folder and other.route_id not in going_on:
                engagements.remove(case.db, *place, other.folder)
    return True


def record_choice(
    case: MessageContext, change: ChoiceChange, choice: StickyChoice | None, admitted: Sequence[TargetAccess]
) -> IntakeResult:
    """What the sender chose is kept and confirmed; no agent gets the message."""
    inbound, first = case.arrival.inbound, admitted[0]
    old = choice or StickyChoice(case.arrival.instance, inbound.address, case.thread, inbound.sender)
    folder = old.folder if change.folder is None else change.folder
    topic = old.topic if change.topic is None else change.topic
    sticky_choices.put(case.db, replace(old, folder=folder, topic=topic, chosen_at=case.now))
    case.rules.renew(case.db)
    case.add_notice(render_choice(change))
    return case.end(InboxState.ANSWERED, CHOSEN, first.rights, first.folder, told=True)


def render_choice(change: ChoiceChange) -> str:
    """As its sender is told."""
    lines = []
    if change.folder is not None:
        to = f"From now on {change.folder} gets what you write here. Send @ alone to end that."
        lines.append(to if change.folder else "What you write here goes to the usual agent again.")
    if change.topic is not None:
        on = f"From now on what you write here belongs to the topic {change.topic}. Send # alone to end that."
        lines.append(on if change.topic else "What you write here belongs to no topic of its own any more.")
    return "\n".join(lines)
