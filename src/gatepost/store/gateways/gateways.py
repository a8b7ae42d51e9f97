"""Gateways that share one store. Each has a lease, which it renews; one whose lease is over is dead to the others.

`epoch` fences: every transaction of a gateway shares a lock and then reads its own epoch, and whoever takes over from
it has that lock alone. So what it still writes afterwards is refused. `now` is the time of the database, in all of
this: nobody else's clock says who lives.
"""

from collections.abc import Sequence
from enum import StrEnum

import msgspec
from msgspec import Struct

from gatepost.core.errors import SetupError
from gatepost.store.engine.place import GATEWAY_MARK
from gatepost.store.engine.table import Table
from gatepost.store.gateways import shared_folders
from gatepost.store.port import Db


class GatewayState(StrEnum):
    RUNNING = "running"
    DRAINING = "draining"  # it ends, and takes nothing new
    GONE = "gone"  # it has left, or somebody has taken over from it


class GatewayIdentity(Struct, frozen=True, kw_only=True):
    """A gateway's words about itself when it starts."""

    name: str
    home: str
    host: str
    version: str
    schema_number: int
    listen: str = ""
    capacity: int = 0
    config_digest: str = ""
    plugin_digest: str = ""
    key_ids: str = ""
    connections: int = 0


class GatewayRow(Struct, frozen=True):
    name: str
    epoch: int
    state: GatewayState
    until: int
    home: str
    host: str
    version: str
    schema_number: int
    listen: str
    capacity: int
    config_digest: str
    plugin_digest: str
    key_ids: str
    connections: int  # to the database, at most
    started_at: int


class DutyPause(Struct, frozen=True):
    """A gateway gave a duty up at a moment, and does not take it again before another."""

    at: int
    until: int
    count: int  # how often in a row


class DutyRow(Struct, frozen=True):
    name: str
    gateway: str  # '': nobody
    since: int
    health: str  # JSON, by the gateway that has it; '': there is none to tell
    paused: str  # JSON: `DutyPause` by gateway

    @property
    def pauses(self) -> dict[str, DutyPause]:
        return _decode_pauses(self.paused) if self.paused else {}


class LeaseRenewal(Struct, frozen=True):
    """News for a gateway that renews its lease: the state that it is to be in, and the schema of the store."""

    state: GatewayState
    schema_number: int


GATEWAYS = Table("gateways", GatewayRow)
DUTIES = Table("duties", DutyRow)
encode_duty = msgspec.json.Encoder().encode
_decode_pauses = msgspec.json.Decoder(dict[str, DutyPause]).decode


def register(db: Db, new: GatewayIdentity, lease: int, least_epoch: int, now: int) -> int:
    """Begin a life of this gateway; its epoch, which is at least `least_epoch`. The same home means that the last one
    is dead, whatever its lease says: the home's lock is ours."""
    known = GATEWAYS.get(db, "WHERE name = ?", new.name)
    if known is not None and known.home != new.home and known.state != GatewayState.GONE and known.until > now:
        raise SetupError(
            f"a gateway named {new.name!r} lives on {known.host}; give this one another name (gateway.name),"
            " or stop that one first"
        )
    for other in list_earlier(db, new.home, new.name):
        if other.state != GatewayState.GONE and other.until > now:
            raise SetupError(
                f"the gateway {other.name!r} on {other.host} lives and has the same home as this one, so one of the two"
                f" homes is a copy; remove the file {GATEWAY_MARK} from the copy, or stop that gateway first"
            )
    epoch = max(known.epoch + 1 if known is not None else 1, least_epoch)
    GATEWAYS.insert(
        db,
        "ON CONFLICT (name) DO UPDATE SET epoch = excluded.epoch, state = excluded.state, until = excluded.until,"
        " home = excluded.home, host = excluded.host, version = excluded.version,"
        " schema_number = excluded.schema_number, listen = excluded.listen, capacity = excluded.capacity,"
        " config_digest = excluded.config_digest, plugin_digest = excluded.plugin_digest,"
        " key_ids = excluded.key_ids, connections = excluded.connections, started_at = excluded.started_at",
        new,
        epoch=epoch,
        state=GatewayState.RUNNING,
        until=now + lease,
        started_at=now,
    )
    return epoch


def renew(db: Db, name: str, epoch: int, until: int) -> LeaseRenewal | None:
    """None: this life of it is over."""
    rows = db.rows(
        "UPDATE gateways SET until = ? WHERE name = ? AND epoch = ?"
        " RETURNING state, (SELECT MAX(number) FROM schema_version)",
        (until, name, epoch),
    )
    return LeaseRenewal(GatewayState(rows[0][0]), int(rows[0][1])) if rows else None


def list_earlier(db: Db, home: str, name: str) -> list[GatewayRow]:
    """Return the other names that a gateway had on this home: a new container has another host name."""
    return GATEWAYS.list(db, "WHERE home = ? AND name <> ? ORDER BY name", home, name)


def set_keys(db: Db, home: str, key_ids: str) -> None:
    """Its key ring was changed while it runs: who joins must have these keys now."""
    db.run("UPDATE gateways SET key_ids = ? WHERE home = ?", (key_ids, home))


def set_state(db: Db, name: str, epoch: int, state: GatewayState) -> bool:
    return db.run("UPDATE gateways SET state = ? WHERE name = ? AND epoch = ?", (state, name, epoch)) == 1


