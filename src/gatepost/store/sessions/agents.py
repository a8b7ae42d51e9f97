"""Agents as a service: sessions that somebody made to work for them. There is no second table; here is what is asked
and written about such sessions, and what the end of a turn means to them."""

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict

from gatepost.core import ids
from gatepost.core.errors import Invalid, NotFound
from gatepost.messages.inbound import Direction
from gatepost.store.messages import inbox, messages
from gatepost.store.messages.inbox import InboxMode
from gatepost.store.messages.messages import NewMessage
from gatepost.store.port import Db, inline_read
from gatepost.store.rooms import origins
from gatepost.store.rooms.origins import OriginChain
from gatepost.store.sessions import errands, sessions, timeline
from gatepost.store.sessions.sessions import SESSIONS, Session, SessionMode, SessionState
from gatepost.store.sessions.timeline import TimelineKind

if TYPE_CHECKING:
    from gatepost.store.sessions.turns import Turn

INSTANCE = PLATFORM = "agents"
BEGIN = "s-"  # of the ids of sessions
TOKEN_PREFIX = "gps-"
RIGHTS = "owner"  # of whoever manages agents
_HELD = 2  # in `notify`: wanted, but not of what ends now
_SHOWN = ("agentId", "title", "status", "text")  # of that news, in the parent's timeline
_LONGEST_SAID = 250_000  # characters of one thing that it said, in its timeline; the ledger has all of it
_LONGEST_LAST = 1_000_000  # and of its last words, which are what its turn said at its end
MOST_PROMPTS, LARGEST_PROMPTS = 100, 4_000_000  # prompts, and their characters, that one agent has not answered
_LONGEST_NEWS = 2000  # characters of what an agent said last, in the news of its end


class NewAgent(Struct, frozen=True, kw_only=True):
    folder: str
    provider: str
    title: str = ""
    model: str = ""
    permission_mode: str = ""
    cwd: str = ""
    labels: Mapping[str, str] | None = None
    parent: str = ""


def address_of(session_id: str) -> str:
    """An agent's room: nobody is in it but who manages it."""
    return f"{PLATFORM}:{session_id}"


def create(db: Db, new: NewAgent, now: int, session_id: str = "") -> Session:
    """`session_id`: one that was chosen before; '': a new one."""
    session_id = session_id or ids.new("s")
    return SESSIONS.put(
        db,
        id=session_id,
        key=sessions.key_of(SessionMode.PER_THREAD, new.folder, INSTANCE, address_of(session_id), ""),
        mode=SessionMode.PER_THREAD,
        instance=INSTANCE,
        address=address_of(session_id),
        thread="",
        agent=1,
        **asdict(new) | {"labels": json.dumps(dict(new.labels or {}), ensure_ascii=False)},
        created_at=now,
        active_at=now,
    )


@inline_read
def get(db: Db, session_id: str) -> Session | None:
    found = sessions.get(db, session_id)
    return found if found is not None and found.agent else None


def find(db: Db, named: str) -> Session:
    """By its id, the beginning of it, or its title, if that means one of them; one that was ended for good does not
    stand in the way of another. What looks like an id is no title: agents give themselves titles, and would be meant
    in the place of one that is gone."""
    found = get(db, named)
    if found is not None:
        return found
    every = list_all(db, archived=True)
    near = [each for each in every if len(named) >= 4 and each.id.startswith(named)]
    titled = [each for each in every if each.title and each.title == named and not named.startswith(BEGIN)]
    near = near or [each for each in titled if each.closed_at is None] or titled
    if len(near) == 1:
        return near[0]
    if near:
        raise Invalid("agentId", f"{named!r} means several agents: {', '.join(each.id for each in near[:5])}")
    raise NotFound("agent", named[:80], "`gatepost agent ls` or list_agents shows them")


def list_all(db: Db, *, archived: bool = False) -> list[Session]:
    """The latest first; the closed ones are among them, the archived ones if asked for."""
    found = SESSIONS.list(db, "WHERE agent = 1 ORDER BY active_at DESC, id")
    return [each for each in found if archived or each.archived_at is None]


