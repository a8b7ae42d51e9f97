"""Requests: what waits for a person's decision, whoever asks. One is made for a provider before it acts, a held tool
call, a question, somebody unknown, an unknown room, a host, or what a restored store has in flight.

    pending → allowed · denied · expired · withdrawn

An answer holds for what was asked: the same name with anything else behind it is another request. `settled_at` is
written in the transaction that does what follows from the answer, `notified_at` in the one that tells whoever asked.
So each happens once, whatever ends in between.
"""

import json
from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct, convert, to_builtins
from msgspec.structs import asdict

from gatepost.core import ids
from gatepost.store.engine.rule_cache import rename_state
from gatepost.store.engine.table import Table
from gatepost.store.port import Db, inline_read

PREFIX = "p-"  # how ids begin
HELD = "held"  # the folder, below that of media, of copies of what held calls give away
MOST_NAMED = 500  # ids in one statement
EARLIER = "an earlier conversation"  # what a request is about that was asked in one


class RequestKind(StrEnum):
    """The first five are a provider's own."""

    TOOL = "tool"
    PLAN = "plan"
    QUESTION = "question"
    MODE = "mode"
    OTHER = "other"
    CALL = "call"  # of a tool of ours that is held
    SENDER = "sender"  # somebody unknown wrote
    ROOM = "room"  # a room that goes nowhere
    HOST = "host"  # on the network
    TEXT = "text"  # of a task, which a rule holds when its time comes
    RESTORED = "restored"  # what was in flight when a store was copied or backed up
    BUDGET = "budget"  # it is spent, and messages wait
    PRICE = "price"  # a model has none, and messages wait


PROVIDERS_OWN = frozenset(tuple(RequestKind)[:5])


class RequestAsker(StrEnum):
    """The asker who waits for the answer, and so how it is told."""

    PROVIDER = "provider"  # in its turn: over with it
    AGENT = "agent"  # its call was answered "pending": a message tells it, also after the turn
    PERSON = "person"  # nobody waits; what was decided is done


class RequestState(StrEnum):
    PENDING = "pending"
    ALLOWED = "allowed"
    DENIED = "denied"
    EXPIRED = "expired"  # nobody decided in time
    WITHDRAWN = "withdrawn"  # nobody waits for the answer any more


class AnswerLasts(StrEnum):
    """How long an answer holds."""

    ONCE = "once"
    SESSION = "session"
    ALWAYS = "always"


class BoundKind(StrEnum):
    """The kinds of things that a fact is about."""

    VOICE = "voice"
    SECRET = "secret"
    MESSAGE = "message"
    FOLDER = "folder"
    FILE = "file"
    TASK = "task"
    SKILL = "skill"


class BoundFile(Struct, frozen=True):
    """A file that a call gives away, as the host copied it when people were asked."""

    name: str  # as the call names it
    path: str  # of the copy
    size: int
    sha256: str
    excerpt: str = ""  # of a text


class BoundFact(Struct, frozen=True):
    """Something else that a call reads. It is not copied, but compared when the call runs."""

    kind: BoundKind
    name: str
    digest: str
    shown: str = ""  # to whoever decides
    cut: bool = False  # `shown` is not all of it, so nobody can allow it


class BoundReads(Struct, frozen=True, omit_defaults=True):
    """All that a held call reads besides its arguments, as it was when people were asked."""

    files: tuple[BoundFile, ...] = ()
    facts: tuple[BoundFact, ...] = ()
    threads: dict[str, str] = {}  # by parameter: the thread in the room that it names

    def list_changed(self, now: "BoundReads") -> list[str]:
        """The names of what is read now and was not so, or not at all, when people were asked."""
        files = {(each.name, each.sha256) for each in self.files}
        facts = {(each.kind, each.name, each.digest) for each in self.facts}
        changed = [each.name for each in now.files if (each.name, each.sha256) not in files]
        return changed + [each.name for each in now.facts if (each.kind, each.name, each.digest) not in facts]


