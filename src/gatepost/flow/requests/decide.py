"""Deciding a request: who may, what it then is, and what everybody is told. One transaction; the first decision counts,
and whoever comes later is told what it was."""

from typing import Any

from msgspec import Struct

from gatepost.access import senders
from gatepost.access.senders import Rights
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.event_bus import EventBus
from gatepost.core.records import replace
from gatepost.flow import grant_changes, sender_rights
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.groups import OWNER
from gatepost.flow.requests import (
    approved_plans,
    refused_hosts,
    restored_rows,
    spent_budgets,
    unknown_rooms,
    unknown_senders,
    unpriced_models,
)
from gatepost.flow.requests.card_delivery import find_name, show_answer, show_decision, show_question
from gatepost.flow.requests.choices import (
    GROUP,
    MODEL,
    PRICE,
    AnswerChoice,
    is_edited,
    list_groups,
    make_group_choice,
    render_decision,
)
from gatepost.flow.requests.edited_input import check_edited, describe_edit
from gatepost.flow.requests.questions import ANSWERS, fill_defaults, get_answers, parse_questions, render_answered
from gatepost.flow.schedule import firing
from gatepost.messages.inbound import OPERATOR, is_person
from gatepost.messages.text import one_line
from gatepost.store.messages import inbox, messages
from gatepost.store.people import identities
from gatepost.store.port import Db
from gatepost.store.rights import audit, request_cards, requests
from gatepost.store.rights.requests import AnswerLasts, Request, RequestAsker, RequestKind, RequestState
from gatepost.store.rooms import origins, rooms
from gatepost.store.rooms.origins import Origin, OriginChain
from gatepost.store.sessions import agents, errands, groups, sessions, sleeping_turns, timeline
from gatepost.store.sessions.timeline import TimelineKind

GATEWAY = "gatepost:system"  # who decides when nobody did
EVENT, QUESTION_EVENT = messages.APPROVAL, messages.QUESTION
NOT_YOURS = "Only an admin of this agent's group or an owner may decide this."
OUTDATED = "Nobody has to decide this any more: {}."
KEPT_IN_PART = "Only a part of what {0} asks was kept, so nobody can allow it. Deny it, or ask for less at once."
NOT_ASKED = "Only people who may speak to this agent here may answer this."
KEPT_ANSWER = "answer"  # in the audit: of one of several questions
LONGEST_SHOWN = 300  # characters of an answer that is told again


# What follows a decision about messages that wait for it.
_RELEASING = {
    RequestKind.SENDER: unknown_senders.follow,
    RequestKind.ROOM: unknown_rooms.follow,
    RequestKind.BUDGET: spent_budgets.follow,
    RequestKind.PRICE: unpriced_models.follow,
}


class Decision(Struct, frozen=True):
    """`request` as it stands now; `decided`: by this call. `rooms`: to be woken once it is committed."""

    request: Request
    decided: bool
    said: str  # for whoever decided, in one line
    rooms: tuple[tuple[str, str], ...] = ()
    wake: tuple[str, ...] = ()  # sessions that have something to work on
    files: tuple[str, ...] = ()  # below the media folder, of what nobody gets
    renew: tuple[str, ...] = ()  # sessions that start anew after their turn: an approved plan changed their mode
    kept: bool = False  # an answer to one of several questions, or one vote of several: the others are awaited


def may_decide(
    db: Db,
    channels: ChannelInstances,
    request: Request,
    by: str,
    where: tuple[str, str] | None = None,
    group: str = "",
) -> bool:
    """Return True if somebody may decide this request now; it does not matter who was shown the card. Only owners
    decide what root asks. An operator at the command line may decide everything. `where` is the room of the decision.
    `group` is the group chosen for a room; its admins may decide."""
    folder = group or request.folder
    rights = sender_rights.find_rights(db, by, folder) if by != OPERATOR else "owner"
    if request.kind is RequestKind.QUESTION and request.instance not in ("", agents.INSTANCE):
        return _may_answer(db, channels, request, rights, where)
    return senders.may_decide_about(rights, folder)


def may_see_arguments(db: Db, request: Request, by: str) -> bool:
    """Return True if somebody may read all arguments, of which a card shows an excerpt. Those may who may decide."""
    return senders.may_decide_about(sender_rights.find_rights(db, by, request.folder), request.folder)


def _may_answer(
    db: Db, channels: ChannelInstances, request: Request, rights: Rights | None, where: tuple[str, str] | None
) -> bool:
    """A question is for whoever may speak to the group in its room; who is nobody elsewhere, for the room alone."""
    here = (request.instance, request.address)
    if rights is None or (rights == "guest" and where != here):
        return False
    room = rooms.get(db, *here)
    policy = room.policy if room is not None else channels.policy(request.instance)
    return senders.check_sender(policy, rights, request.folder).allowed


