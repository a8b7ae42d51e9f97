"""Lives of the server behind a store: one ends when a standby takes its place, or when its files are set back.

Only platforms know what the server forgot then: a message that was sent is pending again. So what was open is held, and
a person decides. PostgreSQL alone has such lives.
"""

from msgspec import Struct

from gatepost.store.engine.table import Table
from gatepost.store.messages import inbox, outbox
from gatepost.store.messages.outbox import EffectState
from gatepost.store.port import Db

FAILOVER = "failover: the database may have forgotten that it was sent"


class DatabaseLife(Struct, frozen=True):
    name: str  # the server's own id, its timeline, and, if it was set back, when it was started
    gateway: str  # that noticed it
    synchronous: int  # 1: its commits waited for a standby, when a gateway last looked
    held: int  # effects and messages that were open when it began, and are held; -1: none, because nothing was lost
    since: int
    request_id: str = ""  # by which somebody decides about what is held; '': nobody was asked yet


LIVES = Table("database_lives", DatabaseLife)


def find(db: Db, name: str) -> DatabaseLife | None:
    return LIVES.get(db, "WHERE name = ?", name)


def find_before(db: Db, system: str) -> DatabaseLife | None:
    """The last life of the same server, or of the one whose place it took."""
    found = LIVES.list(db, "ORDER BY since DESC, name DESC")
    return next((each for each in found if each.name.startswith(f"{system}/")), None)


def list_all(db: Db) -> list[DatabaseLife]:
    return LIVES.list(db, "ORDER BY since, name")


def add(db: Db, life: DatabaseLife) -> bool:
    """False: another gateway was first."""
    once = "ON CONFLICT (name) DO NOTHING RETURNING name"
    return LIVES.insert(db, once, life) is not None


def set_held(db: Db, name: str, held: int) -> None:
    db.run("UPDATE database_lives SET held = ? WHERE name = ?", (held, name))


def set_synchronous(db: Db, name: str, synchronous: int) -> None:
    db.run("UPDATE database_lives SET synchronous = ? WHERE name = ?", (synchronous, name))


def hold_effects(db: Db, now: int) -> int:
    """Hold what was open: nothing of it is sent again by itself. Return how many effects there were."""
    rows = db.rows("SELECT id FROM outbox WHERE state IN ('pending', 'sending') ORDER BY id")
    for (effect_id,) in rows:
        outbox.record_outcome(db, int(effect_id), EffectState.UNCERTAIN, FAILOVER, now)
    return len(rows)


def find_unasked(db: Db) -> DatabaseLife | None:
    """Return a life that began with something held about which nobody was asked yet."""
    return LIVES.get(db, "WHERE held > 0 AND request_id = '' ORDER BY since, name LIMIT 1")


def list_held(db: Db) -> list[int]:
    """Return the effects that are held since a failover, and that no request is about."""
    rows = db.rows(
        "SELECT id FROM outbox WHERE state = 'uncertain' AND reason = ? AND NOT EXISTS (SELECT 1 FROM restored_rows"
        " WHERE kind = 'effect' AND row_id = CAST(outbox.id AS TEXT)) ORDER BY id",
        (FAILOVER,),
    )
    return [int(row[0]) for row in rows]


def list_waiting(db: Db) -> list[tuple[int, int]]:
    """Return (row, message) of what agents were to answer, held since a failover, that no request is about."""
    rows = db.rows(
        f"SELECT id, message_id FROM inbox WHERE {inbox.OPEN} AND state = 'held' AND reason = ? ORDER BY id",
        (FAILOVER,),
    )
    return [(int(row[0]), int(row[1])) for row in rows]


def set_request(db: Db, name: str, request_id: str) -> None:
    db.run("UPDATE database_lives SET request_id = ? WHERE name = ?", (request_id, name))
