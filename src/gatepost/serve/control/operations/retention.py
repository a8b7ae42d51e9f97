"""Retention: remove what is over age now."""

from gatepost.core.records import asdict
from gatepost.flow.retention import Retention, RetentionCounts
from gatepost.serve.control.arguments.retention import RunRetentionArgs
from gatepost.serve.control.contract import OperationDeps, operation


@operation
async def run_retention(deps: OperationDeps, args: RunRetentionArgs) -> RetentionCounts:
    """What a sweep would remove by and by is removed now, in the same small portions."""
    running = deps.extra.get("retention")
    keeper = running if isinstance(running, Retention) else None
    done = await (keeper or Retention(deps.home, deps.store, deps.clock, deps.config)).sweep()
    return await deps.write(lambda db: done, **asdict(done))
