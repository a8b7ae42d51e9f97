"""Egress rules and the log of attempts. `egress/rules.py` decides the meaning of a rule."""

from enum import StrEnum
from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import ShownAs, shown
from gatepost.store.engine.table import Table
from gatepost.store.port import Db, inline_read

MOST_LOGGED = 100_000  # rows; the oldest go first


def _render_port(port: int) -> str:
    return str(port) if port else ""


def _render_verdict(allow: bool) -> str:
    return "allow" if allow else "deny"


class EgressRule(Struct, frozen=True):
    id: Annotated[int, shown("Id", ShownAs.ID)]
    folder: Annotated[str | None, shown("Group", head="folder", empty="all groups")]  # None: the whole instance
    host: Annotated[str, shown("Host", ShownAs.CODE)]
    port: Annotated[int, shown("Port", render=_render_port)]  # 0: the usual ones
    allow: Annotated[bool, shown("Says", ShownAs.BADGE, head="verdict", render=_render_verdict)]
    local: bool
    created_by: Annotated[str, shown("By", head="by")]
    created_at: Annotated[int, shown("Since", ShownAs.MOMENT, head="since")]


class EgressOutcome(StrEnum):
    ALLOWED = "allowed"
    DENIED = "denied"
    FAILED = "failed"


class EgressAttempt(Struct, frozen=True):
    id: int
    at: Annotated[int, shown("First", ShownAs.MOMENT, head="first")]
    last_at: Annotated[int, shown("Last", ShownAs.MOMENT, head="last")]
    times: Annotated[int, shown("Times", ShownAs.NUMBER)]
    folder: Annotated[str, shown("Group")]
    session_id: Annotated[str, shown("Conversation", head="session")]
    target: Annotated[str, shown("To", ShownAs.CODE)]
    verdict: Annotated[EgressOutcome, shown("Outcome", ShownAs.BADGE)]
    reason: Annotated[str, shown("Why")]


RULES, ATTEMPTS = Table("egress_rules", EgressRule), Table("egress_log", EgressAttempt)


@inline_read
def list_rules(db: Db) -> list[EgressRule]:
    return RULES.list(db, "ORDER BY COALESCE(folder, ''), host, port")


def put(db: Db, folder: str | None, host: str, port: int, *, allow: bool, local: bool, by: str, now: int) -> EgressRule:
    """One verdict a folder, host and port: a second one replaces the first. The foreign key refuses a ghost."""
    return RULES.put(
        db,
        "ON CONFLICT (COALESCE(folder, ''), host, port) DO UPDATE SET"
        " allow = excluded.allow, local = excluded.local, created_by = excluded.created_by,"
        " created_at = excluded.created_at",
        folder=folder,
        host=host,
        port=port,
        allow=allow,
        local=local,
        created_by=by,
        created_at=now,
    )


def remove(db: Db, rule_id: int) -> EgressRule | None:
    row = db.row(f"DELETE FROM egress_rules WHERE id = ? RETURNING {RULES.columns}", (rule_id,))
    return RULES.parse(row) if row else None


def record_attempt(
    db: Db, folder: str, session_id: str, target: str, verdict: EgressOutcome, reason: str, now: int
) -> bool:
    """Write down one try; the same one again is counted. True if it is a new row."""
    made = ATTEMPTS.put(
        db,
        "ON CONFLICT (session_id, target, verdict, reason)"
        " DO UPDATE SET times = egress_log.times + 1, last_at = excluded.last_at",
        at=now,
        last_at=now,
        folder=folder,
        session_id=session_id,
        target=target,
        verdict=verdict,
        reason=reason,
    )
    if made.times == 1 and made.id % 1000 == 0:
        db.run("DELETE FROM egress_log WHERE id <= ?", (made.id - MOST_LOGGED,))
    return made.times == 1


def list_attempts(db: Db, limit: int, folder: str = "", verdict: str = "") -> list[EgressAttempt]:
    """The newest first."""
    newest = "WHERE (? = '' OR folder = ?) AND (? = '' OR verdict = ?) ORDER BY last_at DESC, id DESC LIMIT ?"
    return ATTEMPTS.list(db, newest, folder, folder, verdict, verdict, limit)


def list_targets_refused_since(db: Db, session_id: str, since: int, most: int) -> list[str]:
    """Return the targets that a session was refused; the latest first."""
    refused = "WHERE session_id = ? AND verdict = 'denied' AND last_at >= ? ORDER BY last_at DESC, id DESC LIMIT ?"
    return list(dict.fromkeys(each.target for each in ATTEMPTS.list(db, refused, session_id, since, most)))


def list_refused_targets(db: Db, folder: str, since: int, most: int) -> list[str]:
    """Return the targets that a group was refused, of the newest so many tries; the latest first."""
    newest = "WHERE folder = ? ORDER BY id DESC LIMIT ?"
    tries = ATTEMPTS.list(db, newest, folder, most)
    return [each.target for each in tries if each.verdict is EgressOutcome.DENIED and each.last_at >= since]