def end_life(db: Db, name: str, epoch: int) -> bool:
    """Nothing that this life of it still writes is believed. False: somebody else was first. When its lease ended stays
    written down: it is gone since then."""
    return (
        db.run(
            "UPDATE gateways SET epoch = epoch + 1, state = ? WHERE name = ? AND epoch = ?",
            (GatewayState.GONE, name, epoch),
        )
        == 1
    )


def get(db: Db, name: str) -> GatewayRow | None:
    return GATEWAYS.get(db, "WHERE name = ?", name)


def get_store_id(db: Db) -> str:
    """Tells this store from others: when it was made."""
    row = db.row("SELECT MIN(applied_at) FROM schema_version")
    return str(row[0]) if row else ""


def count_sessions(db: Db) -> dict[str, int]:
    """By gateway: sessions that it runs."""
    rows = db.rows("SELECT owner, COUNT(*) FROM sessions WHERE owner <> '' GROUP BY owner")
    return {row[0]: row[1] for row in rows}


def list_sessions(db: Db, gateway: str, limit: int) -> list[str]:
    rows = db.rows("SELECT id FROM sessions WHERE owner = ? ORDER BY id LIMIT ?", (gateway, limit))
    return [row[0] for row in rows]


def list_all(db: Db) -> list[GatewayRow]:
    return GATEWAYS.list(db, "ORDER BY name")


def count(db: Db) -> int:
    """How many there are, those that are gone for a while included."""
    row = db.row("SELECT COUNT(*) FROM gateways")
    return int(row[0]) if row else 0


def list_living(db: Db, now: int) -> list[GatewayRow]:
    return GATEWAYS.list(db, "WHERE state <> 'gone' AND until >= ? ORDER BY name", now)


def list_present(db: Db) -> list[GatewayRow]:
    """Those that have not left and whom nobody has taken over from, whatever their leases say."""
    return GATEWAYS.list(db, "WHERE state <> 'gone' ORDER BY name")


def shorten_leases(db: Db, latest: int) -> int:
    """None lasts longer than so: what goes beyond was written before somebody set the database's clock back."""
    return db.run("UPDATE gateways SET until = ? WHERE until > ?", (latest, latest))


def hold_gone(db: Db, name: str) -> bool:
    """Return True if it is gone, or was forgotten. One that is gone does not begin anew before this transaction
    ends."""
    held = db.run("UPDATE gateways SET until = until WHERE name = ? AND state = 'gone'", (name,))
    return held == 1 or get(db, name) is None


def remove(db: Db, name: str) -> bool:
    """Forget one that is gone."""
    removed = db.run("DELETE FROM gateways WHERE name = ? AND state = 'gone'", (name,)) == 1
    if removed:
        shared_folders.remove_kind(db, name)
    return removed


# What a gateway holds.


def claim_session(db: Db, session_id: str, gateway: str) -> bool:
    """From waking to sleeping a session is run by one gateway. False: it is another's."""
    changed = db.run(
        "UPDATE sessions SET owner = ?, epoch = epoch + 1 WHERE id = ? AND owner IN ('', ?)",
        (gateway, session_id, gateway),
    )
    return changed == 1


def release_session(db: Db, session_id: str, gateway: str) -> None:
    db.run("UPDATE sessions SET owner = '' WHERE id = ? AND owner = ?", (session_id, gateway))


def release_sessions(db: Db, gateway: str) -> list[str]:
    rows = db.rows("UPDATE sessions SET owner = '', epoch = epoch + 1 WHERE owner = ? RETURNING id", (gateway,))
    return sorted(row[0] for row in rows)


def claim_duties(db: Db, names: Sequence[str], gateway: str, now: int) -> set[str]:
    """Return what one gateway at a time does: those of these that are nobody's become this one's. All that it has
    then."""
    for name in names:
        DUTIES.insert(
            db,
            "ON CONFLICT (name) DO UPDATE SET gateway = excluded.gateway, since = excluded.since"
            " WHERE duties.gateway = ''",
            name=name,
            gateway=gateway,
            since=now,
        )
    return {row[0] for row in db.rows("SELECT name FROM duties WHERE gateway = ?", (gateway,))}


def release_duties(db: Db, gateway: str, now: int) -> None:
    db.run("UPDATE duties SET gateway = '', since = ? WHERE gateway = ?", (now, gateway))


def release_duty(db: Db, name: str, gateway: str, paused: str, now: int) -> bool:
    """Give one up. `paused`: who does not take it for a while, as JSON."""
    return (
        db.run(
            "UPDATE duties SET gateway = '', since = ?, paused = ? WHERE name = ? AND gateway = ?",
            (now, paused, name, gateway),
        )
        == 1
    )


def set_duty_health(db: Db, name: str, gateway: str, health: str, paused: str) -> None:
    """As JSON, by the gateway that has it."""
    db.run("UPDATE duties SET health = ?, paused = ? WHERE name = ? AND gateway = ?", (health, paused, name, gateway))


def list_duty_rows(db: Db) -> list[DutyRow]:
    return DUTIES.list(db, "ORDER BY name")


def list_duties(db: Db) -> dict[str, str]:
    """By name, who has it."""
    return {row[0]: row[1] for row in db.rows("SELECT name, gateway FROM duties ORDER BY name")}
