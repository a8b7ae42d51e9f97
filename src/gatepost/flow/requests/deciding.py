"""Deciding a request: who may, what it then is, and what everybody is told. One transaction; the first decision counts,
and whoever comes later is told what it was."""

from typing import Any

from msgspec import Struct

from gatepost.access import senders
from gatepost.access.senders import COMMANDING, Rights
from gatepost.access.tiers import ROOT_FOLDER
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.event_bus import EventBus
from gatepost.flow import grant_changes, sender_rights
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests import refused_hosts, unknown_rooms, unknown_senders
from gatepost.flow.requests.card_delivery import show_decision
from gatepost.flow.requests.choices import (
    GROUP,
    AnswerChoice,
    is_edited,
    list_groups,
    make_group_choice,
    render_decision,
)
from gatepost.flow.requests.edited_input import check_edited, describe_edit
from gatepost.flow.requests.questions import ANSWERS, fill_defaults, get_answers
from gatepost.store import (
    agents,
    audit,
    groups,
    identities,
    inbox,
    messages,
    requests,
    rooms,
    sessions,
    sleeping_turns,
    timeline,
)
from gatepost.store.port import Db
from gatepost.store.requests import AnswerLasts, Request, RequestAsker, RequestKind, RequestState
from gatepost.store.timeline import TimelineKind

OPERATOR = "operator"
GATEWAY = "gatepost:system"  # who decides when nobody did
EVENT, QUESTION_EVENT = messages.APPROVAL, messages.QUESTION
NOT_YOURS = "Only an admin of this agent's group or an owner may decide this."
NOT_ASKED = "Only who may speak to this agent in the room where it asks may answer this."


class Decision(Struct, frozen=True):
    """`request` as it stands now; `decided`: by this call. `rooms`: to be rung once it is committed."""

    request: Request
    decided: bool
    said: str  # for whoever decided, in one line
    rooms: tuple[tuple[str, str], ...] = ()
    wake: tuple[str, ...] = ()  # sessions that have something to work on
    files: tuple[str, ...] = ()  # below the media folder, of what nobody gets
    kept: bool = False  # an answer to one of several questions: the others wait


def may_decide(
    db: Db,
    reach: ChannelInstances,
    request: Request,
    by: str,
    where: tuple[str, str] | None = None,
    group: str = "",
) -> bool:
    """Judged when they decide, whoever the card was shown to. What root asks is for owners alone. Who runs the
    gateway's commands may decide everything. `where`: the room in which they do. `group`: the one that is chosen for a
    room; its admins may."""
    folder = group or request.folder
    rights = sender_rights.find_rights(db, by, folder) if by != OPERATOR else "owner"
    if request.kind is RequestKind.QUESTION and request.instance not in ("", agents.INSTANCE):
        return _may_answer(db, reach, request, rights, where)
    return rights == "owner" if folder == ROOT_FOLDER else rights in COMMANDING


def _may_answer(
    db: Db, reach: ChannelInstances, request: Request, rights: Rights | None, where: tuple[str, str] | None
) -> bool:
    """A question is for whoever may speak to the group in its room; who is nobody elsewhere, for the room alone."""
    here = (request.instance, request.address)
    if rights is None or (rights == "guest" and where != here):
        return False
    room = rooms.get(db, *here)
    policy = room.policy if room is not None else reach.policy(request.instance)
    return senders.check_sender(policy, rights, request.folder).allowed


