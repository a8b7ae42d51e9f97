"""Lives of the server behind a store: one ends when a standby takes its place, or when its files are set back.

What the server forgot then is known to nobody but platforms: a message that was sent is pending again. So what was open
is held, and a person decides. PostgreSQL alone has such lives.
"""

from msgspec import Struct

from gatepost.store import outbox
from gatepost.store.outbox import EffectState
from gatepost.store.port import Db
from gatepost.store.table import Table

FAILOVER = "failover: the database may have forgotten that it was sent"


class DatabaseLife(Struct, frozen=True):
    name: str  # the server's own id, its timeline, and, if it was set back, when it was started
    gateway: str  # that noticed it
    synchronous: int  # 1: its commits waited for a standby, when a gateway last looked
    held: int  # effects that were open when it began, and are held; -1: none were, because nothing was lost
    since: int


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


def begin_incarnation(db: Db, reason: str, now: int) -> int:
    """Hold what was open: nothing of it is sent again by itself. How many effects there were."""
    rows = db.rows("SELECT id FROM outbox WHERE state IN ('pending', 'sending') ORDER BY id")
    for (effect_id,) in rows:
        outbox.record_outcome(db, int(effect_id), EffectState.UNCERTAIN, reason, now)
    return len(rows)