class NewRequest(Struct, frozen=True, kw_only=True):
    """An approved plan sets the mode to `next_mode`, and `follow_up` is then the next prompt."""

    kind: RequestKind
    name: str  # by which whoever asks knows it again
    asker: RequestAsker | None = None  # None: as usual for its kind
    folder: str = ""
    session_id: str | None = None
    turn_id: str = ""
    tool: str = ""
    input: dict[str, Any]
    digest: str = ""  # of everything that is asked, also of what is not kept here
    about: str = ""  # what an answer that lasts speaks of: the same tool in the same place
    cut: bool = False  # `input` is an excerpt
    editable: bool = False  # whoever decides may put another input in its place
    follow_up: str = ""
    next_mode: str = ""
    instance: str = ""
    address: str = ""
    thread: str = ""
    rights: str = ""
    why: str = ""  # a person must decide
    preview: str = ""  # what it would change, as markdown
    rule: str = ""  # that "always" writes; '' if no rule can
    rooms: dict[str, str] = {}  # by parameter: the channel instance by which a call reaches the room that it names
    bound: BoundReads = BoundReads()  # what a call reads besides its arguments
    quorum: int = 0  # 0: as the gateway says
    expires_at: int | None = None
    next_at: int | None = None


class Request(Struct, frozen=True):
    id: str
    kind: RequestKind
    folder: str
    session_id: str | None
    turn_id: str
    name: str
    digest: str
    about: str
    tool: str
    input: dict[str, Any]
    cut: bool
    follow_up: str
    next_mode: str
    instance: str
    address: str
    thread: str
    rights: str
    why: str
    rule: str
    rooms: dict[str, str]
    state: RequestState
    answer: dict[str, Any]  # what may be used instead of the input
    lasts: AnswerLasts
    reason: str
    quorum: int
    asked_at: int
    expires_at: int | None
    next_at: int | None
    answered_at: int | None
    answered_by: str
    settled_at: int | None
    notified_at: int | None
    asker: RequestAsker
    editable: bool = False
    preview: str = ""
    bound: dict[str, Any] = {}
    failure: str = ""  # of an allowed call: what went wrong, in words for people

    @property
    def reads(self) -> BoundReads:
        """Return what the requested call reads besides its arguments."""
        return convert(self.bound, BoundReads)


REQUESTS = Table("requests", Request)


def get_asker(new: NewRequest) -> RequestAsker:
    if new.asker is not None:
        return new.asker
    if new.kind in PROVIDERS_OWN:
        return RequestAsker.PROVIDER
    return RequestAsker.AGENT if new.kind is RequestKind.CALL else RequestAsker.PERSON


def add(db: Db, new: NewRequest, now: int) -> tuple[Request, bool]:
    """Add a request; return it, and True if it is new. Asked again, it is the same request: in a turn by its name and
    digest, for people while it waits. One that was withdrawn waits again."""
    flags = {"cut": int(new.cut), "editable": int(new.editable)}
    texts = {"input": _json(new.input), "rooms": _json(new.rooms), "bound": _json(to_builtins(new.bound))}
    values = asdict(new) | flags | texts | {"quorum": max(new.quorum, 1), "asker": get_asker(new)}
    made = REQUESTS.insert(
        db,
        f"ON CONFLICT DO NOTHING RETURNING {REQUESTS.columns}",
        id=ids.new(PREFIX[:-1]),
        state=RequestState.PENDING,
        asked_at=now,
        **values,
    )
    if made is not None:
        if new.session_id is None:
            rename_state(db)  # see `waiting_requests.list_names_of_people`
        return REQUESTS.parse(made), True
    found = find_same(db, new)
    assert found is not None  # a unique index has just found it
    if found.state is not RequestState.WITHDRAWN:
        return found, False
    db.run("DELETE FROM request_votes WHERE request_id = ?", (found.id,))  # who agreed was told that it is over
    again = db.row(
        "UPDATE requests SET state = 'pending', reason = '', answered_at = NULL, settled_at = NULL, notified_at = NULL,"
        f" expires_at = ?, next_at = ?, bound = ? WHERE id = ? RETURNING {REQUESTS.columns}",
        (new.expires_at, new.next_at, texts["bound"], found.id),
    )
    assert again is not None
    return REQUESTS.parse(again), True


