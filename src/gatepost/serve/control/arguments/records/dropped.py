"""Messages that were refused."""

from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import option
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.messages.dropped import DroppedBy, DroppedCount, DroppedMessage


class DroppedReport(Struct, frozen=True, kw_only=True):
    total: int
    only_counted: int  # of these: not written down one by one
    counts: list[DroppedCount]
    newest: list[DroppedMessage]  # oldest first
    last: int  # rows of the inbox and of the audit log: whoever follows goes on behind them
    last_audit: int


@declares("dropped.list", right="ledger.read", reads=True)
class ListDroppedArgs(OperationArgs[DroppedReport], frozen=True):
    """Count every message that was refused, by its reason, its room or its sender, and show the newest.

    Only the first messages of an unknown sender are recorded in each hour. The rest is counted as only_counted when the
    hour is over.
    """

    since: Annotated[
        str,
        option("Only from then on: minutes, hours or days, or a time.", examples=("90m", "24h", "7d", "2026-01-31")),
    ] = ""
    by: Annotated[DroppedBy, option("The column to count by.")] = DroppedBy.REASON
    limit: Annotated[int, option("At most so many counts, and so many of the newest.", least=1, most=10_000)] = 20
    after: Annotated[int, option("Only rows of the inbox behind this one.", hidden=True, least=0)] = 0
    after_audit: Annotated[int, option("Only rows of the audit log behind this one.", hidden=True, least=0)] = 0
