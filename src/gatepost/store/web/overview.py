"""Facts of the first screen: a few statements for all groups together, and a few more for those that are shown.

Rows that wait, run or failed are found by partial indexes, so old messages cost nothing here.
"""

from collections.abc import Sequence

from msgspec import Struct

from gatepost.messages.inbound import Direction
from gatepost.store.engine.table import make_row_parser
from gatepost.store.messages import inbox
from gatepost.store.messages.messages import marks
from gatepost.store.messages.outbox import EffectState
from gatepost.store.port import Db
from gatepost.store.rights.requests import RequestKind
from gatepost.store.sessions import sessions
from gatepost.store.sessions.sessions import SessionState
from gatepost.store.sessions.turns import TurnState

MOST_GROUPS = 10_000  # beyond that the last by name are not shown
MOST_MANAGED = 1000
MOST_WAITING = 20_000  # rows of one kind that wait, added up by session
MOST_PAIRS = 1000  # of groups that wait for each other
LONGEST_TEXT = 300  # characters of a message that are read


class GroupActivity(Struct, frozen=True):
    """A group and the last of its conversations. `spent`: today, with all groups below it."""

    folder: str
    name: str
    provider: str
    session_id: str | None
    active_at: int | None
    spent: int


class ManagedActivity(Struct, frozen=True):
    """A session that somebody made to be an agent."""

    id: str
    folder: str
    title: str
    provider: str
    state: SessionState
    active_at: int


class OpenTurn(Struct, frozen=True):
    session_id: str
    folder: str
    state: TurnState
    error: str
    started_at: int


class QueuedMessages(Struct, frozen=True):
    """Messages that wait in a session ('': in none yet). `held`: those among them that wait for a person.
    `held_for`: the oldest request that they wait for."""

    session_id: str
    folder: str
    count: int
    held: int
    oldest_at: int
    held_for: str


class OpenRequests(Struct, frozen=True):
    """Questions of a session ('': nobody's) to people. `first`: the oldest."""

    session_id: str
    folder: str
    count: int
    first: str
    asked_at: int


class FailedMessage(Struct, frozen=True):
    """The last message of an agent that failed, if it answered nobody since. `sender`: who can be given an answer after
    all; '' if it is a task's, or its conversation is over."""

    session_id: str
    folder: str
    message_id: int
    reason: str
    failed_at: int
    sender: str = ""


class OpenErrands(Struct, frozen=True):
    """Work that one group gave to another and waits for."""

    caller_folder: str
    folder: str
    count: int
    oldest_at: int


class UnclearEffects(Struct, frozen=True):
    """Effects that failed to go out, or went out perhaps."""

    state: EffectState
    count: int


class LastMessage(Struct, frozen=True):
    id: int
    direction: Direction
    sender: str
    sender_name: str
    text: str
    at: int


class ShownRequest(Struct, frozen=True):
    id: str
    kind: RequestKind
    tool: str
    name: str
    why: str
    asked_at: int


_parse_group = make_row_parser(GroupActivity)
_parse_managed = make_row_parser(ManagedActivity)
_parse_turn = make_row_parser(OpenTurn)
_parse_queue = make_row_parser(QueuedMessages)
_parse_open = make_row_parser(OpenRequests)
_parse_failed = make_row_parser(FailedMessage)
_parse_errands = make_row_parser(OpenErrands)
_parse_unclear = make_row_parser(UnclearEffects)
_parse_message = make_row_parser(LastMessage)
_parse_request = make_row_parser(ShownRequest)


# All groups together.


def list_groups(db: Db, today: int) -> list[GroupActivity]:
    """By name. `today`: when the day began. A trial is no conversation."""
    rows = db.rows(
        "SELECT g.folder, g.name, g.provider, s.id, s.active_at, COALESCE(p.spent, 0) FROM groups g"
        " LEFT JOIN sessions s ON s.id = (SELECT l.id FROM sessions l WHERE l.folder = g.folder AND l.agent = 0"
        " AND SUBSTR(l.address, 1, CAST(? AS INTEGER)) <> ? ORDER BY l.active_at DESC LIMIT 1)"
        " LEFT JOIN spending p ON p.kind = 'group' AND p.name = g.folder AND p.period = 'day' AND p.starts_at = ?"
        " ORDER BY g.folder LIMIT ?",
        (len(sessions.TRIAL_ROOMS), sessions.TRIAL_ROOMS, today, MOST_GROUPS),
    )
    return [_parse_group(row) for row in rows]


