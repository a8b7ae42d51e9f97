"""Where the folders of groups are, if several gateways share a store.

Shared ones are proven to be: a mark in the folder is compared with the one in the store. A gateway that sees another
folder would begin every group anew. So would one that has folders of its own beside others that share theirs.
"""

import asyncio
import os
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from gatepost.core import ids
from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.core.settings import Config, setting
from gatepost.flow.sessions.sandbox_plan import KIND
from gatepost.store import gateways, groups, shared_folders
from gatepost.store.gateway_identity import get_gateway_name
from gatepost.store.place import get_place
from gatepost.store.port import Db, Store
from gatepost.store.shared_folders import SharedFolder


class GroupPlace(StrEnum):
    LOCAL = "local"  # each group's on one gateway, which alone wakes its sessions
    SHARED = "shared"  # on a filesystem that all of them see


PLACE = setting(
    "groups.place",
    GroupPlace.LOCAL.value,
    help="Where the folders of groups are, if several gateways share a store: local (each group's on one gateway, which"
    " alone runs it) or shared (in `groups.shared_folder`).",
    choices=tuple(GroupPlace),
)
SHARED_FOLDER = setting(
    "groups.shared_folder",
    "",
    help="The folder for groups and for what providers remember, on a filesystem that all gateways mount.",
)
MARK = ".gatepost-shared"
LONGEST_MARK = 100
MOST_NAMED = 3


def place_home(home: Home, config: Config) -> Home:
    """The home of a gateway, with its folders where the settings say that they are."""
    if config[PLACE] == GroupPlace.LOCAL:
        return replace(home, gateway=get_gateway_name(config)) if get_place(home, config).url else home
    if not get_place(home, config).url:
        raise SetupError('groups.place = "shared" is for gateways on PostgreSQL (store.url); without it, leave it out')
    if config[KIND] == "process":  # a session's mailbox lies elsewhere than the rest of it, which takes a mount
        raise SetupError(
            'groups.place = "shared" needs sandboxes with folders of their own, and sandbox.kind = "process" has none;'
            " use another kind, or leave groups.place out"
        )
    if not config[SHARED_FOLDER]:
        raise SetupError(
            'groups.place = "shared" needs a folder that all gateways see, and groups.shared_folder is not set; set it'
            " to the whole path of one that exists"
        )
    folder = Path(config[SHARED_FOLDER])
    if not folder.is_absolute() or not folder.is_dir():
        raise SetupError(
            f'groups.place = "shared" needs a folder that all gateways see, and {str(folder)!r} is none;'
            " set groups.shared_folder to the whole path of one that exists"
        )
    return replace(home, shared=folder)


async def prepare_place(store: Store, home: Home, gateway: str, now: int, *, starts: bool = True) -> None:
    """Nothing is written to a shared folder before it is known to be the right one: it may be a mount point without its
    filesystem. Raises SetupError if it is not. `starts`: the gateway does, and this is not just a command."""
    if home.shared is not None:
        await check_shared_folder(store, home, home.shared, gateway)
    if starts:
        await join_kind(store, home, gateway, now)
    if home.shared is None:
        return
    mark = await asyncio.to_thread(_find_mark, home.shared)
    known = await store.write(shared_folders.find_or_add, mark, gateway, now)
    compare_mark(home.shared, mark, known, gateway)
    await asyncio.to_thread(home.prepare)


async def check_shared_folder(store: Store, home: Home, folder: Path, gateway: str) -> None:
    await store.read(check_mark, folder, gateway)
    known = await store.read(groups.list_all)
    left = await asyncio.to_thread(_list_left, home, folder, [each.folder for each in known])
    if left:
        names = ", ".join(left[:MOST_NAMED]) + (f" and {len(left) - MOST_NAMED} more" if len(left) > MOST_NAMED else "")
        raise SetupError(
            f"the files of {names} are in {home.path / 'groups'}, and not in the shared folder; while the gateway is"
            f" down, run `cp -a groups sessions {folder}` in {home.path}, then start it again"
        )


def _list_left(home: Home, folder: Path, known: list[str]) -> list[str]:
    """Groups whose files are in the home, where a gateway with a shared folder does not see them."""
    old, new = home.path / "groups", folder / "groups"
    return [each for each in known if _has_any(old / each) and not (new / each).is_dir()]


def _has_any(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def check_mark(db: Db, folder: Path, gateway: str) -> None:
    """Writes nothing. Where no gateway has put a mark yet, any folder will do."""
    known = shared_folders.find(db)
    if known is not None:
        compare_mark(folder, read_mark(folder), known, gateway)


def compare_mark(folder: Path, mark: str, known: SharedFolder, gateway: str) -> None:
    if known.mark != mark:
        raise SetupError(
            f"{folder} is not the shared folder: gateway {gateway!r} does not see there what gateway"
            f" {known.gateway!r} put there ({MARK}); mount the same filesystem on both"
        )


async def join_kind(store: Store, home: Home, gateway: str, now: int) -> None:
    """All gateways that live have their folders in the same way. Raises SetupError if another has not.

    It is written down first and looked at then, in two transactions: of two that start at once, one sees the other.
    """
    kind = GroupPlace.LOCAL if home.shared is None else GroupPlace.SHARED
    await store.write(shared_folders.set_kind, gateway, kind, now)
    found = await store.read(_find_other_kind, gateway, kind, now)
    if found is not None:
        await store.write(shared_folders.remove_kind, gateway)
        other, its = found
        more = " and groups.shared_folder" if its == GroupPlace.SHARED else ""
        raise SetupError(
            f'gateway {other!r} has its folders in another way: groups.place = "{its}", and here, on {gateway!r}, it is'
            f' "{kind}"; each would answer from folders that the other does not see: set groups.place = "{its}"{more}'
            " here, or stop all other gateways first"
        )


def _find_other_kind(db: Db, gateway: str, kind: str, now: int) -> tuple[str, str] | None:
    kinds = shared_folders.list_kinds(db)
    living = (each.name for each in gateways.list_living(db, now) if each.name != gateway)
    return next(((each, kinds[each]) for each in living if kinds.get(each, kind) != kind), None)


def read_mark(folder: Path) -> str:
    """'': there is none."""
    path = folder / MARK
    try:
        with path.open() as file:
            return file.read(LONGEST_MARK)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise SetupError(f"{path} cannot be used as the mark of the shared folder: {error.strerror}") from None


def _find_mark(folder: Path) -> str:
    """The one that is there; else a new one, whoever is first."""
    path, draft = folder / MARK, folder / f"{MARK}.{ids.token(8)}"
    try:
        if not path.exists():
            draft.write_text(ids.token(16))
            with suppress(FileExistsError):
                os.link(draft, path)  # whole, or not at all
    except OSError as error:
        raise SetupError(f"{path} cannot be used as the mark of the shared folder: {error.strerror}") from None
    finally:
        draft.unlink(missing_ok=True)
    return read_mark(folder)
