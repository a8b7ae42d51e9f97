"""Makes the groups of newcomers who were let in: the folder from the parent's prototype, then the group, its member and
its route in one transaction. One that was interrupted is made after the next start."""

import asyncio
from functools import partial
from itertools import islice

from gatepost.access.tiers import check_folder
from gatepost.core import log
from gatepost.core.clock import Clock
from gatepost.core.errors import GatepostError, Invalid, NotFound, Refused, Unavailable
from gatepost.core.event_bus import EventBus
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.home import Home
from gatepost.core.process.wake_loop import WakeLoop
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.flow import sender_rights
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, add_outgoing_message
from gatepost.flow.gateways.folder_check import has_files
from gatepost.flow.groups import FolderPrototype, make_group, read_prototype
from gatepost.flow.intake import routing
from gatepost.flow.onboarding import admit_queued
from gatepost.flow.people import personal_routes
from gatepost.flow.people.personal_routes import PersonalChat
from gatepost.flow.schedule.prototype_tasks import GroupSeed, SeedPlace, add_seed, pop_seed
from gatepost.flow.schedule.task_changes import read_rules
from gatepost.flow.sessions.host.host_uids import group_uid
from gatepost.messages.address import safe_segment
from gatepost.messages.inbound import OPERATOR
from gatepost.store.gateways import group_places
from gatepost.store.messages.outbox import EffectOrigin
from gatepost.store.people import identities, newcomers, users
from gatepost.store.people.newcomers import Newcomer, NewcomerState
from gatepost.store.port import Db, Store
from gatepost.store.rights import audit
from gatepost.store.rooms import routes
from gatepost.store.rooms.origins import Origin, OriginChain
from gatepost.store.rooms.routes import Route
from gatepost.store.sessions import groups

AT_ONCE = 20
MOST_ADMITTED = 1000  # that are looked through for those of this gateway
LONGEST_WAIT_S = 60.0  # between two looks, whatever the bell says
AGAIN_S = 1.0
MOST_NAMES = 50  # that are tried for one group
LONGEST_REASON = 300
LONGEST_NAME = 40  # characters of a group's name
ACTION = "onboarding.settle"

READY = "Your agent is ready. Everything that you write here goes to it."
READY_ELSEWHERE = (
    "Your agent is ready. Another agent has this chat, so whoever runs this gateway must lead you to yours."
)
FAILED = "Your agent could not be set up. Whoever runs this gateway can see why."

_log = log.get("onboarding")


