"""Work that a runner may claim: the next batch of a session, the next attempt of a turn that broke off, and what joins
a turn that runs. A batch has one payer."""

import json
from collections.abc import Mapping
from itertools import takewhile

from msgspec import Struct

from gatepost.core import ids
from gatepost.messages.inbound import MessageKind
from gatepost.store.engine.table import make_row_parser
from gatepost.store.messages import inbox, message_steps, messages, outbox
from gatepost.store.messages.inbox import InboxMode, InboxState
from gatepost.store.money import budgets
from gatepost.store.people import identities
from gatepost.store.port import Db, OutdatedDecision, Row
from gatepost.store.sessions import errands, provider_handover, sessions, sleeping_turns
from gatepost.store.sessions.sessions import SessionState
from gatepost.store.sessions.sleeping_turns import ASLEEP
from gatepost.store.sessions.turns import CONTINUATION, GATEWAY_STOPPED, TURNS, Turn, TurnState, find_open, get

MOST_LISTED, LONGEST_LISTED = 100, 2000  # things that a continued turn is told it did, and characters of each
MOST_EARLIER = 8  # turns that an agent is told of when it is given a message again
MOST_JOINING = 100  # messages that join a turn at once
MOST_DECIDED, LONGEST_DECIDED = 20, 500  # decisions that a continued turn is told, and characters of each
RESTARTED = ":restart"  # how the platform ids of continuation rows after one end
MOST_MESSAGES = 900  # of one turn, which a frame can name

