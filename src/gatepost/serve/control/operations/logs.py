"""Logs: the last lines that the gateway wrote. The audit log: who did what, and whether the record still holds."""

import asyncio
from collections.abc import Collection
from typing import Any

import msgspec

from gatepost.core.errors import Invalid
from gatepost.core.files.log_tail import LogLine, read_last_lines
from gatepost.serve.control.arguments.logs import AuditCheck, AuditEntry, ListAuditArgs, TailLogArgs, VerifyAuditArgs
from gatepost.serve.control.contract import OperationDeps, operation, read_operation
from gatepost.store.engine.place import get_place
from gatepost.store.engine.readonly import read_snapshot
from gatepost.store.port import Db
from gatepost.store.rights import audit


@operation
async def tail_log(deps: OperationDeps, args: TailLogArgs) -> list[LogLine]:
    path = deps.home.logs / "gatepost.log"
    return await asyncio.to_thread(read_last_lines, path, args.limit, args.level, args.words)


@operation
async def verify_audit(deps: OperationDeps, args: VerifyAuditArgs) -> AuditCheck:
    """In a thread and on a snapshot of its own: a long chain takes seconds, and others read meanwhile."""
    return await asyncio.to_thread(read_snapshot, get_place(deps.home, deps.config), verify_chain, args.head)


def verify_chain(db: Db, head: str | None) -> AuditCheck:
    kept = _parse_head(head) if head is not None else None
    found = audit.verify_chains(db)
    if (bad := found.broken) is not None:
        text = f"row {bad.number}{_name_chain(bad.gateway, found.heads)} does not hold: {bad.why}"
        return AuditCheck(
            rows=found.rows,
            whole=False,
            first_bad=bad.number,
            trouble=text,
            broken_chain=bad.gateway,
            chains=found.heads,
        )
    damaged = audit.find_damage(db)
    if damaged:
        text = f"every row holds, but the pages that keep them are damaged: {damaged}; restore a backup"
        return AuditCheck(rows=found.rows, whole=False, trouble=text)
    text = _compare_head(db, *kept) if kept is not None else ""
    return AuditCheck(
        rows=found.rows,
        repeated=audit.count_repeated(db),
        whole=not text,
        first_bad=kept[1] if kept is not None and text else None,
        trouble=text,
        head=audit.render_heads(db),
        broken_chain=kept[0] if kept is not None and text else "",
        chains={name: each for name, each in found.heads.items() if name},
    )


def _name_chain(gateway: str, chains: Collection[str] = ()) -> str:
    """Name a chain for a sentence; '' if it is the only one."""
    if gateway:
        return f" of gateway {gateway}"
    return " of commands by themselves" if any(chains) else ""


def _compare_head(db: Db, gateway: str, number: int, chained: str) -> str:
    """Return what is wrong, if a chain does not go on from there."""
    row = f"row {number}{_name_chain(gateway, audit.list_chains(db))}"
    if 0 < number < audit.get_anchor(db, gateway)[0]:
        return f"{row} was removed because of its age (keep.audit_days); compare a newer head"
    if not audit.continues_from(db, number, chained, gateway):
        return f"{row} is not the one that was the head: rows were cut off, or all was written anew"
    return ""


def _parse_head(text: str) -> tuple[str, int, str]:
    found = audit.parse_head(text)
    if found is None:
        raise Invalid("head", "write it as it was told: SEQ:HASH, or GATEWAY/SEQ:HASH")
    return found


@read_operation
def list_audit_entries(db: Db, args: ListAuditArgs, now: int) -> list[AuditEntry]:
    rows = reversed(audit.list_latest_of_all(db, args.limit))
    return [
        AuditEntry(seq, at, who, act, verdict, _read_audit_details(text), gateway)
        for seq, at, who, act, verdict, text, gateway in rows
    ]


def _read_audit_details(text: str | None) -> dict[str, Any] | str | None:
    try:
        return None if text is None else msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        return text