def withdraw_replaced(db: Db, new: NewRequest, now: int) -> list[Request]:
    """Return what its asker asked under the same name and with other words: nobody waits for that any more."""
    if new.session_id is None:
        return []
    replaced = "session_id = ? AND turn_id = ? AND name = ? AND digest <> ?"
    params = (new.session_id, new.turn_id, new.name, new.digest)
    return _withdraw(db, replaced, params, "something else was asked in its place", now)


def find_same(db: Db, new: NewRequest) -> Request | None:
    """Return what was asked before and is the same request."""
    if new.session_id is None:
        waiting = "WHERE session_id IS NULL AND state = 'pending' AND kind = ? AND folder = ? AND name = ?"
        return REQUESTS.get(db, waiting, new.kind, new.folder, new.name)
    same = "WHERE session_id = ? AND turn_id = ? AND name = ? AND digest = ?"
    return REQUESTS.get(db, same, new.session_id, new.turn_id, new.name, new.digest)


def find_in_turn(
    db: Db, session_id: str, turn_id: str, name: str, digest: str, others: Collection[str] = ()
) -> Request | None:
    """Return the same request of this turn under the same name. Otherwise return one with the same content, left by an
    attempt that is gone, if it waits or its answer was given to no attempt. It gets this name from now on. `others` are
    names that somebody waits for as they are."""
    same = "WHERE session_id = ? AND turn_id = ? AND name = ? AND digest = ?"
    if found := REQUESTS.get(db, same, session_id, turn_id, name, digest):
        return found
    for request_id, named in db.rows(
        "SELECT id, name FROM requests WHERE session_id = ? AND turn_id = ? AND digest = ? AND notified_at IS NULL"
        " ORDER BY asked_at, id",
        (session_id, turn_id, digest),
    ):
        if named not in others:
            db.run("UPDATE requests SET name = ? WHERE id = ?", (name, request_id))
            return get(db, request_id)
    return None


def find_last(db: Db, kind: RequestKind, folder: str, name: str) -> Request | None:
    """The newest of people by that name."""
    last = "WHERE kind = ? AND folder = ? AND name = ? AND session_id IS NULL ORDER BY asked_at DESC LIMIT 1"
    return REQUESTS.get(db, last, kind, folder, name)


def has_earlier(db: Db, request: Request) -> bool:
    """Return True if people were asked the same before, whatever became of it."""
    same = (
        "SELECT 1 FROM requests WHERE kind = ? AND folder = ? AND name = ? AND session_id IS NULL AND id <> ? LIMIT 1"
    )
    return db.row(same, (request.kind, request.folder, request.name, request.id)) is not None


def find_last_of_group(db: Db, kind: RequestKind, folder: str, name: str) -> Request | None:
    """Return the newest request by that name, of any session of the group. Withdrawn ones do not count."""
    last = "WHERE kind = ? AND folder = ? AND name = ? AND state <> 'withdrawn' ORDER BY asked_at DESC, id DESC LIMIT 1"
    return REQUESTS.get(db, last, kind, folder, name)


@inline_read
def find_lasting(db: Db, session_id: str, about: str) -> Request | None:
    """An answer that holds for the rest of this session and speaks of the same."""
    lasting = "WHERE session_id = ? AND about = ? AND state = 'allowed' AND lasts = 'session' LIMIT 1"
    return REQUESTS.get(db, lasting, session_id, about)


def record_answer(
    db: Db,
    request_id: str,
    state: RequestState,
    reason: str,
    given: dict[str, Any],
    by: str,
    now: int,
    lasts: AnswerLasts = AnswerLasts.ONCE,
) -> Request | None:
    """None if it does not wait: answered before, or over. `given`: what may be used instead of the input."""
    row = db.row(
        "UPDATE requests SET state = ?, reason = ?, answer = ?, lasts = ?, answered_at = ?, answered_by = ?,"
        f" next_at = NULL WHERE id = ? AND state = 'pending' RETURNING {REQUESTS.columns}",
        (state, reason, _json(given), lasts, now, by, request_id),
    )
    return REQUESTS.parse(row) if row else None