def decide(
    db: Db,
    reach: ChannelInstances,
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
    request, refusal = find_to_decide(db, reach, request_id, by, where, now, choice.group)
    if refusal is not None:
        return refusal
    if fault := unknown_rooms.find_fault(db, request, choice):
        return Decision(request, False, fault)
    given = check_edited(request, given or {}, choice.lasts) if choice.state is RequestState.ALLOWED else {}
    clicked, by = by, identities.get_person(db, by)  # one person has one vote, by whichever identity
    if choice.state is RequestState.ALLOWED and request.quorum > 1:
        if choice.lasts is not AnswerLasts.ONCE:
            raise Invalid("lasts", f"{request.quorum} people must agree to {request.id}, so it can be allowed once")
        requests.add_vote(db, request.id, by, now)
        agree = [each for each in requests.list_voters(db, request.id) if may_decide(db, reach, request, each)]
        if len(agree) < request.quorum:
            record_decision(db, now, clicked, "vote", request)
            return Decision(request, False, f"Noted: {len(agree)} of {request.quorum} who must agree.")
        by = requests.join_names(agree)
    if choice.state is RequestState.ALLOWED and choice.lasts is AnswerLasts.ALWAYS and request.rule:
        grant_changes.add_rule(db, request.folder, request.rule, by, now)
    return close(db, reach, request, choice.state, choice.lasts, by, words, given, now)


def _choose_group(request: Request, choice: AnswerChoice, given: dict[str, Any]) -> tuple[AnswerChoice, dict[str, Any]]:
    """Who allows a room says who answers there: by a button, by a folder, or by nothing where one group is offered."""
    if choice.state is not RequestState.ALLOWED:
        return choice, {}
    offered = list_groups(request)
    named = choice.group or str(given.get(GROUP) or "").strip() or (offered[0] if len(offered) == 1 else "")
    return (make_group_choice(named), {GROUP: named}) if named else (choice, {})


def find_to_decide(
    db: Db, reach: ChannelInstances, request_id: str, by: str, where: tuple[str, str] | None, now: int, group: str = ""
) -> tuple[Request, Decision | None]:
    """The request, and what somebody is told who cannot decide it: it is not theirs, or it does not wait any more."""
    request = requests.get(db, request_id)
    if request is None:
        raise NotFound("request", request_id[:80], "`gatepost permit ls` shows those that wait")
    if not may_decide(db, reach, request, by, where, group):
        record_decision(db, now, by, "refused", request)
        return request, Decision(request, False, _refuse(request))
    if request.state is RequestState.PENDING and request.folder and groups.get(db, request.folder) is None:
        request = unknown_senders.withdraw(db, request, now)
    if request.state is not RequestState.PENDING:
        said = f"It was decided before. {render_decision(request, request.answered_by)}"
        return request, Decision(request, False, said)
    return request, None


def _refuse(request: Request) -> str:
    asked_in_room = request.kind is RequestKind.QUESTION and request.instance not in ("", agents.INSTANCE)
    return NOT_ASKED if asked_in_room else NOT_YOURS


def expire(db: Db, reach: ChannelInstances, request: Request, now: int) -> Decision:
    """Nobody decided. Questions that have defaults are answered by them."""
    state, words, given = RequestState.EXPIRED, "nobody decided in time", dict[str, Any]()
    if request.kind is RequestKind.QUESTION:
        answers, whole = fill_defaults(request)
        words, given = "nobody answered in time", {ANSWERS: answers if whole else get_answers(request)}
        state = RequestState.ALLOWED if whole else RequestState.EXPIRED
    session = sessions.get(db, request.session_id) if request.session_id is not None else None
    if session is not None and session.agent:  # whoever manages it reads there what became of it
        told = {"requestId": request.id, "name": request.tool, "status": state}
        timeline.add(db, session.id, request.turn_id, TimelineKind.PERMISSION, told, now)
    return close(db, reach, request, state, AnswerLasts.ONCE, GATEWAY, words, given, now)


def close(
    db: Db,
    reach: ChannelInstances,
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
    for each in requests.split_names(by) if closed.quorum > 1 else [by]:  # a row for each: each can be forgotten
        record_decision(db, now, each, state, closed)
    rooms = show_decision(db, reach, closed, now)
    wake: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    if closed.kind in (RequestKind.SENDER, RequestKind.ROOM):
        about = unknown_senders if closed.kind is RequestKind.SENDER else unknown_rooms
        released = about.follow(db, closed, now)
        wake, files = released.wake, released.files
    elif closed.kind is RequestKind.HOST and closed.session_id is not None:
        refused_hosts.follow(db, closed, now)
        outcome = {"host": closed.name, "result": render_decision(closed, by)}
        wake = (closed.session_id,) if notify_agent(db, closed, outcome, now) else ()
    elif closed.kind is RequestKind.CALL and closed.session_id is not None and state is not RequestState.ALLOWED:
        requests.settle(db, closed.id, now)
        notify_agent(db, closed, {"error": render_decision(closed, by)}, now)
        wake = (closed.session_id,)
    elif closed.asker is RequestAsker.PROVIDER and closed.session_id is not None:
        wake = (closed.session_id,) if sleeping_turns.wake(db, closed.turn_id, now) else ()
    return Decision(closed, True, render_decision(closed, by), rooms, wake, files)


def follow_decision(bells: EventBus, decision: Decision) -> None:
    """What is due once a decision is committed."""
    for room in decision.rooms:
        bells.room(*room)
    if decision.decided:
        bells.requests()
        for session_id in decision.wake:
            bells.session(session_id)
        if decision.request.lasts is AnswerLasts.ALWAYS and decision.request.folder:
            bells.tools(decision.request.folder)


def notify_agent(db: Db, request: Request, outcome: dict[str, Any], now: int) -> bool:
    """What became of a call that the agent was told is pending, as a message of the gateway's own. Once."""
    if request.session_id is None or not requests.record_notified(db, request.id, now):
        return False
    session = sessions.get(db, request.session_id)
    if session is None or session.closed_at is not None:
        return False
    event = QUESTION_EVENT if request.kind is RequestKind.QUESTION else EVENT
    content = {"event": event, "request": request.id, "tool": request.tool, "state": request.state, **outcome}
    message_id = messages.add_system(db, session, f"{event}:{request.id}", content, now)
    if message_id is None:
        return False
    inbox.enqueue(db, message_id, session.id, session.folder, request.rights or "guest", now)
    return True


def record_decision(db: Db, now: int, by: str, verdict: str, request: Request) -> None:
    details: dict[str, Any] = {
        "request": request.id,
        "kind": request.kind,
        "tool": request.tool,
        "folder": request.folder,
    }
    if is_edited(request):
        details |= describe_edit(request)
    audit.append(db, audit.AuditRecord(now, by, "request.decide", verdict, details))