def add_prompt(
    db: Db,
    session: Session,
    text: str,
    sender: str,
    name: str,
    mode: InboxMode,
    now: int,
    chain: OriginChain | None = None,
) -> int:
    """Something to work on, durable when this is committed. A prompt brings an archived one back; one that was ended
    for good takes none, whatever was read of it before. `chain`: who is behind it, if an agent asks."""
    now_it_is = sessions.get(db, session.id)
    if now_it_is is None or now_it_is.closed_at is not None:
        raise Invalid("agentId", f"{session.id} was ended for good; create another agent")
    if why := inbox.check_room(db, session.id, RIGHTS, len(text), MOST_PROMPTS, LARGEST_PROMPTS):
        raise Invalid("prompt", f"{why}; send it when the agent has answered some, or cancel what it does")
    message_id = messages.accept(
        db,
        NewMessage(
            instance=session.instance,
            address=session.address,
            thread=session.thread,
            direction=Direction.IN,
            platform_id=ids.new("prompt"),
            sender=sender,
            sender_name=name,
            text=text,
            content=json.dumps(
                {"text": text, "sender": name, "senderId": sender, "senderName": name, "verb": "message"},
                ensure_ascii=False,
            ),
            at=now,
            folder=session.folder,
        ),
        now,
    )
    assert message_id is not None
    if chain is not None:
        origins.add_next_step(db, message_id, chain)
    inbox.enqueue(db, message_id, session.id, session.folder, RIGHTS, now, mode)
    timeline.add(db, session.id, "", TimelineKind.USER_MESSAGE, {"text": text}, now)
    set_prompted(db, session.id, now)
    db.run("UPDATE sessions SET notify = 1 WHERE id = ? AND notify > 1", (session.id,))
    return message_id


def set_prompted(db: Db, session_id: str, now: int) -> None:
    """It has something to do: one that was archived is back, and the error of the last turn is over."""
    db.run(
        "UPDATE sessions SET archived_at = NULL, active_at = ?,"
        " state = CASE state WHEN 'error' THEN 'idle' ELSE state END WHERE id = ?",
        (now, session_id),
    )


def archive(db: Db, session_id: str, now: int) -> bool:
    """False if it was already."""
    return bool(db.run("UPDATE sessions SET archived_at = ? WHERE id = ? AND archived_at IS NULL", (now, session_id)))


def update(db: Db, session_id: str, title: str | None, labels: Mapping[str, str] | None) -> None:
    if title is not None:
        sessions.set_title(db, session_id, title)
    if labels is not None:
        encoded = json.dumps(dict(labels), ensure_ascii=False)
        db.run("UPDATE sessions SET labels = ? WHERE id = ?", (encoded, session_id))


def set_permission_mode(db: Db, session_id: str, mode: str) -> None:
    db.run("UPDATE sessions SET permission_mode = ? WHERE id = ?", (mode, session_id))


def set_notify(db: Db, session_id: str, wanted: bool) -> None:
    db.run("UPDATE sessions SET notify = ? WHERE id = ?", (int(wanted), session_id))


def suspend_notify(db: Db, session_id: str) -> None:
    """Until its next prompt: what it does now gives way to that, so its end is none."""
    db.run("UPDATE sessions SET notify = ? WHERE id = ? AND notify = 1", (_HELD, session_id))


def count_waiting(db: Db, session_id: str) -> int:
    """Prompts that nobody has taken up yet, and errands that have not returned: it goes on by itself."""
    row = db.row(
        f"SELECT COUNT(*) FROM inbox WHERE session_id = ? AND {inbox.OPEN} AND state IN ('queued', 'retry')",
        (session_id,),
    )
    return (int(row[0]) if row else 0) + errands.count_open(db, session_id)


def get_last_text(db: Db, session_id: str) -> str:
    """The agent's last words: what stands together at the end of its last turn that said anything. Nothing, if it was
    given work since and has said nothing to it."""
    said: list[str] = []
    turn = ""
    for entry in reversed(timeline.list_last(db, session_id, 50)):
        if sum(map(len, said)) > _LONGEST_LAST:
            said.append("[… what it said before is in its timeline]")
            break
        if entry.kind == TimelineKind.ASSISTANT_MESSAGE and turn in ("", entry.turn_id):
            turn = entry.turn_id
            said.append(str(entry.data.get("text", "")))
        elif said or entry.kind == TimelineKind.USER_MESSAGE:
            break
    return "\n\n".join(reversed(said))


