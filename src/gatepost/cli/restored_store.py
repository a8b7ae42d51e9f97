"""A restore where a home is not all there is: a database, and a folder that gateways share."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from gatepost import app
from gatepost.core import settings
from gatepost.core.clock import SystemClock
from gatepost.core.home import Home
from gatepost.flow.gateways.group_place import PLACE, SHARED_FOLDER
from gatepost.serve.backups import group_restoring
from gatepost.serve.backups.restoring import move_shared
from gatepost.store.engine.open_store import copy_store_rows
from gatepost.store.engine.place import URL, StorePlace, get_place, hide_password
from gatepost.store.gateways import gateways
from gatepost.store.gateways.shared_folders import GroupPlace


def prepare_restored(home: Home) -> list[str]:
    """Put rows and shared folders where the restored settings say that they are. Return a line for each."""
    config, said = settings.load_declared(home.path), list[str]()
    if config[PLACE] == GroupPlace.SHARED and config[SHARED_FOLDER]:
        move_shared(home.path, Path(config[SHARED_FOLDER]))
        said.append(f"groups and sessions are in {config[SHARED_FOLDER]}")
    place = get_place(home, config)
    if not place.url:
        return said
    asyncio.run(_begin_anew(home))
    copy_store_rows(StorePlace(home.store), place, lambda table: None)
    home.store.unlink()
    return [*said, f"its rows are in {hide_password(place.url)}"]


def restore_group(home: Home, folder: str, source: Path, identity: str, agree: Callable[[list[str]], bool]) -> bool:
    """Put one agent back, with the home's lock held. `agree` gets what will change. Return True if it was done."""
    app.load_plugins(home)
    return asyncio.run(_restore_group(home, folder, source, identity, agree))


async def _restore_group(
    home: Home, folder: str, source: Path, identity: str, agree: Callable[[list[str]], bool]
) -> bool:
    config = settings.load(home.path)
    gateway = app.Gateway(home, config, SystemClock())
    place = gateway.home
    try:
        name = gateway.lease.name if gateway.lease is not None else ""
        plan = await group_restoring.lay_out(place, gateway.store, gateway.clock, folder, source, identity, name)
        if not agree(group_restoring.describe(plan)):
            return False
        group_restoring.begin(place, plan)
        await group_restoring.finish(place, gateway.store, gateway.channels, config, gateway.clock)
        return True
    finally:
        group_restoring.forget(place)
        await gateway.models.close()
        gateway.files.close()
        gateway.store.close()
        if gateway.lease is not None:
            await asyncio.to_thread(gateway.lease.stop)


async def _begin_anew(home: Home) -> None:
    """Hold what was under way, before anybody sees the rows in the database: no start finds out that they are old."""
    app.load_plugins(home)
    config = settings.load(home.path, given={URL.name: "", PLACE.name: GroupPlace.LOCAL})
    gateway = app.Gateway(home, config, SystemClock())
    try:
        assert gateway.life is not None
        await gateway.life.begin(gateway.channels)
        await gateway.store.write(gateways.shorten_leases, 0)  # none of those that it knew lives on this database
        await gateway.life.close()
    finally:
        await gateway.models.close()
        gateway.files.close()
        gateway.store.close()
