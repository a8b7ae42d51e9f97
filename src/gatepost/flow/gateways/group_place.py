"""The place of groups' folders, if several gateways share a store.

Shared ones are proven to be: a mark in the folder is compared with the one in the store. A gateway that sees another
folder would begin every group anew. So would one that has folders of its own beside others that share theirs.

Messages for a group whose gateway is away wait until it is back; nobody else has the group's folder. Each room gets one
notice of it.
"""

import asyncio
import os
from contextlib import suppress
from pathlib import Path

from gatepost.core import ids, log
from gatepost.core.clock import SECOND, Clock, to_microseconds
from gatepost.core.errors import SetupError
from gatepost.core.event_bus import EventBus
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.home import Home
from gatepost.core.process.wake_loop import WakeLoop
from gatepost.core.records import replace
from gatepost.core.settings import Config, setting
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, find_or_add
from gatepost.flow.gateways.world_archive import GROUPS, SESSIONS, find_newer
from gatepost.flow.sessions.sandbox.sandbox_plan import KIND
from gatepost.store.engine.place import get_place
from gatepost.store.gateways import gateways, group_places, shared_folders
from gatepost.store.gateways.gateway_identity import get_gateway_name
from gatepost.store.gateways.group_places import AwayWorld, WaitingRoom
from gatepost.store.gateways.shared_folders import GroupPlace, SharedFolder
from gatepost.store.messages.outbox import REPLAY_INSTANCE, EffectOrigin
from gatepost.store.port import Db, Store
from gatepost.store.sessions import errands, groups

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
LOST = ".gatepost-local"  # somebody's word that the shared folder is lost, and that older files are better than none
LONGEST_MARK = 100
MOST_NAMED = 3
AWAY_NOTICE = (
    "The machine that has this agent's files is away. Your message is kept, and is answered when the machine is back."
)
AFTER_S = setting(
    "groups.away_notice_s",
    60.0,
    help="People whose message waits for a gateway that is away are told so after this many seconds.",
)
LOOK_S = 5.0
LOOKED_AT = 30 * SECOND
NOBODY_THERE = frozenset({errands.INSTANCE, REPLAY_INSTANCE})  # rooms in which no person waits
_log = log.get("gateways")


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


async def prepare_place(
    store: Store, home: Home, gateway: str, now: int, *, starts: bool = True, shared_folder: str = ""
) -> None:
    """Nothing is written to a shared folder before it is known to be the right one: it may be a mount point without its
    filesystem. Raises SetupError if it is not. `starts`: the gateway does, and this is not just a command.
    `shared_folder`: the one of the settings, which may have been in use until now."""
    if home.shared is not None:
        await check_shared_folder(store, home, home.shared, gateway)
    elif starts:
        await check_own_folders(store, home, gateway, shared_folder)
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
    worlds = await store.read(_list_changed_here, gateway)
    left = await asyncio.to_thread(_list_left, home, folder, [each.folder for each in known], worlds)
    if left:
        raise SetupError(
            f"the files of {_name(left)} are in {home.path / 'groups'}, and not, or older, in the shared folder; while"
            f" the gateway is down, run `cp -a groups sessions {folder}` in {home.path}, then start it again"
        )


def _list_changed_here(db: Db, gateway: str) -> list[str]:
    """The worlds of a gateway that ran with folders of its own after the shared one was in use."""
    own, known = shared_folders.find_kind(db, gateway), shared_folders.find(db)
    ran_here = own is not None and own.mark == GroupPlace.LOCAL and known is not None and own.since > known.since
    return group_places.list_worlds(db, gateway) if ran_here else []


def _list_left(home: Home, folder: Path, known: list[str], worlds: list[str]) -> list[str]:
    """Groups whose files are in the home, where a gateway with a shared folder does not see them; or newer there."""
    old, new = home.path / "groups", folder / "groups"
    missing = [each for each in known if _has_any(old / each) and not (new / each).is_dir()]
    return missing or [each for each in worlds if find_newer(home.path, folder, [f"{GROUPS}/{each}"])]


async def check_own_folders(store: Store, home: Home, gateway: str, shared_folder: str) -> None:
    """Groups that lay in the shared folder until now must not begin with what this home had of them before. Raises
    SetupError."""
    known, worlds = await store.read(_list_shared_before, gateway)
    if known is None or not await asyncio.to_thread(lambda: any(_has_any(home.group(each)) for each in worlds)):
        return
    lost = home.path / LOST
    folder = Path(shared_folder) if shared_folder else None
    if folder is None or await asyncio.to_thread(read_mark, folder) != known.mark:
        if not await asyncio.to_thread(lost.exists):
            raise SetupError(
                'until now the groups of this store lay in a shared folder (groups.place = "shared"), and'
                f" {str(folder) + ' is not that one' if folder else 'groups.shared_folder does not name it'}; set it,"
                " so that the folders here can be compared with it. If it is lost, and the folders here are to be used"
                f" as they are: `touch {lost}`"
            )
    else:
        newer = await asyncio.to_thread(_list_newer, home, folder, worlds)
        if newer:
            raise SetupError(
                f"the files of {_name(newer)} are newer in the shared folder than in {home.groups}; copy them from"
                f" there, `cp -a {folder}/groups {folder}/sessions {home.path}/`, or move the older ones away, then"
                " start the gateway again"
            )
    await asyncio.to_thread(lost.unlink, missing_ok=True)


