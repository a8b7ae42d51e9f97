"""The one transaction in which an arrived event becomes a fact and finds its targets.

Invariants: an accepted message has at least one inbox row, whatever became of it. A refused one leaves nothing but its
record (no user, no room, no session). An event that was told before changes nothing.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from gatepost.access import budgets, senders
from gatepost.access.senders import Rights
from gatepost.core.clock import DAY
from gatepost.core.records import replace
from gatepost.flow import onboarding, sender_rights
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.intake import routing
from gatepost.flow.intake.accepted_message import (
    Arrival,
    FilesWanted,
    IntakeResult,
    MessageContext,
    TargetAccess,
    UnrecordedSender,
    deliver,
)
from gatepost.flow.intake.admission import (
    admit,
    decide_message,
    find_policy,
    find_spent_budget,
    make_routed,
)
from gatepost.flow.intake.command_dispatch import answer_without_agent, run_command
from gatepost.flow.intake.engagement import EngagingMessage, record_engagements
from gatepost.flow.intake.held_arrivals import hold_for_budget, hold_strangers, hold_unknown_room, release_earlier
from gatepost.flow.intake.late_files import add_missing_notice, await_files, render_attachments
from gatepost.flow.intake.received_codes import redeem
from gatepost.flow.intake.routed_message import MessageRelation, read_relation
from gatepost.flow.intake.slash_commands import CommandAction
from gatepost.flow.intake.target_decision import ChoiceChange
from gatepost.flow.requests.ask_approver import SETTLES, AskedRequest, AskingRules
from gatepost.flow.requests.card_delivery import find_name
from gatepost.flow.requests.chat_replies import GivenAnswer, PersonMessage, read_answer
from gatepost.flow.requests.spent_budgets import SPENT
from gatepost.messages.card import escape_markdown
from gatepost.messages.inbound import CLICK, Direction, Inbound, MessageKind, Receipt, Verb, is_person, is_untrusted
from gatepost.store.engine.rule_cache import RuleCache
from gatepost.store.messages import inbox, messages, room_history
from gatepost.store.messages.inbox import InboxState
from gatepost.store.messages.messages import Message, NewMessage
from gatepost.store.money.budgets import STOP, BudgetNotice, claim_stop_notice, has_budgets
from gatepost.store.people import identities, users
from gatepost.store.port import Db
from gatepost.store.rights import request_cards, waiting_requests
from gatepost.store.rights.request_cards import RequestCard
from gatepost.store.rooms import direct_rooms, engagements, rooms
from gatepost.store.rooms.engagements import StickyChoice
from gatepost.store.rooms.rooms import Room, RoomPolicy

NO_ROUTE = "No agent is set up for this chat. Whoever runs this gateway can add one with `gatepost route add`."
NO_ROUTE_REASON = "no_route"
CHOSEN = "chosen"
UNCHECKED = frozenset(("xmpp",))  # anybody in a room there may send a retraction of anything
STALE = (
    "Some messages from here reached me only long after they were written, so I left them unanswered."
    " Please send again what still matters."
)


def accept(
    db: Db,
    channels: ChannelInstances,
    arrival: Arrival,
    now: int,
    skip_recording: bool = False,
    rules: RuleCache | None = None,
    asking: AskingRules | None = None,
) -> IntakeResult:
    """Deduplicate, judge, route and queue one event. `skip_recording`: write nothing down about a stranger (raises
    UnrecordedSender). `asking`: how people are asked about strangers; None: nobody is."""
    rules = rules or RuleCache()
    rules.renew(db)
    accepted = _accept(db, rules, channels, arrival, now, asking)
    if arrival.inbound.event != "message" and accepted.receipt.new:
        _show_change(db, arrival, accepted.receipt)
    if skip_recording and accepted.stranger:
        raise UnrecordedSender(accepted.receipt.reason)
    if not accepted.delivered and arrival.inbound.direct and is_person(arrival.inbound.sender):
        # Who only gives commands, or is refused, reads along all the same.
        direct_rooms.add_reader(db, arrival.inbound.sender, arrival.instance, arrival.inbound.address)
    if arrival.unfetched and accepted.delivered:
        raise FilesWanted("the files of the message are wanted")
    if accepted.delivered and accepted.receipt.new:
        if arrival.awaited:
            await_files(db, arrival, accepted.receipt.message_id, now)
        if arrival.missing and accepted.wake and (message := messages.get(db, accepted.receipt.message_id)):
            add_missing_notice(db, channels, message, arrival.missing, now)
            return replace(accepted, notified=True)
    return accepted


def _accept(
    db: Db, rules: RuleCache, channels: ChannelInstances, arrival: Arrival, now: int, asking: AskingRules | None
) -> IntakeResult:
    arrival = _name_sender(db, rules, arrival)
    inbound = arrival.inbound
    relation = read_relation(db, arrival.instance, inbound)
    new = make_message(arrival, relation)
    message_id = messages.accept(db, new, now) or room_history.replace_fetched(db, new)
    if message_id is None:
        return _find_duplicate(db, arrival)
    context = MessageContext(db, rules, channels, arrival, message_id, relation.thread, now, relation.parent)
    if arrival.code is not None:
        return redeem(context, arrival.code)
    if inbound.event == CLICK and is_untrusted(inbound.sender):
        return replace(context.end(InboxState.REFUSED, senders.UNTRUSTED.reason, "guest"), stranger=True)
    answered = _read_answer(context, asking)
    if answered is not None and not answered.passes:
        return _end_answer(context, answered)
    if answered is not None:
        context.add_notice(answered.said)
        return replace(_route(context, new, relation, asking), notified=True)
    routed = _route(context, new, relation, asking)
    return onboarding.greet(context, routed) if routed.stranger else routed


def _name_sender(db: Db, rules: RuleCache, arrival: Arrival) -> Arrival:
    """Call somebody by the name that they have here if their platform gives none, or their address in its place."""
    inbound = arrival.inbound
    if inbound.sender_name not in ("", inbound.sender, inbound.sender.partition(":")[2]):
        return arrival
    known = rules.read(db, users.get, rules.read(db, identities.get_person, inbound.sender))
    if known is None or not known.name:
        return arrival
    return replace(arrival, inbound=replace(inbound, sender_name=known.name))


def _show_change(db: Db, arrival: Arrival, receipt: Receipt) -> None:
    """Have the ledger show what people see of a message that an event edited or deleted. The words of somebody who may
    not speak here change nothing. Only authors edit; platforms let moderators delete, too."""
    inbound = arrival.inbound
    if inbound.verb not in (Verb.EDIT, Verb.DELETE):
        return
    if receipt.state == InboxState.REFUSED and receipt.reason != NO_ROUTE_REASON:
        return
    found = messages.find(db, arrival.instance, inbound.address, Direction.IN, inbound.platform_id)
    by_moderator = inbound.verb is Verb.DELETE and arrival.address.platform not in UNCHECKED
    if found is None or not (inbound.sender == found.sender or by_moderator):
        return
    messages.revise(db, found.id, receipt.message_id, inbound.text if inbound.verb is Verb.EDIT else None)


def _route(
    context: MessageContext, new: NewMessage, relation: MessageRelation, asking: AskingRules | None
) -> IntakeResult:
    """Decide who gets a message and whether its sender may speak there, and do it."""
    db, rules, channels, arrival = context.db, context.rules, context.channels, context.arrival
    inbound, address = arrival.inbound, arrival.inbound.address
    room = rules.read(db, rooms.get, arrival.instance, address)
    policy = find_policy(db, rules, channels, arrival)
    said = make_routed(arrival, relation)
    may_choose = not (arrival.fault or arrival.stale)
    decided = decide_message(db, rules, said, policy, context.now, may_choose=may_choose)
    target = decided.target
    if decided.choosing and target.change is not None:
        return _record_choice(context, target.change, decided.spoken.choice, decided.choosing)
    decision = target.decision
    if not decision.chosen:
        rights = senders.rights_of(rules.read(db, sender_rights.read_access, inbound.sender).roles, "")
        if policy is RoomPolicy.REQUEST_APPROVAL and decision.dropped_by is None and asking is not None:
            held_room = hold_unknown_room(context, said, new, rights, asking)
            if held_room is not None:
                return held_room
        return _refuse_unrouted(context, decision, rights, senders.check_sender(policy, rights), relation.verb)
    admitted, rejected = admit(db, rules, inbound.sender, policy, decision)
    waiting = rules.read(db, waiting_requests.list_names_of_people)
    earlier = release_earlier(context, admitted, waiting) if waiting else ()
    if earlier:
        room = rules.read(db, rooms.get, arrival.instance, address)
    if target.rest is not None:
        messages.set_content(db, context.id, {**msgspec.json.decode(new.content), "text": target.rest})
    result = _admit_or_hold(context, new, admitted, rejected, room, asking)
    if result.wake:
        engaging = EngagingMessage(said, decided.question, decided.spoken, target, arrival.engages_s)
        if record_engagements(db, engaging, [each.chosen for each in admitted], context.now):
            rules.renew(db)  # nothing that is read behind this write may be kept if it is undone
    return replace(result, wake=tuple(dict.fromkeys((*earlier, *result.wake)))) if earlier else result


def _record_choice(
    context: MessageContext, change: ChoiceChange, choice: StickyChoice | None, admitted: Sequence[TargetAccess]
) -> IntakeResult:
    """Keep and confirm what a sender chose for what follows in the room and thread. No agent gets the message."""
    inbound, first = context.arrival.inbound, admitted[0]
    old = choice or StickyChoice(context.arrival.instance, inbound.address, context.thread, inbound.sender)
    folder = old.folder if change.folder is None else change.folder
    topic = old.topic if change.topic is None else change.topic
    engagements.put_choice(context.db, replace(old, folder=folder, topic=topic, chosen_at=context.now))
    context.rules.renew(context.db)
    context.add_notice(_render_choice(change))
    return context.end(InboxState.ANSWERED, CHOSEN, first.rights, first.folder, notified=True)


def _render_choice(change: ChoiceChange) -> str:
    """Return the words by which a choice is confirmed."""
    lines = []
    if change.folder is not None:
        to = f"From now on {change.folder} gets what you write here. Send @ alone to end that."
        lines.append(to if change.folder else "What you write here goes to the usual agent again.")
    if change.topic is not None:
        on = f"From now on what you write here belongs to the topic {change.topic}. Send # alone to end that."
        lines.append(on if change.topic else "What you write here belongs to no topic of its own any more.")
    return "\n".join(lines)


def _admit_or_hold(
    context: MessageContext,
    new: NewMessage,
    admitted: list[TargetAccess],
    rejected: list[TargetAccess],
    room: Room | None,
    asking: AskingRules | None,
) -> IntakeResult:
    held = hold_strangers(context, new, rejected, asking) if rejected and asking is not None else ()
    if held:
        rejected = [target for target in rejected if target.folder not in {each.request.folder for each in held}]
    if not admitted and held:
        result = _make_held(context)
    else:
        result = _apply_admission(context, new, admitted, rejected, room, asking)
    if not held:
        return result
    asked = (*(each for each in held if each.added), *result.asked)
    return replace(result, asked=asked, notified=result.notified or context.arrival.inbound.direct)


def _make_held(context: MessageContext) -> IntakeResult:
    """Return the outcome of a held message: its files are kept, and it counts among what strangers write."""
    receipt = Receipt(message_id=context.id, new=True, state=InboxState.HELD)
    return IntakeResult(receipt=receipt, delivered=True, stranger=True)


def _read_answer(context: MessageContext, asking: AskingRules | None) -> GivenAnswer | None:
    """Return the answer that a person gives to a request, which goes to no agent. Without an open card in the room it
    costs nothing."""
    arrival, inbound = context.arrival, context.arrival.inbound
    cards: tuple[RequestCard, ...] = ()
    if context.rules.read(context.db, request_cards.has_open):
        cards = context.rules.read(context.db, request_cards.list_open_in_room, arrival.instance, inbound.address)
    decides = arrival.command is not None and arrival.command.act is CommandAction.DECIDE
    if not (cards or inbound.click or decides) or arrival.fault or arrival.stale or not _is_spoken(inbound):
        return None
    said = PersonMessage(
        instance=arrival.instance,
        address=inbound.address,
        sender=inbound.sender,
        text=arrival.command.text if arrival.command is not None else inbound.text,
        click=inbound.click,
        answers=context.parent.id if context.parent is not None else None,
        command=arrival.command.head if arrival.command is not None else "",
        thread=context.thread,
        with_files=bool(arrival.kept or arrival.awaited) or arrival.unfetched,
        message_id=context.id,
        said_at=inbound.at,
    )
    settles = asking.settles if asking is not None else SETTLES
    return read_answer(context.db, context.channels, said, cards, context.now, settles)


def _end_answer(context: MessageContext, given: GivenAnswer) -> IntakeResult:
    context.rules.renew(context.db)  # cards were closed: nothing that is read behind this write may be kept
    if given.said:
        context.add_notice(f"{_render_clicker(context)}{given.said}")
    ended = context.end(InboxState.ANSWERED, given.reason, "guest", notified=bool(given.said))
    decided = given.decision is not None and (given.decision.decided or given.decision.kept)
    sender_roles = context.rules.read(context.db, sender_rights.read_access, context.arrival.inbound.sender).roles
    known = sender_roles.roles or sender_roles.member_of
    nobody = not (decided or known)  # what they send is counted, and soon not kept
    return replace(ended, decision=given.decision, stranger=nobody)


def _render_clicker(context: MessageContext) -> str:
    """Return the name before what somebody is told who pressed a button among others: there is no message of theirs
    that the words could be a reply to."""
    inbound = context.arrival.inbound
    if inbound.event != CLICK or inbound.direct:
        return ""
    name = find_name(
        context.db, context.rules.read(context.db, identities.get_person, inbound.sender), inbound.sender_name
    )
    return f"{escape_markdown(name)}: " if name != inbound.sender else ""


def _is_spoken(inbound: Inbound) -> bool:
    """Return True if a person wrote it or pressed a button. Edits, reactions, forwarded words and the words of a task
    decide nothing."""
    said = inbound.kind is MessageKind.CHAT and inbound.event in ("message", CLICK) and not inbound.forwarded
    return said and is_person(inbound.sender)


def _apply_admission(
    context: MessageContext,
    new: NewMessage,
    admitted: list[TargetAccess],
    rejected: list[TargetAccess],
    room: Room | None,
    asking: AskingRules | None,
) -> IntakeResult:
    for target in rejected:
        inbox.refuse(context.db, context.id, target.folder, target.rights, target.reason, context.now)
    if not admitted:
        receipt = Receipt(message_id=context.id, new=True, state="refused", reason=rejected[0].reason)
        return IntakeResult(receipt=receipt, stranger=True)
    first, arrival = admitted[0], context.arrival
    if arrival.fault:
        context.add_notice(arrival.complaint)
        return context.end(InboxState.REFUSED, arrival.fault, first.rights, first.folder, notified=True)
    if arrival.stale:
        context.add_notice(STALE, key=f"notice:stale:{arrival.instance}:{arrival.address}:{context.now // DAY}")
        return context.end(InboxState.FAILED, "stale", first.rights, first.folder, notified=True)
    done: IntakeResult | None = None
    if arrival.command is not None:
        spoken_to = [target for target in admitted if not target.chosen.observe]
        done = run_command(context, arrival.command, spoken_to) if spoken_to else None
        if done is not None and not done.passes:
            return done
    able, asked = admitted, list[AskedRequest]()
    if context.rules.read(context.db, has_budgets):
        able = [each for each in admitted if each.chosen.observe or _check_budget(context, new, each, asking, asked)]
    ending, added = done.end if done is not None else (), tuple(each for each in asked if each.added)
    if not able:
        state, reason = (InboxState.HELD, "") if asked else (InboxState.REFUSED, SPENT)
        receipt = Receipt(message_id=context.id, new=True, state=state, reason=reason)
        return IntakeResult(receipt=receipt, notified=True, end=ending, delivered=bool(asked), asked=added)
    delivered = deliver(context, able, room)
    notified = len(able) < len(admitted) or done is not None
    return replace(delivered, notified=True, end=ending, asked=added) if notified else delivered


def _check_budget(
    context: MessageContext,
    new: NewMessage,
    target: TargetAccess,
    asking: AskingRules | None,
    asked: list[AskedRequest],
) -> bool:
    """Return False for a group that could not ask a model anything: it is not woken, and the room is told once in the
    budget's period. The message waits if somebody can be asked for more, who is added to `asked`; else it is
    refused."""
    inbound = context.arrival.inbound
    place = (context.arrival.instance, inbound.address, context.thread)
    spent = find_spent_budget(
        context.db, context.rules, inbound.kind, inbound.sender, target.chosen, place, context.now
    )
    if spent is None:
        return True
    claim_stop_notice(context.db, spent)
    note = BudgetNotice(STOP, spent)
    text, key = budgets.render_notice(note), budgets.make_notice_key(note, context.arrival.instance, inbound.address)
    held = hold_for_budget(context, new, target, spent, asking) if asking is not None else None
    if held is not None:
        asked.append(held)
        text, key = budgets.render_parked(spent), f"{key}/{held.request.id}"
    else:
        inbox.refuse(context.db, context.id, target.folder, target.rights, SPENT, context.now)
    context.add_notice(text, key=key)
    return False


def make_message(arrival: Arrival, relation: MessageRelation) -> NewMessage:
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
        verb=relation.verb,
        thread=relation.thread,
        sender_name=inbound.sender_name,
        content=_render_content(arrival, relation),
        reply_to=relation.quoted,
        forward_from=inbound.forward_from if inbound.forwarded else None,
    )


def _render_content(arrival: Arrival, relation: MessageRelation) -> str:
    """Return the message as the agent gets it. A reaction stays one: that it is a mention matters to routes alone."""
    inbound, emoji, parent = arrival.inbound, relation.emoji, relation.parent
    content: dict[str, Any] = {
        **inbound.extra,
        "text": inbound.text,
        "sender": inbound.sender_name or inbound.sender,
        "senderId": inbound.sender,
        "senderName": inbound.sender_name,
        "verb": relation.act if emoji else relation.verb,
    }
    if emoji:
        content["reaction"] = emoji
    if inbound.forwarded:
        content["forwardedFrom"] = inbound.forward_from
    if arrival.command is not None and arrival.command.act is CommandAction.PASS:
        content["text"] = content["command"] = arrival.command.text
    elif arrival.command is not None and arrival.command.rest:
        content["text"] = arrival.command.rest  # if the agent gets any of it
    if arrival.kept:
        content["attachments"] = render_attachments(arrival.kept)
    if (quote := inbound.reply_to) is not None:
        content["replyTo"] = {"id": quote.platform_id, "text": quote.text, "sender": quote.sender}
        if parent is not None and (files := _list_files(parent)):
            content["replyTo"] |= {"message": parent.id, "files": files}
    return msgspec.json.encode(content).decode()


def _list_files(parent: Message) -> list[dict[str, Any]]:
    """Name the files of a message that is quoted: those that came in, or that an agent has sent."""
    given = parent.content.get("attachments") or parent.content.get("files")
    known = [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
    return [{name: each[name] for name in ("type", "name") if name in each} for each in known]


def _find_duplicate(db: Db, arrival: Arrival) -> IntakeResult:
    inbound = arrival.inbound
    known = messages.find(db, arrival.instance, inbound.address, Direction.IN, inbound.platform_id, inbound.event)
    assert known is not None  # the unique index has just found it
    entries = inbox.list_for_message(db, known.id)
    state, reason = (entries[0].state, entries[0].reason) if entries else ("", "")
    return IntakeResult(receipt=Receipt(message_id=known.id, new=False, state=state, reason=reason))


def _refuse_unrouted(
    context: MessageContext, decision: routing.RouteDecision, rights: Rights, verdict: senders.SenderVerdict, verb: Verb
) -> IntakeResult:
    """End a message that nobody gets. People who belong here are told, if they spoke to us."""
    if decision.dropped_by is not None:
        return replace(
            context.end(InboxState.REFUSED, f"dropped_by_route {decision.dropped_by.id}", rights), stranger=True
        )
    if not verdict.allowed:
        return replace(context.end(InboxState.REFUSED, verdict.reason, rights), stranger=True)
    answered = answer_without_agent(context, context.arrival.command, rights)
    if answered is not None:
        return answered
    if rights != "guest" and (context.arrival.inbound.direct or verb is Verb.MENTION):
        context.add_notice(NO_ROUTE)
        return context.end(InboxState.REFUSED, NO_ROUTE_REASON, rights, notified=True)
    return replace(context.end(InboxState.REFUSED, NO_ROUTE_REASON, rights), stranger=True)
