"""Origins: the people and rooms behind a message that an agent put in.

Such a message carries everybody on whose behalf its turn worked. So limits and denials of these people and rooms hold
along the whole chain, also through sessions of other groups. Obligations are inherited, privileges are not: nobody's
personal secret is used in a turn that they did not ask for themselves.
"""

from collections.abc import Iterable, Sequence
from itertools import chain

from msgspec import Struct

from gatepost.core.errors import Refused
from gatepost.store.engine.table import MOST_ROWS, value_marks
from gatepost.store.port import Db, Row, inline_read

MOST = 200  # origins of one message; more is refused, because dropping one would drop its denials
LATEST = 100  # turns of a session that are searched for one that somebody asked for: timers may have run for years


class Origin(Struct, frozen=True):
    """One person who asked, and where. The person is '' where nobody did (a webhook, a timer)."""

    person: str
    instance: str
    address: str
    thread: str = ""


class OriginChain(Struct, frozen=True):
    """Everything behind a turn: who pays first, then the others. `depth` counts the steps from agent to agent."""

    origins: tuple[Origin, ...] = ()
    depth: int = 0

    @property
    def people(self) -> frozenset[str]:
        return frozenset(each.person for each in self.origins if each.person)


_SELECT = (
    "SELECT m.kind, m.sender, m.instance, m.address, m.thread, o.person, o.instance, o.address, o.thread, o.depth"
    " FROM inbox i JOIN messages m ON m.id = i.message_id LEFT JOIN origins o ON o.message_id = m.id"
)


@inline_read
def get_for_turn(db: Db, turn_id: str) -> OriginChain:
    return _make_chain(db.rows(f"{_SELECT} WHERE i.turn_id = ? ORDER BY i.seq, o.ordinal", (turn_id,)))


def get_for_row(db: Db, row_id: int) -> OriginChain:
    """Return the origins of one waiting message."""
    return _make_chain(db.rows(f"{_SELECT} WHERE i.id = ? ORDER BY o.ordinal", (row_id,)))


@inline_read
def get_for_session(db: Db, session_id: str) -> OriginChain:
    """Return the origins of a session's acts between its turns: its room, and everything behind its last turn."""
    last = find_last_turn(db, session_id)
    found = get_for_turn(db, last) if last else OriginChain()
    room = db.row("SELECT instance, address, thread FROM sessions WHERE id = ? AND address <> ''", (session_id,))
    own = [Origin("", *room)] if room else []
    return OriginChain(_deduplicate([*found.origins, *own]), found.depth)


def find_last_turn(db: Db, session_id: str) -> str:
    """The last turn of a session that somebody asked for; '' if there is none among the latest."""
    row = db.row(
        "SELECT t.id FROM (SELECT id, started_at FROM turns WHERE session_id = ? ORDER BY started_at DESC LIMIT ?) t"
        " WHERE EXISTS (SELECT 1 FROM inbox i JOIN messages m"
        " ON m.id = i.message_id LEFT JOIN origins o ON o.message_id = m.id AND o.ordinal = 0"
        " WHERE i.turn_id = t.id AND (m.kind = 'chat' OR o.person <> '')) ORDER BY t.started_at DESC LIMIT 1",
        (session_id, LATEST),
    )
    return str(row[0]) if row else ""


def get_inherited(db: Db, message_id: int) -> OriginChain:
    """Everybody behind a message that an agent put in, without that agent."""
    rows = db.rows(
        "SELECT person, instance, address, thread, depth FROM origins WHERE message_id = ? ORDER BY ordinal",
        (message_id,),
    )
    return OriginChain(tuple(Origin(*row[:4]) for row in rows), max((row[4] for row in rows), default=0))


def _make_chain(rows: Sequence[Row]) -> OriginChain:
    """Build a chain from rows. The people behind a message come before its sender, who is an agent then."""
    inherited: list[Origin] = []
    depth = 0
    for kind, sender, instance, address, thread, person, *place, steps in rows:
        if person is not None:
            inherited.append(Origin(person, *place))
            depth = max(depth, steps)
        if kind == "chat" or person is None:
            inherited.append(Origin(sender if kind == "chat" else "", instance, address, thread))
    return OriginChain(_deduplicate(_payer_first(inherited)), depth)


def _payer_first(found: list[Origin]) -> list[Origin]:
    """People before agents, and both before nobody; each in the order of their messages."""
    return sorted(found, key=lambda each: 2 if not each.person else int(each.person.startswith("agent:")))


def _deduplicate(found: Iterable[Origin]) -> tuple[Origin, ...]:
    """A room where nobody asked is told only if nobody else asked there."""
    each = dict.fromkeys(found)
    asked = {(one.instance, one.address, one.thread) for one in each if one.person}
    return tuple(one for one in each if one.person or (one.instance, one.address, one.thread) not in asked)


def merge(newer: Iterable[Origin], older: Iterable[Origin]) -> tuple[Origin, ...]:
    """Everybody behind either; of the newer somebody pays, if it has anybody."""
    return _deduplicate(_payer_first([*newer, *older]))


def put(db: Db, message_id: int, origins: Sequence[Origin], depth: int) -> None:
    put_all(db, [(message_id, OriginChain(tuple(origins), depth))])


def put_all(db: Db, chains: Sequence[tuple[int, OriginChain]]) -> None:
    """Store the origins of several messages, each with everybody who is behind it."""
    rows = [
        (message_id, ordinal, each.person, each.instance, each.address, each.thread, behind.depth)
        for message_id, behind in chains
        for ordinal, each in enumerate(behind.origins)
    ]
    for at in range(0, len(rows), MOST_ROWS):
        some = rows[at : at + MOST_ROWS]
        db.run(
            "INSERT INTO origins (message_id, ordinal, person, instance, address, thread, depth)"
            f" VALUES {value_marks(some)}",
            tuple(chain.from_iterable(some)),
        )


def add_next_step(db: Db, message_id: int, chain: OriginChain) -> None:
    """The message is the next step of that chain."""
    put(db, message_id, chain.origins, chain.depth + 1)


def check_limits(chain: OriginChain, caller: str, action: str, most_depth: int) -> None:
    """Refused, if a further step would be too deep or behind too many."""
    if chain.depth >= most_depth:
        why = f"{chain.depth} steps from agent to agent lie behind this turn, and {most_depth} is the limit"
        raise Refused(caller, action, why=f"{why} (sessions.chain_depth); a person must ask")
    if len(chain.origins) > MOST:
        raise Refused(caller, action, why=f"more than {MOST} people and rooms are behind this turn")