def list_managed(db: Db) -> list[ManagedActivity]:
    """The agents that take work, the latest first."""
    rows = db.rows(
        "SELECT id, folder, title, provider, state, active_at FROM sessions WHERE agent = 1 AND closed_at IS NULL"
        " AND archived_at IS NULL ORDER BY active_at DESC LIMIT ?",
        (MOST_MANAGED,),
    )
    return [_parse_managed(row) for row in rows]


def list_turns(db: Db) -> list[OpenTurn]:
    """Those that have not ended, the oldest first."""
    rows = db.rows(
        "SELECT session_id, folder, state, error, started_at FROM turns WHERE ended_at IS NULL"
        " ORDER BY started_at LIMIT ?",
        (MOST_WAITING,),
    )
    return [_parse_turn(row) for row in rows]


def list_queues(db: Db) -> list[QueuedMessages]:
    rows = db.rows(
        "SELECT COALESCE(session_id, ''), folder, COUNT(*), SUM(CASE WHEN state = 'held' THEN 1 ELSE 0 END),"
        " MIN(created_at), COALESCE(MIN(CASE WHEN state = 'held' THEN reason END), '')"
        f" FROM inbox WHERE {inbox.OPEN} AND state <> 'working'"
        " GROUP BY COALESCE(session_id, ''), folder LIMIT ?",
        (MOST_WAITING,),
    )
    return [_parse_queue(row) for row in rows]


def list_requests(db: Db) -> list[OpenRequests]:
    """Ids sort by age, so the least one is the oldest. The condition on `asked_at` is always true: with it the index on
    those that wait is used, however few they are among all."""
    rows = db.rows(
        "SELECT COALESCE(session_id, ''), folder, COUNT(*), MIN(id), MIN(asked_at) FROM requests"
        " WHERE state = 'pending' AND asked_at > 0 GROUP BY COALESCE(session_id, ''), folder LIMIT ?",
        (MOST_WAITING,),
    )
    return [_parse_open(row) for row in rows]


def list_money_requests(db: Db) -> frozenset[str]:
    """Return the ids of the requests for more money that wait."""
    rows = db.rows(
        "SELECT id FROM requests WHERE kind = 'budget' AND state = 'pending' AND asked_at > 0 LIMIT ?", (MOST_WAITING,)
    )
    return frozenset(str(request_id) for (request_id,) in rows)


# The newest failure of each group's own conversations, and that of each managed agent in error. Trials are apart:
# nobody waited for their answers, and what they try may be another model.
_NEWEST_FAILURES = (
    "SELECT (SELECT f.id FROM inbox f WHERE f.state = 'failed' AND f.folder = g.folder AND NOT EXISTS (SELECT 1 FROM"
    " sessions o WHERE o.id = f.session_id AND (o.agent = 1 OR SUBSTR(o.address, 1, CAST(? AS INTEGER)) = ?))"
    " ORDER BY f.id DESC LIMIT 1) FROM groups g"
    " UNION ALL SELECT (SELECT f.id FROM inbox f WHERE f.session_id = e.id AND f.state = 'failed'"
    " ORDER BY f.seq DESC LIMIT 1) FROM sessions e WHERE e.agent = 1 AND e.state = 'error' AND e.closed_at IS NULL"
)
# A turn of the same agent that went well later.
_ANSWERED_SINCE = (
    "SELECT 1 FROM sessions n JOIN turns t ON t.session_id = n.id WHERE n.folder = i.folder"
    " AND n.active_at > i.updated_at AND (n.id = i.session_id OR (n.agent = 0 AND COALESCE(s.agent, 0) = 0))"
    " AND SUBSTR(n.address, 1, CAST(? AS INTEGER)) <> ?"
    " AND t.started_at > i.created_at AND t.state = 'done' AND t.ended_at > i.updated_at"
)


