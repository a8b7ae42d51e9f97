"""The check that a group's folder is here. Several gateways on one store may each have folders of their own. Code that
reads or writes one for somebody else than its agent asks here first. An agent runs where its folder is.

A gateway by itself, or with shared folders, has them all, and nothing is read for that.

Groups that came with a copied store lie on no gateway yet. The gateway that has the files claims them. No other does,
because its agents would begin anew in an empty folder. If no gateway has them, their messages wait: the files may yet
come back.
"""

import asyncio
from collections.abc import Iterable

from gatepost.core.errors import Invalid, NotFound, Unavailable
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.home import Home
from gatepost.store.gateways import group_places
from gatepost.store.port import Db, Store

NOWHERE = "no gateway has its files; put them into `groups` of the gateway that is to have it"


class FolderElsewhere(Invalid):
    """The folder is on another gateway. An operation that raises this before it has done anything is run there."""

    def __init__(self, folder: str, gateway: str, here: str) -> None:
        world = group_places.get_world(folder)
        way = f"run this there, or `gatepost group move {world} {here}` first"
        super().__init__("folder", f"the files of {world} are on gateway {gateway!r}; {way}")
        self.gateway = gateway


def has_files(home: Home, folder: str) -> bool:
    """Return True if there is anything of a group's world in this home."""
    try:
        with open_untrusted(home.group(group_places.get_world(folder))) as found:
            return not found.is_empty()
    except (NotFound, Invalid):
        return False


async def claim_found(store: Store, home: Home, folders: Iterable[str], now: int) -> list[str]:
    """Before anything is made in this home: what nobody has and is here becomes this gateway's. The worlds of these
    groups that no gateway has then."""
    places = await store.read(group_places.list_all)
    free = sorted({group_places.get_world(each) for each in folders} - places.keys())
    found = await asyncio.to_thread(lambda: [each for each in free if has_files(home, each)])
    if found:
        await store.write(_claim_all, found, home.gateway, now)
    return [each for each in free if each not in found]


def _claim_all(db: Db, worlds: list[str], gateway: str, now: int) -> None:
    for world in worlds:
        group_places.claim(db, world, gateway, now)


def find_elsewhere(db: Db, home: Home, folder: str) -> str:
    """The gateway that has a group's folder, if that is another one; '' if it is here, or nowhere yet."""
    found = group_places.find_gateway(db, folder) if home.gateway else ""
    return "" if found == home.gateway else found


def check_folder_here(db: Db, home: Home, folder: str) -> None:
    if found := find_elsewhere(db, home, folder):
        raise FolderElsewhere(folder, found, home.gateway)


def check_folder_stays(db: Db, home: Home, folder: str) -> None:
    """For who writes to it: nothing is written to what moves away, or is yet to be found. Raises Unavailable then."""
    check_folder_here(db, home, folder)
    if not home.gateway:
        return
    runner = group_places.find_runner(db, folder)
    if runner is None:
        raise Unavailable(f"the folder of {folder}", "it moves to another gateway; try again when it has arrived")
    if not runner and group_places.has_groups(db, folder) and not has_files(home, folder):
        raise Unavailable(f"the folder of {folder}", NOWHERE)


def claim_folder_here(db: Db, home: Home, folder: str, now: int) -> None:
    """From now on it is here, if it was nowhere."""
    check_folder_stays(db, home, folder)
    if home.gateway and group_places.claim(db, folder, home.gateway, now) != home.gateway:
        check_folder_here(db, home, folder)


async def check_here(store: Store, home: Home, folder: str) -> None:
    """Raises FolderElsewhere. For who reads."""
    if home.gateway:
        await store.read(check_folder_here, home, folder)


async def check_stays(store: Store, home: Home, folder: str) -> None:
    """The same for who makes a group there, which claims the place."""
    if home.gateway:
        await store.read(check_folder_stays, home, folder)


async def claim_here(store: Store, home: Home, folder: str, now: int) -> None:
    """The same for who writes to it."""
    if home.gateway:
        await store.write(claim_folder_here, home, folder, now)


async def is_here(store: Store, home: Home, folder: str) -> bool:
    return not home.gateway or not await store.read(find_elsewhere, home, folder)
