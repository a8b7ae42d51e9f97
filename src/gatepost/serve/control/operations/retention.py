"""Retention: remove what is over age now."""

from typing import Any

from gatepost.core.records import asdict
from gatepost.flow.retention import Retention
from gatepost.serve.control.contract import NoArgs, OperationDeps, operation, run_audited


@operation("keep.run", NoArgs)
async def run_retention(office: OperationDeps, args: NoArgs) -> dict[str, Any]:
    """What a sweep would remove by and by is removed now, in the same small portions."""
    running = office.extra.get("retention")
    keeper = running if isinstance(running, Retention) else None
    done = asdict(await (keeper or Retention(office.home, office.store, office.clock, office.config)).sweep())
    return await run_audited(office, "keep.run", done, lambda db: done)
