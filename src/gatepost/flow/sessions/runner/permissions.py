"""Questions of a provider before it acts. Whoever manages an agent can be asked, and the request waits for them. In a
chat a card asks whoever may decide about the group; a question is put to the room. Every answer is written down."""

import hashlib
import json
from collections.abc import Collection

from msgspec import Struct

from gatepost.core import ids
from gatepost.core.clock import HOUR
from gatepost.core.records import replace
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests import approved_plans
from gatepost.flow.requests.ask_approver import MOST_AN_HOUR, MOST_WAITING_IN_GROUP, AskingRules, ask
from gatepost.flow.requests.provider_answers import NOT_PERMITTED
from gatepost.flow.sessions.runner.turn_timeline import clean_value, excerpt
from gatepost.mailbox import runner_frames
from gatepost.mailbox.runner_frames import EventKind
from gatepost.messages.text import clean, one_line
from gatepost.store.port import Db, LockKind
from gatepost.store.rights import audit, requests, waiting_requests
from gatepost.store.rights.requests import PROVIDERS_OWN, NewRequest, Request, RequestKind, RequestState
from gatepost.store.sessions import sleeping_turns, timeline
from gatepost.store.sessions.groups import Group
from gatepost.store.sessions.sessions import Session
from gatepost.store.sessions.timeline import TimelineKind
from gatepost.store.sessions.turns import Turn

TOO_MANY = (
    "{} requests of this agent wait for an answer already, so this one was not put to anybody. Wait for those, or do"
    " without."
)
GROUP_TOO_MANY = (
    "{} requests of this agent's group wait for an answer already, so this one was not put to anybody. Wait for those,"
    " or do without."
)
TOO_OFTEN = "This agent has asked too often, so it was not put to anybody. Do without."
QUESTION = "question"  # the name of a request for an answer, which is no tool
LONGEST = 100  # characters of a name that came from inside
VERDICTS = {"allowed": "allow"}  # of a request's state; everything else is a no
MOST_WRITTEN = 200  # of one sandbox; the rest is answered alike
MOST_WAITING = 32  # of one agent, at once


def make_refusal(event: runner_frames.EventFrame, reason: str) -> runner_frames.PermissionAnswerFrame:
    return runner_frames.PermissionAnswerFrame(
        request=_plain(event.data.get("id")), verdict="deny", input={"reason": reason}
    )


class RecordedPermission(Struct, frozen=True):
    """`answer`: None if it waits. `rooms`: to be woken once it is committed."""

    answer: runner_frames.PermissionAnswerFrame | None
    rooms: tuple[tuple[str, str], ...] = ()


class ChatAsking(Struct, frozen=True):
    """The way in which people are asked about what a provider wants to do in a chat."""

    channels: ChannelInstances
    rules: AskingRules


class RequestOptions(Struct, frozen=True):
    """`expire`: how long whoever manages an agent has to answer. `editable`: its provider uses an input that a person
    puts in place of its own. `modes`: those that its provider has."""

    expire: int | None = None
    editable: bool = False
    modes: tuple[str, ...] = ()


NO_OPTIONS = RequestOptions()


def record_request(
    db: Db,
    session: Session,
    turn: Turn,
    event: runner_frames.EventFrame,
    now: int,
    others: Collection[str] = (),
    chat: ChatAsking | None = None,
    options: RequestOptions = NO_OPTIONS,
) -> RecordedPermission:
    """It waits until somebody answers, or the turn ends. A turn that was continued may ask again what was answered
    before: if that says the very same, the answer is given at once and written down. Under another name it is given
    only if no attempt had it: what an attempt had may be done already, so a person is asked again. `others`: what this
    runner waits for already. `chat`: None for an agent that somebody manages. A refusal whose reason is TOO_MANY's is
    the caller's to write down."""
    wish = _with_place(parse_permission_request(event), session, turn)
    wish = replace(wish, editable=options.editable and wish.kind is RequestKind.TOOL and not wish.cut)
    if chat is not None:
        if why := approved_plans.find_fault(wish, options.modes):
            return RecordedPermission(make_refusal(event, why))
        wish = approved_plans.drop_only_mode(wish, options.modes)
    db.lock(LockKind.QUOTA, "requests", session.folder)
    asked = requests.find_in_turn(db, session.id, turn.id, wish.name, wish.digest, others)
    if asked is not None and asked.state in (RequestState.ALLOWED, RequestState.DENIED, RequestState.EXPIRED):
        sleeping_turns.claim_answer(db, asked.id, now)
        return RecordedPermission(_repeat_answer(db, session, turn, asked, now))
    requests.withdraw_others(db, turn.id, {wish.name, *others}, now)
    if asked is not None and asked.state is RequestState.PENDING:
        rooms: tuple[tuple[str, str], ...] = ()
    elif waiting_requests.count_waiting(db, session.id) >= MOST_WAITING:
        return RecordedPermission(make_refusal(event, TOO_MANY.format(MOST_WAITING)))
    elif chat is not None and waiting_requests.count_waiting_in_group(db, session.folder) >= MOST_WAITING_IN_GROUP:
        return RecordedPermission(make_refusal(event, GROUP_TOO_MANY.format(MOST_WAITING_IN_GROUP)))
    elif chat is not None and requests.count_asked_since(db, session.id, now - HOUR) >= MOST_AN_HOUR:
        return RecordedPermission(make_refusal(event, TOO_OFTEN))
    elif chat is not None:
        found = ask(db, chat.channels, chat.rules, wish, now)
        asked, rooms = found.request, found.rooms
    else:
        requests.withdraw_replaced(db, wish, now)
        end = now + options.expire if options.expire is not None else None
        (asked, _), rooms = requests.add(db, replace(wish, expires_at=end, next_at=end), now), ()
    if session.agent:
        entry = {"requestId": asked.id, "name": asked.tool, "status": asked.state}
        timeline.add(db, session.id, turn.id, TimelineKind.PERMISSION, entry, now)
    return RecordedPermission(None, rooms)