def decide(
    db: Db,
    channels: ChannelInstances,
    request_id: str,
    choice: AnswerChoice,
    by: str,
    now: int,
    *,
    words: str = "",
    given: dict[str, Any] | None = None,
    where: tuple[str, str] | None = None,
) -> Decision:
    """Somebody's word. One who may not decide is told so, and it is recorded. `given`: arguments that take the place of
    those that were asked for. `where`: the room in which they say it."""
    request = requests.get(db, request_id)
    if request is not None and request.kind is RequestKind.ROOM:
        choice, given = _choose_group(request, choice, given or {})
    if request is not None and request.kind is RequestKind.BUDGET:
        given = {MODEL: choice.model} if choice.model else given
    if request is not None and request.kind is RequestKind.PRICE:
        given = {PRICE: choice.price} if choice.price else given
    request, refusal = find_to_decide(db, channels, request_id, by, where, now, choice.group)
    if refusal is not None:
        return refusal
    fault = unknown_rooms.find_fault(db, request, choice) or approved_plans.find_obstacle(request, choice.state)
    fault = fault or spent_budgets.find_fault(request, given or {})
    if fault := fault or unpriced_models.find_fault(request, choice.state, given or {}):
        return Decision(request, False, fault)
    if request.cut and choice.state is RequestState.ALLOWED and request.kind is not RequestKind.QUESTION:
        return Decision(request, False, KEPT_IN_PART.format(request.id))
    given = check_edited(request, given or {}, choice.lasts) if choice.state is RequestState.ALLOWED else {}
    clicked, by = by, identities.get_person(db, by)  # one person has one vote, by whichever identity
    if choice.state is RequestState.ALLOWED and request.quorum > 1:
        if choice.lasts is not AnswerLasts.ONCE:
            raise Invalid("lasts", f"{request.quorum} people must agree to {request.id}, so it can be allowed once")
        request_cards.add_vote(db, request.id, by, now)
        agree = _list_agreeing(db, channels, request)
        if len(agree) < request.quorum:
            _record_decision(db, now, clicked, "vote", request)
            said = f"Noted: {len(agree)} of {request.quorum} who must agree."
            return Decision(request, False, said, kept=True)
        by = request_cards.join_voters(agree)
    if choice.state is RequestState.ALLOWED and choice.lasts is AnswerLasts.ALWAYS and request.rule:
        grant_changes.add_rule(db, request.folder, request.rule, by, now)
    return close(db, channels, request, choice.state, choice.lasts, by, words, given, now)


def _list_agreeing(db: Db, channels: ChannelInstances, request: Request) -> list[str]:
    """Return everybody who agrees and may decide. An operator at the command line counts as the owner, who has one
    vote."""
    voters = [each for each in request_cards.list_voters(db, request.id) if may_decide(db, channels, request, each)]
    owner = identities.get_person(db, OWNER) if OPERATOR in voters else ""
    return list(dict.fromkeys(owner if each == OPERATOR else each for each in voters))


def _choose_group(request: Request, choice: AnswerChoice, given: dict[str, Any]) -> tuple[AnswerChoice, dict[str, Any]]:
    """Return the choice with the group that shall answer in a room. It is named by a button or a folder; a single
    offered group needs no name."""
    if choice.state is not RequestState.ALLOWED:
        return choice, {}
    offered = list_groups(request)
    named = choice.group or str(given.get(GROUP) or "").strip() or (offered[0] if len(offered) == 1 else "")
    return (make_group_choice(named), {GROUP: named}) if named else (choice, {})


def find_to_decide(
    db: Db,
    channels: ChannelInstances,
    request_id: str,
    by: str,
    where: tuple[str, str] | None,
    now: int,
    group: str = "",
) -> tuple[Request, Decision | None]:
    """The request, and what somebody is told who cannot decide it: it is not theirs, or it does not wait any more."""
    request = requests.get(db, request_id)
    if request is None:
        raise NotFound("request", request_id[:80], "`gatepost permit ls` shows those that wait")
    if not may_decide(db, channels, request, by, where, group):
        _record_decision(db, now, by, "refused", request)
        return request, Decision(request, False, _refuse(request))
    if outdated := withdraw_outdated(db, channels, request, now):
        return outdated.request, outdated
    if request.state is not RequestState.PENDING:
        by = request.answered_by
        said = f"It was decided before. {render_decision(request, by, name=find_name(db, by))}"
        return request, Decision(request, False, said)
    return request, None


