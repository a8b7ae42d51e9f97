"""Messages that were refused."""

from typing import Annotated, Any

from gatepost.serve.control.declaration import OperationArgs, declares, option
from gatepost.store.messages.dropped import DroppedBy


@declares("dropped.list", right="ledger.read", reads=True)
class ListDroppedArgs(OperationArgs[Any], frozen=True):
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