def set_answer(db: Db, request_id: str, given: dict[str, Any]) -> Request | None:
    """Return what was answered so far of a request that goes on waiting. None if it does not wait."""
    row = db.row(
        f"UPDATE requests SET answer = ? WHERE id = ? AND state = 'pending' RETURNING {REQUESTS.columns}",
        (_json(given), request_id),
    )
    return REQUESTS.parse(row) if row else None


def settle(db: Db, request_id: str, now: int) -> bool:
    """Record that the answer of a request was acted on. Return False if it was recorded before."""
    return bool(db.run("UPDATE requests SET settled_at = ? WHERE id = ? AND settled_at IS NULL", (now, request_id)))


def record_failure(db: Db, request_id: str, failure: str) -> None:
    """Keep what went wrong with a call that was allowed."""
    db.run("UPDATE requests SET failure = ? WHERE id = ?", (failure, request_id))


def record_notified(db: Db, request_id: str, now: int) -> bool:
    """Record that the asker is told in this transaction. Return False if they were told before."""
    return bool(db.run("UPDATE requests SET notified_at = ? WHERE id = ? AND notified_at IS NULL", (now, request_id)))


def withdraw_others(db: Db, turn_id: str, others: Collection[str], now: int) -> None:
    """A new attempt asks for something, so what only the one before it waited for is over. If that is asked again after
    all, it waits again."""
    for request_id, named in db.rows(
        "SELECT id, name FROM requests WHERE turn_id = ? AND state = 'pending' AND asker = 'provider'", (turn_id,)
    ):
        if named not in others:
            _withdraw(db, "id = ?", (request_id,), "who asked it was started anew", now)


def withdraw_for_turn(db: Db, session_id: str, turn_id: str, reason: str, now: int) -> list[Request]:
    """Withdraw the requests of a turn's provider: nobody waits for these answers any more, nor for given ones that no
    attempt fetched. Requests of the agent itself stay, because their answers come later."""
    own = "session_id = ? AND turn_id = ? AND asker = 'provider'"
    db.run(
        f"UPDATE requests SET settled_at = COALESCE(settled_at, ?), notified_at = ? WHERE {own} AND state <> 'pending'"
        " AND notified_at IS NULL",
        (now, now, session_id, turn_id),
    )
    return _withdraw(db, own, (session_id, turn_id), reason, now)


def withdraw_calls(db: Db, turn_id: str, reason: str, now: int) -> list[Request]:
    """Its held calls and its agent's questions: a person stopped the turn."""
    return _withdraw(db, "turn_id = ? AND asker = 'agent'", (turn_id,), reason, now)


def withdraw_for_session(db: Db, session_id: str, reason: str, now: int) -> list[Request]:
    return _withdraw(db, "session_id = ?", (session_id,), reason, now)


def withdraw(db: Db, request_id: str, reason: str, now: int) -> list[Request]:
    """Empty if it does not wait."""
    return _withdraw(db, "id = ?", (request_id,), reason, now)


def end_lasting(db: Db, session_id: str) -> None:
    """End the permissions that were given for the rest of a conversation. A request that still waits is marked as an
    earlier one, so that its answer does not hold for the next conversation."""
    lasting = "session_id = ? AND state = 'allowed' AND lasts = 'session'"
    db.run(f"UPDATE requests SET lasts = 'once' WHERE {lasting}", (session_id,))
    db.run("UPDATE requests SET about = ? WHERE session_id = ? AND state = 'pending'", (EARLIER, session_id))


def _withdraw(db: Db, which: str, params: tuple[str, ...], reason: str, now: int) -> list[Request]:
    rows = db.rows(
        "UPDATE requests SET state = 'withdrawn', reason = ?, answered_at = ?, settled_at = ?, notified_at = ?,"
        " next_at = NULL"
        f" WHERE {which} AND state = 'pending' RETURNING {REQUESTS.columns}",
        (reason, now, now, now, *params),
    )
    return [REQUESTS.parse(row) for row in rows]