class NewcomerGroups:
    def __init__(
        self, store: Store, clock: Clock, config: Config, home: Home, events: EventBus, channels: ChannelInstances
    ) -> None:
        self._store, self._clock, self._config, self._home = store, clock, config, home
        self._events, self._channels = events, channels
        self._loop = WakeLoop(_log.warning, "newcomers wait", pause_s=LONGEST_WAIT_S, retry_s=AGAIN_S)
        events.on_newcomers(self._loop.wake)

    async def run(self) -> None:
        await self._loop.run(self.settle_all)

    async def settle_all(self) -> None:
        """Let in whose turn it is, and make every group that is to be made here."""
        if await self._store.read(newcomers.list_in_state, NewcomerState.QUEUED, 1):
            await self._store.write(admit_queued, self._clock.now())
        while found := await self._store.read(list_admitted, self._home):
            for each in found:
                await self._settle(each)

    async def _settle(self, newcomer: Newcomer) -> None:
        try:
            await self._make_group(newcomer)
        except Unavailable:
            raise
        except (GatepostError, OSError) as error:
            _log.warning("the group of a newcomer cannot be made", newcomer=newcomer.id, error=str(error))
            await self._store.write(record_failure, self._channels, newcomer, str(error), self._clock.now())
        self._events.room(newcomer.instance, newcomer.address)

    async def _make_group(self, newcomer: Newcomer) -> None:
        folder = newcomer.folder or await self._choose_folder(newcomer)
        prototype = await asyncio.to_thread(_find_prototype, self._home, newcomer.parent)
        now, by = self._clock.now(), f"{routing.MADE_BY}{newcomer.parent}"
        place = SeedPlace(folder=folder, instance=newcomer.instance, address=newcomer.address, created_by=by)
        seed = await asyncio.to_thread(pop_seed, prototype, place, read_rules(self._config), now)
        uid = await group_uid(self._store, self._config, self._clock, folder)
        name = make_group_name(newcomer.name) or folder.rpartition("/")[2]
        commit = partial(self._store.write, settle, self._channels, newcomer, folder, name, now, seed)
        await make_group(self._store, self._home, folder, uid, commit, name=name, prototype=prototype)
        self._events.tools()
        self._events.tasks()

    async def _choose_folder(self, newcomer: Newcomer) -> str:
        """Named like the sender, as `{sender}` in a route is. Nobody gets a folder that has somebody else's files."""
        base = safe_segment(newcomer.sender).replace("..", "-")
        for number in range(1, MOST_NAMES + 1):
            folder = f"{newcomer.parent}/{base if number == 1 else f'{base}-{number}'}"
            check_folder(folder)
            if await asyncio.to_thread(_exists, self._home, folder):
                continue
            if await self._store.write(choose_folder, newcomer.id, folder):
                return folder
        raise Invalid("folder", f"every name like {newcomer.parent}/{base} is taken")


def make_group_name(person: str) -> str:
    """Return the name of a person as a name for their group; '' if nothing of it can stand there. Agents read it, so it
    is short, and has letters and figures alone."""
    kept = "".join(char if char.isalnum() else " " for char in person)
    return " ".join(kept.split())[:LONGEST_NAME].strip()


def list_admitted(db: Db, home: Home) -> list[Newcomer]:
    """Those whose group is to be made below one that is here. The gateway that has it makes each of the others."""
    if not home.gateway:
        return newcomers.list_in_state(db, NewcomerState.ADMITTED, AT_ONCE)
    places = group_places.list_all(db)
    found = newcomers.list_in_state(db, NewcomerState.ADMITTED, MOST_ADMITTED)
    return list(islice((each for each in found if _has_parent(home, places, each.parent)), AT_ONCE))


def _has_parent(home: Home, places: dict[str, str], parent: str) -> bool:
    place = places.get(group_places.get_world(parent))
    return has_files(home, parent) if place is None else place == home.gateway


def _exists(home: Home, folder: str) -> bool:
    with open_untrusted(home.groups) as root:
        return root.exists(folder)


def _find_prototype(home: Home, parent: str) -> FolderPrototype | None:
    """None: the parent has none, and the group begins as every other does."""
    if not _exists(home, f"{parent}/prototype"):
        return None
    return read_prototype(home, parent)


def choose_folder(db: Db, newcomer_id: str, folder: str) -> bool:
    """False if the name is taken."""
    if groups.get(db, folder) is not None or newcomers.has_folder(db, folder):
        return False
    newcomers.set_folder(db, newcomer_id, folder)
    return True