# The end of a turn, in its transaction.


def record_text(db: Db, turn: "Turn", text: str, now: int) -> None:
    """Add what an agent says to its timeline. `turn`: of this instance."""
    if text:
        cut = f"\n\n[… {len(text)} characters in all]" if len(text) > _LONGEST_SAID else ""
        timeline.add(
            db, turn.session_id, turn.id, TimelineKind.ASSISTANT_MESSAGE, {"text": text[:_LONGEST_SAID] + cut}, now
        )


def record_turn_end(db: Db, turn: "Turn", state: str, error: str, now: int) -> None:
    """Tell what went wrong, and whoever made the agent of its end, once. `turn`: of this instance."""
    session = get(db, turn.session_id)
    if session is None:
        return
    if state != "done" and error:
        timeline.add(db, session.id, turn.id, TimelineKind.ERROR, {"message": error}, now)
    if session.notify == 1 and session.parent and not count_waiting(db, session.id):
        _notify_parent(db, session, turn.id, state, error, origins.get_for_turn(db, turn.id), now)


def record_not_started(db: Db, session_id: str, reason: str, row: int, now: int) -> None:
    """No turn came to be of what it was given, and none will."""
    session = get(db, session_id)
    if session is None:
        return
    sessions.set_state(db, session_id, SessionState.ERROR, now)
    timeline.add(db, session_id, "", TimelineKind.ERROR, {"message": reason}, now)
    if session.notify and session.parent:
        _notify_parent(db, session, f"row-{row}", "failed", reason, origins.get_for_row(db, row), now)


def get_last_error(db: Db, session_id: str) -> str:
    found = (entry for entry in reversed(timeline.list_last(db, session_id, 50)) if entry.kind == TimelineKind.ERROR)
    return next((str(entry.data.get("message", "")) for entry in found), "")


def _notify_parent(db: Db, session: Session, ended: str, state: str, error: str, chain: OriginChain, now: int) -> None:
    """Add a row for the parent's next turn. It interrupts nothing, and is added once even if a process is killed
    meanwhile. The parent reacts on behalf of the people for whom the agent worked."""
    set_notify(db, session.id, False)
    parent = sessions.get(db, session.parent)
    if parent is None or parent.closed_at is not None:
        return
    news = {
        "event": "agent_finished",
        "agentId": session.id,
        "title": session.title,
        "status": "idle" if state == "done" else "error",
        "text": (get_last_text(db, session.id) if state == "done" else error)[:_LONGEST_NEWS],
    }
    message_id = messages.add_system(db, parent, f"finished:{ended}", news, now, text=news["text"])
    if message_id is None:
        return
    origins.add_next_step(db, message_id, chain)
    inbox.enqueue(db, message_id, parent.id, parent.folder, RIGHTS, now, inbox.InboxMode.NEXT)
    if parent.agent:
        timeline.add(db, parent.id, "", TimelineKind.AGENT_FINISHED, {name: news[name] for name in _SHOWN}, now)


def make_token(db: Db, session_id: str, now: int) -> str:
    """Make the token by which a session's agent is known where no socket tells who it is. The one before is void."""
    token = TOKEN_PREFIX + ids.token(32)
    db.run(
        "INSERT INTO session_tokens (session_id, digest, made_at) VALUES (?, ?, ?)"
        " ON CONFLICT (session_id) DO UPDATE SET digest = excluded.digest, made_at = excluded.made_at",
        (session_id, digest_token(token), now),
    )
    return token


@inline_read
def find_by_token(db: Db, token: str) -> str | None:
    """Return the session that a token belongs to, if that is still open. Only digests of tokens are kept."""
    row = db.row(
        "SELECT t.session_id FROM session_tokens t JOIN sessions s ON s.id = t.session_id"
        " WHERE t.digest = ? AND s.closed_at IS NULL",
        (digest_token(token),),
    )
    return str(row[0]) if row else None


def digest_token(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