def list_failures(db: Db, since: int) -> list[FailedMessage]:
    """The newest of each agent, if it failed after `since` and the agent answered nobody later."""
    trials = len(sessions.TRIAL_ROOMS), sessions.TRIAL_ROOMS
    rows = db.rows(
        "SELECT COALESCE(i.session_id, ''), i.folder, i.message_id, i.reason, i.updated_at,"
        " CASE WHEN i.mode <> 'task' AND m.kind = 'chat' AND s.closed_at IS NULL AND s.id IS NOT NULL THEN m.sender"
        " ELSE '' END FROM inbox i JOIN messages m ON m.id = i.message_id LEFT JOIN sessions s ON s.id = i.session_id"
        f" WHERE i.id IN ({_NEWEST_FAILURES}) AND i.updated_at > ? AND NOT EXISTS ({_ANSWERED_SINCE})",
        (*trials, since, *trials),
    )
    return [_parse_failed(row) for row in rows]


def list_errands(db: Db) -> list[OpenErrands]:
    rows = db.rows(
        "SELECT caller_folder, folder, COUNT(*), MIN(created_at) FROM errands WHERE ended_at IS NULL"
        " GROUP BY caller_folder, folder ORDER BY 4 LIMIT ?",
        (MOST_PAIRS,),
    )
    return [_parse_errands(row) for row in rows]


def list_unclear(db: Db, since: int) -> list[UnclearEffects]:
    """Effects that ended after `since` and did not surely go out."""
    rows = db.rows(
        "SELECT state, COUNT(*) FROM outbox WHERE state IN ('uncertain', 'failed') AND updated_at > ?"
        " GROUP BY state ORDER BY state",
        (since,),
    )
    return [_parse_unclear(row) for row in rows]


# Those that are shown.


def list_last_messages(db: Db, sessions: Sequence[str]) -> dict[str, LastMessage]:
    """Return the last message of each session, in or out. A message without words gives way to the last one of the
    other direction."""
    if not sessions:
        return {}
    places = db.rows(
        "SELECT s.id,"
        " (SELECT i.message_id FROM inbox i WHERE i.session_id = s.id ORDER BY i.seq DESC LIMIT 1),"
        " (SELECT o.message_id FROM outbox o WHERE o.session_id = s.id ORDER BY o.seq DESC LIMIT 1)"
        f" FROM sessions s WHERE s.id IN ({marks(sessions)})",
        tuple(sessions),
    )
    wanted = [each for row in places for each in row[1:] if each is not None]
    if not wanted:
        return {}
    rows = db.rows(
        f"SELECT id, direction, sender, sender_name, SUBSTR(text, 1, {LONGEST_TEXT}), at FROM messages"
        f" WHERE id IN ({marks(wanted)})",
        wanted,
    )
    found = {row[0]: _parse_message(row) for row in rows}
    last: dict[str, LastMessage] = {}
    for session_id, *both in places:
        said = [found[each] for each in both if each in found and found[each].text.strip()]
        if said:
            last[session_id] = max(said, key=lambda each: each.id)
    return last


def list_asked(db: Db, requests: Sequence[str]) -> dict[str, ShownRequest]:
    if not requests:
        return {}
    named = "CASE kind WHEN 'budget' THEN '' ELSE name END"  # of a budget it is a key, and the kind says enough
    rows = db.rows(
        f"SELECT id, kind, tool, {named}, SUBSTR(why, 1, {LONGEST_TEXT}), asked_at FROM requests"
        f" WHERE id IN ({marks(requests)})",
        tuple(requests),
    )
    return {row[0]: _parse_request(row) for row in rows}


def sum_costs(db: Db, sessions: Sequence[str], since: int) -> dict[str, int]:
    """By session: what it has spent."""
    if not sessions:
        return {}
    rows = db.rows(
        f"SELECT session_id, SUM(micro) FROM costs WHERE session_id IN ({marks(sessions)}) AND at >= ?"
        " GROUP BY session_id",
        (*sessions, since),
    )
    return {str(session_id): int(micro) for session_id, micro in rows}