def withdraw_outdated(db: Db, channels: ChannelInstances, request: Request, now: int) -> Decision | None:
    """Withdraw a request that asks nothing any more: its group is gone, its sender is known by now, or its budget has
    room. Nobody decides about somebody as the stranger that they were. Return None if it stays open or is already
    decided."""
    if request.state is not RequestState.PENDING:
        return None
    if request.kind is RequestKind.BUDGET:
        if spent_budgets.is_spent(db, request, now):
            return None
        ended, released = spent_budgets.release(db, channels, request, now)
    elif request.folder and groups.get(db, request.folder) is None:
        ended, released = unknown_senders.withdraw(db, channels, request, now)
    elif request.kind is RequestKind.SENDER and not unknown_senders.is_unknown(db, request):
        ended, released = unknown_senders.release_known(db, channels, request, now)
    else:
        return None
    rooms = show_decision(db, channels, ended, now)
    return Decision(ended, False, OUTDATED.format(ended.reason), rooms, released.wake, released.files)


def withdraw_crowded_out(db: Db, channels: ChannelInstances, request: Request, now: int) -> Decision | None:
    """Withdraw a request about a stranger or a room that is due and gives way to later ones. None: it stays."""
    if not unknown_senders.is_crowded_out(db, request, now):
        return None
    (ended,) = requests.withdraw(db, request.id, unknown_senders.CROWDED_OUT, now)
    released = _RELEASING[ended.kind](db, channels, ended, now)
    rooms = show_decision(db, channels, ended, now)
    return Decision(ended, False, OUTDATED.format(ended.reason), rooms, released.wake, released.files)


def withdraw_priced(db: Db, channels: ChannelInstances, model: str, now: int) -> Decision | None:
    """Withdraw the request about a model that was given a price otherwise, and have what waits go on. None if nobody
    is asked about it."""
    request = requests.find_last(db, RequestKind.PRICE, unpriced_models.NOBODYS, model)
    if request is None or request.state is not RequestState.PENDING:
        return None
    (ended,) = requests.withdraw(db, request.id, unpriced_models.HAS_PRICE, now)
    released = unpriced_models.release(db, channels, ended, now)
    rooms = show_decision(db, channels, ended, now)
    return Decision(ended, False, OUTDATED.format(ended.reason), rooms, released.wake)


def _refuse(request: Request) -> str:
    asked_in_room = request.kind is RequestKind.QUESTION and request.instance not in ("", agents.INSTANCE)
    return NOT_ASKED if asked_in_room else NOT_YOURS


def expire(db: Db, channels: ChannelInstances, request: Request, now: int) -> Decision:
    """Nobody decided. Questions that have defaults are answered by them."""
    state, words, given = RequestState.EXPIRED, "nobody decided in time", dict[str, Any]()
    if request.kind is RequestKind.QUESTION:
        answers, whole = fill_defaults(request)
        words, given = "nobody answered in time", {ANSWERS: answers if whole else get_answers(request)}
        state = RequestState.ALLOWED if whole else RequestState.EXPIRED
    session = sessions.get(db, request.session_id) if request.session_id is not None else None
    if session is not None and session.agent:  # whoever manages it reads there what became of it
        entry = {"requestId": request.id, "name": request.tool, "status": state}
        timeline.add(db, session.id, request.turn_id, TimelineKind.PERMISSION, entry, now)
    return close(db, channels, request, state, AnswerLasts.ONCE, GATEWAY, words, given, now)


def close(
    db: Db,
    channels: ChannelInstances,
    request: Request,
    state: RequestState,
    lasts: AnswerLasts,
    by: str,
    words: str,
    given: dict[str, Any],
    now: int,
) -> Decision:
    """It waits in this transaction, and whoever decides may do so."""
    if request.kind is RequestKind.HOST:
        lasts = refused_hosts.make_lasting(state, lasts)
    closed = requests.record_answer(db, request.id, state, words, given, by, now, lasts)
    assert closed is not None  # it was pending in this transaction
    for each in request_cards.split_voters(by) if closed.quorum > 1 else [by]:  # a row for each: each can be forgotten
        _record_decision(db, now, each, state, closed)
    rooms = show_decision(db, channels, closed, now)
    wake: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    renew: tuple[str, ...] = ()
    if closed.kind in _RELEASING:
        released = _RELEASING[closed.kind](db, channels, closed, now)
        wake, files, rooms, renew = released.wake, released.files, (*rooms, *released.rooms), released.renew
    elif closed.kind is RequestKind.TEXT:
        rooms = (*rooms, *firing.follow_held_text(db, channels, closed, now))
    elif closed.kind is RequestKind.RESTORED:
        others, wake = restored_rows.follow(db, channels, closed, now)
        rooms = (*rooms, *others)
    elif closed.kind is RequestKind.HOST and closed.session_id is not None:
        refused_hosts.follow(db, closed, now)
        outcome = refused_hosts.render_outcome(closed, render_decision(closed, by))
        wake = (closed.session_id,) if notify_agent(db, closed, outcome, now) else ()
    elif closed.kind is RequestKind.CALL and closed.session_id is not None and state is not RequestState.ALLOWED:
        requests.settle(db, closed.id, now)
        notify_agent(db, closed, {"error": render_decision(closed, by)}, now)
        wake = (closed.session_id,)
    elif closed.asker is RequestAsker.PROVIDER and closed.session_id is not None:
        woken = sleeping_turns.wake(db, closed.turn_id, now)
        changed = state is RequestState.ALLOWED and approved_plans.follow(db, closed, now)
        wake = (closed.session_id,) if woken or changed else ()
        renew = (closed.session_id,) if changed else ()
    said = render_decision(closed, by, name=find_name(db, by))
    return Decision(closed, True, said, rooms, wake, files, renew)