def _with_place(wish: NewRequest, session: Session, turn: Turn) -> NewRequest:
    return replace(
        wish,
        folder=session.folder,
        session_id=session.id,
        turn_id=turn.id,
        instance=turn.instance,
        address=turn.address,
        thread=turn.thread,
        rights=turn.rights,
    )


def _repeat_answer(
    db: Db, session: Session, turn: Turn, asked: Request, now: int
) -> runner_frames.PermissionAnswerFrame:
    """Return what somebody answered to the same request before."""
    if session.agent:
        entry = {"requestId": asked.id, "name": asked.tool, "status": asked.state, "again": True}
        timeline.add(db, session.id, turn.id, TimelineKind.PERMISSION, entry, now)
    details = {
        "agent": session.id,
        "turn": turn.id,
        "tool": asked.tool,
        "request": asked.id,
        "answeredBy": asked.answered_by,
    }
    audit.append(db, audit.AuditRecord(now, f"agent:{session.folder}", "permission.again", asked.state, details))
    given = asked.answer if asked.state == RequestState.ALLOWED else {"reason": asked.reason or NOT_PERMITTED}
    return runner_frames.PermissionAnswerFrame(
        request=asked.name, verdict=VERDICTS.get(asked.state, "deny"), input=given
    )


def parse_permission_request(event: runner_frames.EventFrame) -> NewRequest:
    """Return what was asked, within bounds: whatever is inside could have made it up. Only a plan has consequences."""
    data, name, digest = event.data, _plain(event.data.get("id")), digest_of(event)
    if event.kind == EventKind.QUESTION:
        about, cut = excerpt({"question": data.get("text"), "options": data.get("options")})
        return NewRequest(name=name, kind=RequestKind.QUESTION, tool=QUESTION, input=about, digest=digest, cut=cut)
    given, cut = excerpt(data.get("input"))
    kind = _plain(data.get("kind"))
    is_plan = kind == RequestKind.PLAN
    follow_up = clean_value(data.get("follow_up") or "") if is_plan else ""
    return NewRequest(
        name=name,
        kind=RequestKind(kind) if kind in PROVIDERS_OWN else RequestKind.TOOL,
        tool=one_line(_plain(data.get("tool"))),
        input=given if isinstance(given, dict) else {},
        follow_up=follow_up.strip() if isinstance(follow_up, str) else "",
        next_mode=_plain(data.get("next_mode")) if is_plan else "",
        digest=digest,
        cut=cut or bool(data.get("cut")) or not isinstance(given, dict | None),
    )


def digest_of(event: runner_frames.EventFrame) -> str:
    """Return the digest of everything that is asked, before anything is cut. `whole` is the runner's own, of what did
    not fit a frame."""
    about = {name: event.data[name] for name in sorted(event.data) if name != "id"}
    try:
        text = json.dumps([event.kind, about], sort_keys=True)
    except RecursionError:
        return ids.new("never")  # what cannot be compared is never the same
    return hashlib.sha256(text.encode()).hexdigest()


def record_refusal(
    db: Db, event: runner_frames.EventFrame, group: Group, option: str, session_id: str, now: int
) -> None:
    """Record which tool was refused. Its input stays inside: it may hold anything. `option`: it holds the mode."""
    details = {
        "session": session_id,
        "turn": event.turn,
        "tool": QUESTION if event.kind == EventKind.QUESTION else one_line(_plain(event.data.get("tool"))),
        option: _plain(group.options.get(option, "")),
    }
    audit.append(db, audit.AuditRecord(now, f"agent:{group.folder}", "permission", "refused", details))


def _plain(value: object) -> str:
    return clean(str(value))[:LONGEST] if isinstance(value, str) else ""
