"""Logs: the last lines that the gateway wrote. The audit log: who did what, and whether the record still holds."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from gatepost.core.files.log_tail import LogLevel, LogLine
from gatepost.core.record_fields import ShownAs, option, shown
from gatepost.serve.control.declaration import OperationArgs, declares

AUDIT_READ = "audit.read"


@declares("logs.tail", right="logs.read")
class TailLogArgs(OperationArgs[list[LogLine]], frozen=True):
    """The last lines of the gateway's log, the newest first. Secrets were left out when it was written."""

    level: Annotated[LogLevel, option("Only lines of this level and above.")] = LogLevel.INFO
    words: Annotated[str, option("Only lines that have all of these words."), Meta(max_length=200)] = ""
    limit: Annotated[int, option("How many at most.", least=1, most=1000)] = 200


class AuditEntry(Struct, frozen=True):
    seq: Annotated[int, shown("No.", ShownAs.NUMBER)]
    at: Annotated[int, shown("When", ShownAs.MOMENT)]
    actor: Annotated[str, shown("Who")]
    action: Annotated[str, shown("What", ShownAs.CODE)]
    verdict: Annotated[str, shown("Outcome", ShownAs.BADGE)]
    # None: they were erased; a text: it is no JSON any more.
    details: Annotated[dict[str, Any] | str | None, shown("Details")]
    gateway: Annotated[str, shown("Gateway")] = ""  # whose chain it is in, if several share the store


class AuditCheck(Struct, frozen=True, kw_only=True):
    rows: int
    repeated: int = 0  # further events that are only counted in the rows
    whole: bool = True
    first_bad: int | None = None
    trouble: str = ""
    head: str | None = None
    broken_chain: str = ""  # the gateway whose chain does not hold
    chains: dict[str, str] = {}  # by gateway, the head of its chain, if several share the store


@declares("audit.verify", right=AUDIT_READ, needs_home=True)
class VerifyAuditArgs(OperationArgs[AuditCheck], frozen=True):
    """Check the hash chain from its first row. Exit 1 if a row does not hold.

    If several gateways share the store, each has a chain. All of them are checked, and the seals of those that were
    taken over from.

    The output names the head of the chain. Keep it in a place that nobody with access to the store can write to. With
    --head a later check shows if the newest rows were cut off, or if all rows were rewritten. The chain alone cannot
    show that.
    """

    head: Annotated[
        str | None, option("A head that was told before: the chain must go on from it.", metavar="[GATEWAY/]SEQ:HASH")
    ] = None


@declares("audit.list", right=AUDIT_READ, reads=True)
class ListAuditArgs(OperationArgs[list[AuditEntry]], frozen=True):
    """The newest rows, oldest first."""

    limit: Annotated[int, option("The newest N rows.", least=1, most=100_000)] = 50
