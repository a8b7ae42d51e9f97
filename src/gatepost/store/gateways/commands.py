"""Commands from gateway to gateway: what one wants done about a session that another runs. A row is done once, by the
gateway that it names, and holds the answer until whoever asked has read it.

A gateway that dies does none: whoever takes over from it gives its commands back as lost, and who asked looks anew who
runs the session. So none is done later than a lease after it was asked for.
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from gatepost.core import ids
from gatepost.store.engine.table import Table
from gatepost.store.gateways.gateways import GatewayState
from gatepost.store.port import Db


class CommandKind(StrEnum):
    STOP = "stop"  # a person ends the running turn, and what waits behind it
    END = "end"  # nothing of the session runs any more; what it was given waits
    RENEW = "renew"  # it starts anew, after its turn
    OBEY = "obey"  # of no session: do as the switches say
    OPERATE = "operate"  # of no session: run an operation on a folder that is there
    FORGET = "forget"  # of no session: erase what files there are of a person


class CommandState(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    LOST = "lost"  # the gateway is gone, or does not run the session any more


class Command(Struct, frozen=True):
    id: str
    gateway: str
    asker: str
    kind: CommandKind
    session_id: str
    arguments: dict[str, Any]
    state: CommandState
    answer: dict[str, Any]
    created_at: int
    done_at: int | None


COMMANDS = Table("commands", Command)
OLDEST_FIRST = "ORDER BY created_at, id"


def find_owner(db: Db, session_id: str) -> str:
    """The gateway that runs a session; '' if none does."""
    row = db.row("SELECT owner FROM sessions WHERE id = ?", (session_id,))
    return str(row[0]) if row else ""


def add_for_session(
    db: Db, kind: CommandKind, session_id: str, arguments: Mapping[str, Any], asker: str, now: int
) -> Command | None:
    """None: no other gateway runs it."""
    owner = find_owner(db, session_id)
    return _add(db, owner, kind, session_id, arguments, asker, now) if owner not in ("", asker) else None


def add_for_others(db: Db, kind: CommandKind, asker: str, now: int) -> list[Command]:
    """For every other gateway that lives."""
    rows = db.rows("SELECT name FROM gateways WHERE name <> ? AND state <> ? ORDER BY name", (asker, GatewayState.GONE))
    return [_add(db, row[0], kind, "", {}, asker, now) for row in rows]


def add_for_gateway(
    db: Db, kind: CommandKind, gateway: str, arguments: Mapping[str, Any], asker: str, now: int
) -> Command | None:
    """None: it does not live."""
    row = db.row(
        "SELECT 1 FROM gateways WHERE name = ? AND state <> ? AND until >= ?", (gateway, GatewayState.GONE, now)
    )
    return None if row is None else _add(db, gateway, kind, "", arguments, asker, now)


def _add(
    db: Db, gateway: str, kind: CommandKind, session_id: str, arguments: Mapping[str, Any], asker: str, now: int
) -> Command:
    return COMMANDS.put(
        db,
        id=ids.new("cmd"),
        gateway=gateway,
        asker=asker,
        kind=kind,
        session_id=session_id,
        arguments=json.dumps(arguments, ensure_ascii=False),
        state=CommandState.WAITING,
        answer="{}",
        created_at=now,
    )


def has_waiting(db: Db, gateway: str) -> bool:
    return db.row("SELECT 1 FROM commands WHERE gateway = ? AND state = 'waiting' LIMIT 1", (gateway,)) is not None


def claim_waiting(db: Db, gateway: str, most: int) -> list[Command]:
    """Those that this gateway is to do, in the order in which they were asked for."""
    found = COMMANDS.list(db, f"WHERE gateway = ? AND state = 'waiting' {OLDEST_FIRST} LIMIT ?", gateway, most)
    return [each for each in found if _claim(db, each.id)]


def _claim(db: Db, command_id: str) -> bool:
    return db.run("UPDATE commands SET state = 'running' WHERE id = ? AND state = 'waiting'", (command_id,)) == 1


def set_answer(db: Db, command_id: str, answer: Mapping[str, Any] | None, now: int) -> None:
    """None: the session is not run there any more."""
    state = CommandState.LOST if answer is None else CommandState.DONE
    db.run(
        "UPDATE commands SET state = ?, answer = ?, done_at = ? WHERE id = ? AND state = 'running'",
        (state, json.dumps(answer or {}, ensure_ascii=False), now, command_id),
    )


def list_answered(db: Db, asker: str, most: int) -> list[Command]:
    return COMMANDS.list(db, f"WHERE asker = ? AND state IN ('done', 'lost') {OLDEST_FIRST} LIMIT ?", asker, most)


def free_commands(db: Db, gateway: str, now: int) -> int:
    """Nothing is done by a gateway that is gone: who asked may look anew. For what it asked itself nobody waits."""
    db.run("DELETE FROM commands WHERE asker = ? AND state IN ('done', 'lost')", (gateway,))
    return db.run(
        "UPDATE commands SET state = 'lost', done_at = ? WHERE gateway = ? AND state IN ('waiting', 'running')",
        (now, gateway),
    )


def remove(db: Db, command_ids: list[str]) -> None:
    for each in command_ids:
        db.run("DELETE FROM commands WHERE id = ?", (each,))


def remove_old(db: Db, before: int) -> int:
    return db.run("DELETE FROM commands WHERE created_at < ?", (before,))
