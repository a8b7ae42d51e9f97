"""Waiting rows: what the next turn of a session may claim, and who pays for it."""

from collections.abc import Mapping
from itertools import takewhile

from msgspec import Struct

from gatepost.messages.inbound import MessageKind
from gatepost.store import identities, inbox, provider_handover
from gatepost.store.inbox import InboxMode, InboxState
from gatepost.store.port import Db, Row
from gatepost.store.table import make_row_parser

MOST_MESSAGES = 900  # of one turn, which a frame can name

_WAITING = (
    "SELECT i.id, i.folder, i.rights, m.instance, m.address, m.thread, m.topic, m.text, i.mode, m.kind, m.sender,"
    " o.person,"
    " EXISTS (SELECT 1 FROM budgets WHERE kind = 'user') OR EXISTS (SELECT 1 FROM secrets WHERE user_id IS NOT NULL),"
    " i.state, i.next_at, i.message_id, i.continues,"
    " CASE WHEN m.event = 'message' AND m.kind = 'chat' THEN COALESCE(m.platform_id, '') ELSE '' END"
)


class WaitingRow(Struct, frozen=True):
    id: int
    folder: str
    rights: str
    instance: str
    address: str
    thread: str
    topic: str
    text: str
    mode: InboxMode
    kind: MessageKind
    sender: str
    behalf: str | None  # who pays for a message that an agent put in
    personal: int  # whether anybody at all has a secret or a budget of their own
    state: InboxState
    next_at: int | None
    message_id: int
    continues: str  # the turns that worked on it before a restore
    readable: str  # the platform's id of a person's message; '' for edits, reactions and the gateway's own words

    @property
    def alone(self) -> bool:
        """A turn of its own, after whatever runs."""
        return self.mode in (InboxMode.NEXT, InboxMode.COMPACT, InboxMode.TASK)

    @property
    def place(self) -> tuple[str, str, str, str]:
        return self.rights, self.instance, self.address, self.thread

    @property
    def account(self) -> tuple[str, str]:
        """Return who wrote it, and who pays for it if that is somebody else; '' for what no person wrote."""
        return self.sender if self.kind == MessageKind.CHAT else "", self.behalf or ""


_parse_waiting = make_row_parser(WaitingRow)


def limit_to_one_payer(db: Db, first: WaitingRow, rows: list[WaitingRow]) -> list[WaitingRow]:
    """Up to where the person changes, if either has a secret or a budget of their own: nobody's message is sent with
    another's key or booked on them."""
    if not first.personal or all(row.account == first.account for row in rows):
        return rows
    accounts = {row.account for row in (first, *rows)}
    names = {each: identities.list_names(db, each) for account in accounts for each in account if each}
    people = {account: tuple(names[each][0] if each else "" for each in account) for account in accounts}
    own, payer = _find_personal(db, names), people[first.account]
    return list(
        takewhile(lambda row: people[row.account] == payer or own.isdisjoint(payer + people[row.account]), rows)
    )


def _find_personal(db: Db, names: Mapping[str, tuple[str, ...]]) -> set[str]:
    """Those of these people who have a secret or a budget of their own, by any of their identities."""
    everything = tuple({each for names_of_one in names.values() for each in names_of_one})
    marks = ", ".join("?" * len(everything))
    rows = db.rows(
        f"SELECT user_id FROM secrets WHERE user_id IN ({marks})"
        f" UNION SELECT name FROM budgets WHERE kind = 'user' AND name IN ({marks})",
        (*everything, *everything),
    )
    found = {str(row[0]) for row in rows}
    return {each[0] for each in names.values() if not found.isdisjoint(each)}


class Claimable(Struct, frozen=True):
    """Work that a session without an open turn may claim, and what its provider needs to know."""

    rows: list[WaitingRow]
    away: bool  # another provider spoke last
    conversation: str  # of this provider, '' if it has none
    tasks: bool  # firings wait, those of `rows` among them


_OPEN_ROWS = (
    " FROM inbox i JOIN messages m ON m.id = i.message_id LEFT JOIN origins o ON o.message_id = m.id AND o.ordinal = 0"
    f" WHERE i.session_id = ? AND {inbox.OPEN_I} AND i.state IN ('queued', 'retry')"
)


_CLAIMABLE = (
    f"{_WAITING}, EXISTS ({provider_handover.AWAY}),"
    " (SELECT conversation FROM conversations WHERE session_id = ? AND provider = ?),"
    f" EXISTS (SELECT 1 FROM inbox t WHERE t.session_id = i.session_id AND t.mode = 'task' AND {inbox.OPEN_T})"
    f"{_OPEN_ROWS} AND i.mode {{which}} AND NOT EXISTS (SELECT 1 FROM turns WHERE session_id = ? AND ended_at IS NULL)"
    " ORDER BY i.seq LIMIT ?"
)
_CLAIMABLE_BUT_TASKS, _CLAIMABLE_TASKS = _CLAIMABLE.format(which="<> 'task'"), _CLAIMABLE.format(which="= 'task'")


def find_claimable(db: Db, session_id: str, provider: str, now: int, most: int) -> Claimable | None:
    """Return the rows that a turn can claim; None if nothing waits or a turn is open. It is one statement, because it
    runs with every turn. Messages of people and agents come before those of a schedule."""
    given = (provider, session_id, provider, session_id, provider, session_id, session_id)
    rows = db.rows(_CLAIMABLE_BUT_TASKS, (*given, most))
    rows = rows or db.rows(_CLAIMABLE_TASKS, (*given, 1))
    if not rows:
        return None
    away, conversation, tasks = rows[0][-3:]
    return Claimable(_parse_ready([row[:-3] for row in rows], now), bool(away), conversation or "", bool(tasks))


def list_joining(db: Db, session_id: str, now: int, most: int, turn_id: str) -> list[WaitingRow]:
    """Return what may join an open turn; one that has too many messages is joined by none."""
    rows = db.rows(
        f"{_WAITING}{_OPEN_ROWS} AND i.mode <> 'task'"
        " AND (SELECT COUNT(*) FROM inbox own WHERE own.turn_id = ?) <= ? ORDER BY i.seq LIMIT ?",
        (session_id, turn_id, MOST_MESSAGES - most, most),
    )
    return _parse_ready(rows, now)


def _parse_ready(rows: list[Row], now: int) -> list[WaitingRow]:
    """Up to the first that waits for its retry: order is kept."""
    parsed = (_parse_waiting(row) for row in rows)
    return list(takewhile(lambda row: row.state is not InboxState.RETRY or (row.next_at or 0) <= now, parsed))


def find_first(db: Db, turn_id: str) -> WaitingRow | None:
    """The message that says who pays for a turn; the gateway's own words say nothing."""
    rows = db.rows(
        f"{_WAITING} FROM inbox i JOIN messages m ON m.id = i.message_id"
        " LEFT JOIN origins o ON o.message_id = m.id AND o.ordinal = 0"
        " WHERE i.turn_id = ? ORDER BY CASE WHEN m.kind = 'chat' OR o.person <> '' THEN 0 ELSE 1 END, i.seq LIMIT 1",
        (turn_id,),
    )
    return _parse_waiting(rows[0]) if rows else None