_WAITING = (
    "SELECT i.id, i.folder, i.rights, m.instance, m.address, m.thread, m.topic, m.text, i.mode, m.kind, m.sender,"
    " o.person,"
    " EXISTS (SELECT 1 FROM budgets WHERE kind = 'user') OR EXISTS (SELECT 1 FROM secrets WHERE user_id IS NOT NULL),"
    " i.state, i.next_at, i.message_id, i.continues,"
    " CASE WHEN m.event = 'message' AND m.kind = 'chat' THEN COALESCE(m.platform_id, '') ELSE '' END,"
    " CASE WHEN i.state = 'retry' THEN COALESCE(i.turn_id, '') ELSE '' END, i.created_at"
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
    earlier: str  # the turn that had it before and did not come as far as the provider; '' for none
    created_at: int

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
    """Return the rows up to where the person changes, if either has a secret or a budget of their own. So nobody's
    message is sent with another's key or booked on them. Called only if anybody has one (`personal`)."""
    if all(row.account == first.account for row in rows):
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
    """Return None if nothing waits or a turn is open. It is one statement, asked with every turn. People and agents
    come before schedules."""
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
    """Return the rows up to the first that waits for its retry: order is kept."""
    ready: list[WaitingRow] = []
    for row in map(_parse_waiting, rows):
        if row.state is InboxState.RETRY and (row.next_at or 0) > now:
            break
        ready.append(row)
    return ready


def find_first(db: Db, turn_id: str) -> WaitingRow | None:
    """The message that says who pays for a turn; the gateway's own words say nothing."""
    rows = db.rows(
        f"{_WAITING} FROM inbox i JOIN messages m ON m.id = i.message_id"
        " LEFT JOIN origins o ON o.message_id = m.id AND o.ordinal = 0"
        " WHERE i.turn_id = ? ORDER BY CASE WHEN m.kind = 'chat' OR o.person <> '' THEN 0 ELSE 1 END, i.seq LIMIT 1",
        (turn_id,),
    )
    return _parse_waiting(rows[0]) if rows else None


class TurnClaim(Struct, frozen=True):
    """The work that a runner may claim."""

    turn: Turn
    rows: tuple[int, ...]  # inbox ids, oldest first
    continued: bool = False
    begun: bool = False  # the provider gets them with this claim
    conversation: str = ""  # that the provider goes on with
    returning: bool = False  # another provider spoke last
    more: bool = True  # False: nothing else was waiting that could be claimed now
    compacts: bool = False  # its conversation is to be made shorter by it
    read: tuple[str, ...] = ()  # messages of people that are claimed here first, by their ids on the platform
    waited: int | None = None  # microseconds of the first of them in the queue; None: it was claimed before


def claim(
    db: Db,
    session_id: str,
    provider: str,
    owner: str,
    now: int,
    lease: int,
    most: int,
    *,
    ready: bool = False,
    begun: frozenset[int] = frozenset(),
) -> TurnClaim | None:
    """Claim the next batch of a session: an interrupted turn first, else the oldest waiting rows of one (room, thread)
    and one rights class. If it matters whose they are, they are of one person. A row that waits for its retry holds
    back the later ones, so that order is kept.

    `ready` means that the provider gets the batch with this claim, unless a command may be among it. A command needs a
    query of its own, so that batch is given piece by piece. `begun` are rows that the runner before announced and
    perhaps did not hand over to its provider. Those that count as given in the interrupted turn are shown again.
    """
    claimed = claim_waiting(db, session_id, provider, owner, now, lease, most, ready=ready)
    unfinished = find_open(db, session_id) if claimed is None else None
    return claimed if unfinished is None else _claim_interrupted(db, unfinished, provider, owner, now, lease, begun)


def claim_waiting(
    db: Db, session_id: str, provider: str, owner: str, now: int, lease: int, most: int, *, ready: bool
) -> TurnClaim | None:
    """The same for a session that has no open turn; None for one that has."""
    found = find_claimable(db, session_id, provider, now, min(most, MOST_MESSAGES))
    if found is None or not found.rows:
        return None
    waiting = found.rows
    first = waiting[0]
    batch = waiting
    if len(waiting) > 1:
        batch = list(takewhile(lambda row: row.place == first.place and not row.alone, waiting)) or [first]
    if first.personal:
        batch = limit_to_one_payer(db, first, batch)
    more = found.tasks or len(batch) < len(waiting) or len(waiting) >= min(most, MOST_MESSAGES)
    at_once = ready and not any(row.text.lstrip().startswith("/") for row in batch)
    until = now + lease
    turn = TURNS.put(
        db,
        id=ids.new("t"),
        session_id=session_id,
        folder=first.folder,
        provider=provider,
        instance=first.instance,
        address=first.address,
        thread=first.thread,
        topic=first.topic,
        rights=first.rights,
        state=TurnState.BEGUN if at_once else TurnState.CLAIMED,
        next_at=until,
        owner=owner,
        lease_until=until,
        started_at=now,
        begun_at=now if at_once else None,
    )
    if any(row.earlier for row in batch):
        _carry_spending(db, batch, turn.id)
    rows = [(row.id, row.message_id) for row in batch]
    if any(row.continues for row in batch):
        rows += _add_earlier(db, turn, batch, now)
    if found.away and (note := provider_handover.enqueue_missed(db, turn, now)) is not None:
        rows.append(note)
    _claim_rows(db, turn.id, rows, owner, now, lease, given=at_once)
    sessions.set_state(db, session_id, SessionState.RUNNING, now)
    return TurnClaim(
        turn,
        tuple(row_id for row_id, _ in rows),
        begun=at_once,
        more=more,
        conversation=found.conversation,
        returning=found.away,
        compacts=first.mode is InboxMode.COMPACT,
        read=tuple(row.readable for row in batch if row.readable),
        waited=now - first.created_at if first.state is InboxState.QUEUED else None,
    )


def _claim_interrupted(
    db: Db, turn: Turn, provider: str, owner: str, now: int, lease: int, begun: frozenset[int]
) -> TurnClaim | None:
    """Claim the next attempt of an interrupted turn. It gets a system row that lists what was already said and done,
    and the rows that its conversation may not hold (`begun`). The whole prompt is given only if the provider never
    named a conversation that could hold it.

    The runner's word on `begun` is believed for rows of this turn alone. Rows that are not given here were given back
    when the turn broke, and are claimed like any other message.
    """
    if turn.state != TurnState.INTERRUPTED or turn.next_at > now:
        return None
    changed = db.run(
        "UPDATE turns SET state = 'claimed', attempt = attempt + 1, epoch = epoch + 1, owner = ?, lease_until = ?,"
        " next_at = ? WHERE id = ? AND epoch = ? AND ended_at IS NULL",
        (owner, now + lease, now + lease, turn.id, turn.epoch),
    )
    if not changed:
        raise OutdatedDecision("the turn was changed meanwhile")
    note = _add_continuation(db, turn, turn, now, _get_cause(turn))
    assert note is not None
    db.execute_later("UPDATE inbox SET state = 'working', turn_id = ? WHERE id = ?", (turn.id, note[0]))
    entries = [entry for entry, _ in inbox.list_for_turn(db, turn.id)]
    batch = [
        (entry.id, entry.message_id)
        for entry in entries
        if entry.state == InboxState.WORKING and (not entry.given or not turn.conversation or entry.id in begun)
    ]
    _claim_rows(db, turn.id, batch, owner, now, lease)
    sessions.set_state(db, turn.session_id, SessionState.RUNNING, now)
    claimed = get(db, turn.id)
    assert claimed is not None
    conversation = turn.conversation or sessions.get_conversation(db, turn.session_id, provider)
    compacts = any(entry.mode is InboxMode.COMPACT for entry in entries)
    rows = tuple(row_id for row_id, _ in batch)
    return TurnClaim(claimed, rows, continued=True, conversation=conversation, returning=True, compacts=compacts)


def _add_earlier(db: Db, turn: Turn, batch: list[WaitingRow], now: int) -> list[tuple[int, int]]:
    """Tell the agent what it had said to messages that it is given again after a restore, so that it says only the
    rest. In the claim that gives them: whatever parts messages, none is without its note. (row, message) of each."""
    earlier = dict.fromkeys(each for row in batch if row.continues for each in row.continues.split()[-MOST_EARLIER:])
    found = [each for turn_id in earlier if (each := get(db, turn_id)) is not None and outbox.count_done(db, each.id)]
    return [row for each in found if (row := _add_continuation(db, each, turn, now, "again")) is not None]


def _get_cause(turn: Turn) -> str:
    return {GATEWAY_STOPPED: "restart", ASLEEP: "decision"}.get(turn.error, "break")


def _add_continuation(db: Db, turn: Turn, into: Turn, now: int, cause: str) -> tuple[int, int] | None:
    """Queue a message that tells the agent of its doings in a turn, `into` the one that it works on now. Listed now and
    not when the turn broke: until here the old attempt's unacknowledged results were still taken. The last of it,
    shortened: everybody's writes wait for this one. (row, message); None if that turn was told before."""
    content = {
        "event": "continued",
        "cause": cause,
        "reason": turn.error,
        "decided": [
            {
                "tool": each.tool,
                "asked": json.dumps(each.input, ensure_ascii=False)[:LONGEST_DECIDED],
                "state": each.state,
                "words": each.reason[:LONGEST_DECIDED],
                "given": json.dumps(each.answer, ensure_ascii=False)[:LONGEST_LISTED] if each.answer else "",
            }
            for each in sleeping_turns.list_decided_in_turn(db, turn.session_id, turn.id, MOST_DECIDED)
        ],
        "total": outbox.count_done(db, turn.id),
        "done": [
            {
                "op": each.op,
                "text": each.text if len(each.text) <= LONGEST_LISTED else each.text[:LONGEST_LISTED] + "…",
                "seq": each.seq,
                "inReplyTo": each.answers,
                "state": each.state,
            }
            for each in outbox.list_done_in_turn(db, turn.id, MOST_LISTED, LONGEST_LISTED)
        ],
    }
    rest = f":{into.id}" if into.id != turn.id else RESTARTED if turn.error == GATEWAY_STOPPED else ""
    message_id = messages.add_system(db, into, f"{CONTINUATION}{turn.id}:{turn.epoch}{rest}", content, now)
    if message_id is None:
        return None
    return inbox.enqueue(db, message_id, into.session_id, into.folder, into.rights, now), message_id


def claim_more(db: Db, turn_id: str, epoch: int, now: int, lease: int, most: int) -> TurnClaim | None:
    """Follow-ups that arrived meanwhile and may join the running turn: same room, thread and rights class, and of the
    same person where it matters whose they are."""
    turn = get(db, turn_id)
    if turn is None or turn.epoch != epoch or turn.state not in (TurnState.CLAIMED, TurnState.BEGUN):
        return None
    if turn.attempt > 1:  # it has used up its continuation: who came later would have none
        return None
    own = (turn.rights, turn.instance, turn.address, turn.thread)
    waiting = list_joining(db, turn.session_id, now, min(most, MOST_JOINING), turn_id)
    joining = list(takewhile(lambda row: row.place == own and not row.alone, waiting))
    if joining and joining[0].personal:
        first = find_first(db, turn_id)
        joining = limit_to_one_payer(db, first, joining) if first is not None else []
    if not joining:
        return None
    _carry_spending(db, joining, turn_id)
    batch = [(row.id, row.message_id) for row in joining] + _add_earlier(db, turn, joining, now)
    _claim_rows(db, turn_id, batch, turn.owner, now, lease)
    return TurnClaim(
        turn,
        tuple(row_id for row_id, _ in batch),
        conversation=turn.conversation or sessions.get_conversation(db, turn.session_id, turn.provider),
        read=tuple(row.readable for row in joining if row.readable),
    )


def _carry_spending(db: Db, batch: list[WaitingRow], turn_id: str) -> None:
    """A further try at a message has the same limit as the one before, and not one of its own."""
    for earlier in dict.fromkeys(row.earlier for row in batch if row.earlier):
        budgets.carry_turn(db, earlier, turn_id)
        errands.move_to_turn(db, earlier, turn_id)


def _claim_rows(
    db: Db, turn_id: str, rows: list[tuple[int, int]], owner: str, now: int, lease: int, *, given: bool = False
) -> None:
    """`rows`: their ids, and their messages'."""
    for row_id, message_id in rows:
        claimed = db.run(
            "UPDATE inbox SET state = 'working', turn_id = ?, given = CASE WHEN ? = 1 THEN 1 ELSE given END, owner = ?,"
            f" lease_until = ?, next_at = ?, epoch = epoch + 1, updated_at = ? WHERE id = ? AND {inbox.OPEN}",
            (turn_id, int(given), owner, now + lease, now + lease, now, row_id),
        )
        if not claimed:  # somebody has withdrawn it: it must not be answered
            raise OutdatedDecision("the message was changed meanwhile")
        message_steps.add(db, message_id, row_id, now, "given" if given else "working", turn_id)