@inline_read
def get(db: Db, request_id: str) -> Request | None:
    return REQUESTS.get(db, "WHERE id = ?", request_id)


def list_by_ids(db: Db, named: Sequence[str]) -> list[Request]:
    return REQUESTS.list(db, f"WHERE id IN ({', '.join('?' * len(named))})", *named) if named else []


def list_question_threads(db: Db, named: Sequence[str]) -> dict[str, str]:
    """Those that are questions, and the thread of each. Nothing that was asked is read."""
    found: dict[str, str] = {}
    for start in range(0, len(named), MOST_NAMED):
        some = named[start : start + MOST_NAMED]
        marks = ", ".join("?" * len(some))
        found |= {
            str(each): str(thread)
            for each, thread in db.rows(
                f"SELECT id, thread FROM requests WHERE kind = 'question' AND id IN ({marks})", some
            )
        }
    return found


def count_pending(db: Db, most: int) -> int:
    """Return how many wait for a decision, `most` at most."""
    row = db.row("SELECT COUNT(*) FROM (SELECT 1 FROM requests WHERE state = 'pending' LIMIT ?) AS found", (most,))
    return int(row[0]) if row else 0


def count_asked_since(db: Db, session_id: str, since: int) -> int:
    row = db.row("SELECT COUNT(*) FROM requests WHERE session_id = ? AND asked_at > ?", (session_id, since))
    return int(row[0]) if row else 0


def count_of_kind_since(db: Db, kind: RequestKind, folder: str, since: int) -> int:
    """How many of a group were asked, whatever became of them."""
    counted = "SELECT COUNT(*) FROM requests WHERE kind = ? AND folder = ? AND asked_at > ?"
    row = db.row(counted, (kind, folder, since))
    return int(row[0]) if row else 0


def list_for_turns(db: Db, session_id: str, turn_ids: Sequence[str], most: int) -> list[Request]:
    """Return what a session asked in these turns, whatever became of it. At most so many of each turn."""
    one = "WHERE session_id = ? AND turn_id = ? ORDER BY name LIMIT ?"
    return [each for turn_id in turn_ids for each in REQUESTS.list(db, one, session_id, turn_id, most)]


def list_unnotified(db: Db, kinds: Collection[RequestKind], most: int) -> list[Request]:
    """Requests of agents that are answered, which were not told yet; the oldest answer first."""
    marks = ", ".join("?" * len(kinds))
    unnotified = (
        f"WHERE state <> 'pending' AND notified_at IS NULL AND asker = ? AND kind IN ({marks})"
        " ORDER BY answered_at, id LIMIT ?"
    )
    return REQUESTS.list(db, unnotified, RequestAsker.AGENT, *sorted(kinds), most)


def list_bound_files(db: Db) -> frozenset[str]:
    """The copies that open requests need."""
    rows = db.rows("SELECT bound FROM requests WHERE notified_at IS NULL AND bound <> '{}'")
    return frozenset(each.path for row in rows for each in convert(json.loads(row[0]), BoundReads).files)


@inline_read
def find_for_message(db: Db, message_id: int) -> Request | None:
    """Return the call by which a person allowed a message to be sent, edited or passed on. One that is passed on counts
    until it has left, because a platform passes on the words that it finds then."""
    passed_on = "op IN ('forward', 'quote', 'repost') AND state IN ('pending', 'sending', 'uncertain')"
    others = f"SELECT key FROM outbox WHERE target_id = ? AND (op = 'edit' OR ({passed_on}))"
    keys = db.rows(f"SELECT key FROM outbox WHERE message_id = ? UNION ALL {others}", (message_id, message_id))
    named = {part for row in keys for part in str(row[0]).split("/") if part.startswith(PREFIX)}
    found = list_by_ids(db, sorted(named)[:MOST_NAMED])
    return next((each for each in found if each.kind is RequestKind.CALL), None)


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)
