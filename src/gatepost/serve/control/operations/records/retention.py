"""Retention: how long things are kept, how much there is of each, and removing what is over age now."""

import asyncio
from pathlib import Path

from gatepost.core.clock import DAY, iso
from gatepost.core.errors import GatepostError
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.home import Home
from gatepost.core.records import asdict
from gatepost.core.settings import Config
from gatepost.flow.retention import MEDIA, ROWS, SESSIONS, Retention
from gatepost.serve.control.arguments.records.retention import (
    KeptFiles,
    KeptRows,
    RetentionOverview,
    RunRetentionArgs,
    ShowRetentionArgs,
    StoreSize,
)
from gatepost.serve.control.contract import OperationDeps, operation
from gatepost.store.engine.place import get_place
from gatepost.store.engine.readonly import read_snapshot
from gatepost.store.port import Db
from gatepost.store.schedule import retention
from gatepost.store.schedule.retention import RetentionCounts


@operation
async def run_retention(deps: OperationDeps, args: RunRetentionArgs) -> RetentionCounts:
    """Remove now, in the same small portions, all that the sweep would remove by and by."""
    running = deps.extra.get("retention")
    keeper = running if isinstance(running, Retention) else None
    done = await (keeper or Retention(deps.home, deps.store, deps.clock, deps.config)).sweep()
    return await deps.write(lambda db: done, **asdict(done))


@operation
async def show_retention(deps: OperationDeps, args: ShowRetentionArgs) -> RetentionOverview:
    """In a thread and on a snapshot of its own: many files take a while, and others read meanwhile."""
    now = deps.clock.now()
    place = get_place(deps.home, deps.config)
    return await asyncio.to_thread(read_snapshot, place, get_overview, deps.home, deps.config, now)


def get_overview(db: Db, home: Home, config: Config, now: int) -> RetentionOverview:
    rows = []
    for what, wanted in ROWS.items():
        days = config[wanted]
        kept = retention.count(db, what, now - days * DAY if days else 0)
        rows.append(KeptRows(what, wanted.name, days, kept.rows, kept.over_age, iso(kept.oldest) or ""))
    files = [
        KeptFiles("media", MEDIA.name, config[MEDIA], _get_size(home.media)),
        KeptFiles("sessions", SESSIONS.name, config[SESSIONS], _get_session_size(home)),
    ]
    return RetentionOverview(rows, files, StoreSize(db.upkeep.get_size(), retention.can_shrink(db)))


def _get_size(folder: Path) -> int:
    return sum(each.lstat().st_size for each in folder.rglob("*") if each.is_file() and not each.is_symlink())


def _get_session_size(home: Home) -> int:
    try:
        with open_untrusted(home.sessions) as root:
            return root.size(2**62)
    except GatepostError:
        return 0