def follow_decision(events: EventBus, decision: Decision) -> None:
    """Ring the bells for a decision that is committed."""
    for room in decision.rooms:
        events.room(*room)
    for session_id in decision.wake:
        events.session(session_id)
    if decision.decided:
        events.requests()
        if decision.request.lasts is AnswerLasts.ALWAYS and decision.request.folder:
            events.tools(decision.request.folder)


def notify_agent(db: Db, request: Request, outcome: dict[str, Any], now: int) -> bool:
    """Tell the agent, once, the outcome of a call that was pending, as a message of the gateway itself."""
    if request.session_id is None or not requests.record_notified(db, request.id, now):
        return False
    session = sessions.get(db, request.session_id)
    if session is None or session.closed_at is not None:
        return False
    event = QUESTION_EVENT if request.kind is RequestKind.QUESTION else EVENT
    content = {"event": event, "request": request.id, "tool": request.tool, "state": request.state, **outcome}
    where = request if request.instance == errands.INSTANCE else session  # a thread there is a piece of work
    message_id = messages.add_system(db, where, f"{event}:{request.id}", content, now)
    if message_id is None:
        return False
    chain = _find_origins(db, request, session.id)
    origins.put(db, message_id, chain.origins, chain.depth)
    inbox.enqueue(db, message_id, session.id, session.folder, request.rights or "guest", now)
    return True


def _find_origins(db: Db, request: Request, session_id: str) -> OriginChain:
    """Return the people behind the turn that an answer causes: those behind the asking turn, and the person who
    answered. So their denials still bind, and the first one pays. This is no step to another agent. If the turn is
    unknown, the session's last one counts.
    """
    chain = origins.get_for_turn(db, request.turn_id) if request.turn_id else OriginChain()
    if not chain.origins:
        chain = origins.get_for_session(db, session_id)
    by = request.answered_by
    if request.kind is not RequestKind.QUESTION or by in ("", OPERATOR) or not is_person(by):
        return chain
    answered = Origin(by, request.instance, request.address, request.thread)
    return replace(chain, origins=tuple(dict.fromkeys((*chain.origins, answered))))


def _record_decision(db: Db, now: int, by: str, verdict: str, request: Request) -> None:
    details: dict[str, Any] = {
        "request": request.id,
        "kind": request.kind,
        "tool": request.tool,
        "folder": request.folder,
    }
    if is_edited(request):
        details |= describe_edit(request)
    audit.append(db, audit.AuditRecord(now, by, "request.decide", verdict, details))


def answer_question(
    db: Db,
    channels: ChannelInstances,
    request_id: str,
    part: int,
    text: str,
    by: str,
    now: int,
    where: tuple[str, str] | None = None,
) -> Decision:
    """Record somebody's answer to one question of a request. The last one decides the request.

    The first answer to a question counts; whoever comes later is told what it was.
    """
    request, refusal = find_to_decide(db, channels, request_id, by, where, now)
    if refusal is not None:
        return refusal
    asked, known = parse_questions(request.input), get_answers(request)
    if part >= len(asked):
        return Decision(request, False, "There is no such question.")
    if asked[part].key in known:
        return Decision(
            request, False, f"That was answered before: {one_line(known[asked[part].key])[:LONGEST_SHOWN]}."
        )
    person = identities.get_person(db, by)
    given = {ANSWERS: {**known, asked[part].key: text}}
    if len(given[ANSWERS]) == len(asked):
        return close(db, channels, request, RequestState.ALLOWED, AnswerLasts.ONCE, person, "", given, now)
    kept = requests.set_answer(db, request.id, given)
    assert kept is not None  # it waits in this transaction
    request_cards.add_vote(db, request.id, person, now)  # who else answered a part of it is known by that
    _record_decision(db, now, person, KEPT_ANSWER, kept)
    rooms = (*show_answer(db, channels, kept, person, now), *show_question(db, channels, kept, now))
    said = render_answered(kept, person, part, find_name(db, person))
    return Decision(kept, False, said, tuple(dict.fromkeys(rooms)), kept=True)