def settle(
    db: Db,
    channels: ChannelInstances,
    newcomer: Newcomer,
    folder: str,
    name: str,
    now: int,
    seed: GroupSeed | None = None,
) -> None:
    """Make the group the newcomer's, with everything that it takes, at once."""
    if groups.get(db, newcomer.parent) is None:
        raise NotFound("group", newcomer.parent, "it was removed meanwhile")
    if _is_shut_out(db, newcomer, folder):
        raise Refused(newcomer.sender, "come in", newcomer.parent, "the access list shuts them out by now")
    if not newcomers.settle(db, newcomer.id, folder):
        raise Refused(newcomer.sender, "come in", newcomer.parent, "somebody decided otherwise meanwhile")
    if not groups.add(db, folder, name, "", now):
        raise Invalid("folder", f"there is a group {folder!r} already")
    person, by = identities.get_person(db, newcomer.sender), newcomer.decided_by or f"entrance:{newcomer.entrance_id}"
    users.add(db, person, newcomer.name, now)
    users.add_member(db, person, folder, by, now)
    led = _is_routed(db, newcomer, folder)
    if not led:
        _add_route(db, newcomer, folder, now)
        led = _is_routed(db, newcomer, folder)
    _add_notice(db, channels, newcomer, READY if led else READY_ELSEWHERE, now)
    details = {"newcomer": newcomer.id, "folder": folder, "person": person, "by": by}
    if seed is not None and (why := _add_seed(db, seed, newcomer, person, led=bool(led), now=now)):
        details["tasks left out"] = why
    audit.append(db, audit.AuditRecord(now, newcomer.sender, ACTION, "done", details))


def _add_seed(db: Db, seed: GroupSeed, newcomer: Newcomer, person: str, *, led: bool, now: int) -> str:
    """Give the newcomer's group what the prototype has. They pay for its tasks, which speak in their chat: so there are
    none where another agent has that chat. Return why tasks were left out."""
    if not led and seed.tasks:
        add_seed(db, replace(seed, tasks=()), OriginChain(), now, asked=False)
        return "another agent has the chat"
    chain = OriginChain((Origin(person, newcomer.instance, newcomer.address),))
    return add_seed(db, seed, chain, now, asked=False)


def _is_shut_out(db: Db, newcomer: Newcomer, folder: str) -> bool:
    """Return True if a row shuts the newcomer out of their group, or of the one above it."""
    access = sender_rights.read_access(db, newcomer.sender)
    return any(access.judge(each) is None for each in (newcomer.parent, folder))


def _is_routed(db: Db, newcomer: Newcomer, folder: str) -> bool:
    """Return True if what the newcomer writes there reaches their group."""
    return folder in personal_routes.list_reached(db, _get_chat(newcomer))


def _get_chat(newcomer: Newcomer) -> PersonalChat:
    return PersonalChat(newcomer.instance, newcomer.address, newcomer.sender)


def _add_route(db: Db, newcomer: Newcomer, folder: str, now: int) -> Route:
    """Add the route from a newcomer's chat to their group. Unless the operator opened the entrance, it may lead on only
    messages that reach the parent anyway. So an invitation takes no room from another group."""
    chat = _get_chat(newcomer)
    operators = newcomer.entrance_id is not None or newcomer.invited_by == OPERATOR
    by = "gatepost" if operators else f"{routing.MADE_BY}{newcomer.parent}"
    if not operators:
        routing.check_route_count(routes.list_all(db), newcomer.parent, [personal_routes.render_match(chat)])
    return personal_routes.add_route(db, chat, folder, by, now)


def record_failure(db: Db, channels: ChannelInstances, newcomer: Newcomer, why: str, now: int) -> None:
    """Tell the newcomer, and let the operator see why. `gatepost onboarding allow` tries again."""
    if newcomers.fail(db, newcomer.id, why[:LONGEST_REASON]):
        if not _is_shut_out(db, newcomer, newcomer.folder or newcomer.parent):  # to whom nothing is said
            _add_notice(db, channels, newcomer, FAILED, now)
        details = {"newcomer": newcomer.id, "parent": newcomer.parent, "why": why[:LONGEST_REASON]}
        audit.append(db, audit.AuditRecord(now, newcomer.sender, ACTION, "failed", details))


def _add_notice(db: Db, channels: ChannelInstances, newcomer: Newcomer, text: str, now: int) -> None:
    notice = OutgoingMessage(
        key=f"notice:newcomer:{newcomer.id}:{newcomer.admitted_at}",
        origin=EffectOrigin.NOTICE,
        instance=newcomer.instance,
        address=newcomer.address,
        text=text,
    )
    add_outgoing_message(db, channels, notice, now)
