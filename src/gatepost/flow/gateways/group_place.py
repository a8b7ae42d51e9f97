"""Where the folders of groups are, if several gateways share a store.

Shared ones are proven to be: a mark in the folder is compared with the one in the store. A gateway that sees another
folder would begin every group anew.
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
from gatepost.store import shared_folders
from gatepost.store.gateway_identity import get_gateway_name
from gatepost.store.place import get_place
from gatepost.store.port import Store


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
    folder = Path(config[SHARED_FOLDER])
    if not folder.is_absolute() or not folder.is_dir():
        raise SetupError(
            f'groups.place = "shared" needs a folder that all gateways see, and {str(folder)!r} is none;'
            " set groups.shared_folder to the whole path of one that exists"
        )
    placed = replace(home, shared=folder)
    placed.prepare()
    return placed


async def check_shared_folder(store: Store, folder: Path, gateway: str, now: int) -> None:
    """Raises SetupError if this gateway sees another folder than those before it."""
    mark = await asyncio.to_thread(_find_mark, folder)
    known = await store.write(shared_folders.find_or_add, mark, gateway, now)
    if known.mark != mark:
        raise SetupError(
            f"{folder} is not the shared folder: gateway {gateway!r} does not see there what gateway"
            f" {known.gateway!r} put there ({MARK}); mount the same filesystem on both"
        )


def _find_mark(folder: Path) -> str:
    """The one that is there; else a new one, whoever is first."""
    path, draft = folder / MARK, folder / f"{MARK}.{ids.token(8)}"
    try:
        if not path.exists():
            draft.write_text(ids.token(16))
            with suppress(FileExistsError):
                os.link(draft, path)  # whole, or not at all
        with path.open() as file:
            return file.read(LONGEST_MARK)
    except OSError as error:
        raise SetupError(f"{path} cannot be used as the mark of the shared folder: {error.strerror}") from None
    finally:
        draft.unlink(missing_ok=True)
