"""What a provider asks before it acts, or wants to know. Who manages an agent can be asked, and the request waits for
them. In a chat nobody can be asked yet, so the answer is no, at once: an agent that waits for a person who is not there
would wait until its time is over. Every answer is written down."""

from gatepost.flow.sessions.events import plain
from gatepost.mailbox import wire
from gatepost.messages.text import clean
from gatepost.store import audit, permissions, timeline
from gatepost.store.groups import Group
from gatepost.store.permissions import Wish
from gatepost.store.port import Db
from gatepost.store.sessions import Session
from gatepost.store.turns import Turn

DENIED = (
    "Nobody can be asked for permission here, so this was not permitted. Do without it, or say what you would need it"
    " for: whoever runs this gateway can change the group's option `{}`."
)
NOBODY = (
    "Nobody can be asked here, so there is no answer. Go on as you think best, or end your answer with the question:"
    " people can reply to that."
)
QUESTION = "question"  # the name of a request for an answer, which is no tool
NOT_PERMITTED = "Whoever manages this agent did not permit it."
OPTIONS = {"acp": "permissions"}  # what says when a provider asks; `mode` for the rest
LONGEST = 100  # characters of a name that came from inside
KINDS = frozenset({"tool", "plan", "question", "mode", "other"})
VERDICTS = {"allowed": "allow"}  # of a request's state; everything else is a no
MOST_WRITTEN = 200  # of one sandbox; the rest is answered alike


def option_of(provider: str) -> str:
    return OPTIONS.get(provider, "mode")


def answer_to(event: wire.Event, provider: str) -> wire.Answer:
    reason = NOBODY if event.kind == "question" else DENIED.format(option_of(provider))
    return wire.Answer(request=_plain(event.data.get("id")), verdict="deny", input={"reason": reason})


def hold(db: Db, session: Session, turn: Turn, event: wire.Event, now: int) -> wire.Answer | None:
    """It waits until somebody answers, or the turn ends. A turn that was continued may ask again what was answered
    before: that answer still holds, and is given at once."""
    asked = permissions.ask(db, session.id, turn.id, read_wish(event), now)
    if asked.state != "pending":
        given = asked.answer if asked.state == "allowed" else {"reason": asked.reason or NOT_PERMITTED}
        return wire.Answer(request=asked.request, verdict=VERDICTS.get(asked.state, "deny"), input=given)
    told = {"requestId": asked.id, "name": asked.tool, "status": asked.state}
    timeline.add(db, session.id, turn.id, "permission", told, now)
    return None


def read_wish(event: wire.Event) -> Wish:
    """What was asked, within bounds: whatever is inside could have made it up. Only a plan has consequences."""
    data, given = event.data, plain(event.data.get("input"))
    if event.kind == "question":
        about = {"question": plain(data.get("text")), "options": plain(data.get("options"))}
        return Wish(request=_plain(data.get("id")), kind="question", tool=QUESTION, input=about)
    kind = _plain(data.get("kind"))
    is_plan = kind == "plan"
    follow_up = plain(data.get("follow_up") or "") if is_plan else ""
    return Wish(
        request=_plain(data.get("id")),
        kind=kind if kind in KINDS else "tool",
        tool=_plain(data.get("tool")),
        input=given if isinstance(given, dict) else {},
        follow_up=follow_up.strip() if isinstance(follow_up, str) else "",
        next_mode=_plain(data.get("next_mode")) if is_plan else "",
    )


def write_down(db: Db, event: wire.Event, group: Group, provider: str, session_id: str, now: int) -> None:
    """Who wanted to use what. Its input stays inside: it may hold anything."""
    option = option_of(provider)
    details = {
        "session": session_id,
        "turn": event.turn,
        "tool": QUESTION if event.kind == "question" else _plain(event.data.get("tool")),
        option: _plain(group.options.get(option, "")),
    }
    audit.append(db, audit.Record(now, f"agent:{group.folder}", "permission", "refused", details))


def _plain(value: object) -> str:
    return clean(str(value))[:LONGEST] if isinstance(value, str) else ""
