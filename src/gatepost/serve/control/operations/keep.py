"""Retention: remove what is over age now."""

from dataclasses import asdict
from typing import Any

from gatepost.flow.retention import Retention
from gatepost.serve.control.contract import Nothing, Office, operation, write_down


@operation("keep.run", Nothing)
async def sweep(office: Office, args: Nothing) -> dict[str, Any]:
    """What a sweep would remove by and by is removed now, in the same small portions."""
    running = office.extra.get("retention")
    keeper = running if isinstance(running, Retention) else None
    done = asdict(await (keeper or Retention(office.home, office.store, office.clock, office.config)).sweep())
    return await write_down(office, "keep.run", done, lambda db: done)