def _list_shared_before(db: Db, gateway: str) -> tuple[SharedFolder | None, list[str]]:
    """The shared folder, if it was in use after this gateway last ran with folders of its own; and the worlds."""
    own, known = shared_folders.find_kind(db, gateway), shared_folders.find(db)
    if known is None or (own is not None and own.mark == GroupPlace.LOCAL and own.since > known.since):
        return None, []
    return known, sorted({group_places.get_world(each.folder) for each in groups.list_all(db)})


def _list_newer(home: Home, folder: Path, worlds: list[str]) -> list[str]:
    """Return the worlds that lie in both folders and are newer in the shared one. If there are none, `conversations`
    stands for the memory of providers, which has no name that people know."""
    found = [
        each for each in worlds if _has_any(home.group(each)) and find_newer(folder, home.path, [f"{GROUPS}/{each}"])
    ]
    with open_untrusted(home.sessions) as root:
        kept = [f"{SESSIONS}/{each}" for each in root.list()]
    return found or (["conversations"] if find_newer(folder, home.path, kept) else [])


def _name(folders: list[str]) -> str:
    rest = len(folders) - MOST_NAMED
    return ", ".join(folders[:MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _has_any(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def check_mark(db: Db, folder: Path, gateway: str) -> None:
    """Check that this is the folder that the gateways share, without writing. Any folder passes if no gateway has
    marked one yet."""
    known = shared_folders.find(db)
    if known is not None:
        compare_mark(folder, read_mark(folder), known, gateway)


def compare_mark(folder: Path, mark: str, known: SharedFolder, gateway: str) -> None:
    if known.mark != mark:
        restored = f"; if it was restored without that file: `printf %s {known.mark} > {folder / MARK}`"
        raise SetupError(
            f"{folder} is not the shared folder: gateway {gateway!r} does not see there what gateway"
            f" {known.gateway!r} put there ({MARK}); mount the same filesystem on both{'' if mark else restored}"
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


class PlaceNotices:
    def __init__(
        self, store: Store, clock: Clock, config: Config, events: EventBus, channels: ChannelInstances
    ) -> None:
        self._store, self._clock, self._events, self._channels = store, clock, events, channels
        self._after = to_microseconds(config[AFTER_S])
        self._since: dict[AwayWorld, int] = {}  # when it was first seen that a world's gateway is away

    async def run(self) -> None:
        """Until cancelled."""
        failure = "what waits for other gateways cannot be looked at"
        await WakeLoop(_log.warning, failure, pause_s=LOOK_S).run(self.check)

    async def check(self) -> None:
        now = self._clock.monotonic()
        away = await self._store.read(group_places.list_away)
        self._since = {each: self._since.get(each, now) for each in away}
        for each, since in self._since.items():
            await self._store.write(_defer_notice, each.world, self._clock.now(), durable=False)
            if now - since >= self._after:
                await self._send_notices(each)

    async def _send_notices(self, away: AwayWorld) -> None:
        before = self._clock.now() - self._after
        found = await self._store.read(group_places.list_waiting_rooms, away.world, before)
        rooms = [each for each in found if each.instance not in NOBODY_THERE]
        if not rooms:
            return
        for room in await self._store.write(add_notices, self._channels, away, rooms, self._clock.now()):
            self._events.room(room.instance, room.address)


def _defer_notice(db: Db, world: str, now: int) -> int:
    return group_places.defer_due(db, world, now, now + LOOKED_AT)


def add_notices(
    db: Db, channels: ChannelInstances, away: AwayWorld, rooms: list[WaitingRoom], now: int
) -> list[WaitingRoom]:
    """Once for each room and absence: what was said before is there already. Those that are new."""
    added = []
    for room in rooms:
        notice = OutgoingMessage(
            key=f"notice:away:{away.gateway}:{away.epoch}:{room.instance}:{room.address}",
            origin=EffectOrigin.NOTICE,
            instance=room.instance,
            address=room.address,
            thread=room.thread,
            text=AWAY_NOTICE,
        )
        _, new = find_or_add(db, channels, notice, now)
        added += [room] if new else []
    return added
