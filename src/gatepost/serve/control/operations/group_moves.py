"""Groups that move to another gateway: the operation says what is wanted, the gateways do it."""

import asyncio

from gatepost.core.errors import Invalid, NotFound
from gatepost.flow.gateways.folder_check import NOWHERE, FolderElsewhere
from gatepost.flow.gateways.group_place import PLACE
from gatepost.flow.groups.groups import complete_folders
from gatepost.serve.control.arguments.group_moves import GroupMoveView, MoveGroupArgs
from gatepost.serve.control.contract import OperationDeps, operation
from gatepost.store.gateways import gateways, group_moves, group_places
from gatepost.store.gateways.gateway_checks import is_living
from gatepost.store.gateways.group_moves import GroupMove, GroupMoveState
from gatepost.store.gateways.shared_folders import GroupPlace
from gatepost.store.port import Db, LockKind, Store
from gatepost.store.sessions import groups, worktrees

LOOK_S = 0.2
ALONE = "this store is a file of one machine, so it has one gateway; docs/scale.md tells how several share one"
SHARED = "groups lie in a folder that all gateways share (groups.place), so each of them runs them; nothing is to move"
LOST = "; if it never comes back, --without-files moves the group without them"
_SETTLED = (GroupMoveState.ARRIVED, GroupMoveState.DONE, GroupMoveState.FAILED)


def make_view(move: GroupMove) -> GroupMoveView:
    return GroupMoveView(
        world=move.world,
        source=move.source,
        target=move.target,
        state=move.state,
        files=move.files,
        bytes=move.bytes,
        note=move.note,
    )


@operation
async def move_group(deps: OperationDeps, args: MoveGroupArgs) -> GroupMoveView:
    if not await deps.store.read(gateways.count):
        raise Invalid("gateway", ALONE)
    if deps.config[PLACE] == GroupPlace.SHARED:
        raise Invalid("groups.place", SHARED)
    if args.without_files:
        return await _move_without_files(deps, args)
    now = deps.clock.now()
    begun = await deps.write(lambda db: begin_move(db, args.folder, args.gateway, now))
    deps.events.gateways()
    found = await _wait(deps.store, begun, args.wait_s)
    if found.state is GroupMoveState.FAILED and begun.state is not GroupMoveState.FAILED:
        raise Invalid("folder", f"{found.world} stays on {found.source}; {found.note}")
    return make_view(found)


class _AtTarget(FolderElsewhere):
    """The target itself takes it in, because it has the folder where the group is to lie."""

    def __init__(self, world: str, target: str) -> None:
        way = "start the gateway of this home, or run this there"
        Invalid.__init__(self, "gateway", f"{target} has to make the folder of {world} itself; {way}")
        self.gateway = target


async def _move_without_files(deps: OperationDeps, args: MoveGroupArgs) -> GroupMoveView:
    """Move a group whose files are lost: first its folder, then the rows, as for a new group. Files that are there
    stay."""
    world, now = group_places.get_world(args.folder), deps.clock.now()
    source: str = await deps.store.read(find_lost_source, args.folder, args.gateway, now)
    if deps.home.gateway != args.gateway:
        raise _AtTarget(world, args.gateway)
    made = [each for each in await deps.store.read(groups.list_all) if group_places.get_world(each.folder) == world]
    await asyncio.to_thread(complete_folders, deps.home, made)

    def change(db: Db) -> GroupMove:
        db.lock(LockKind.RULES, f"move:{world}")
        if find_lost_source(db, args.folder, args.gateway, now) != source or not gateways.hold_gone(db, source):
            raise Invalid("gateway", f"{source} has come back; move {world} with its files")
        _end_open_move(db, world, now)
        return group_moves.move_without_files(db, world, source, args.gateway, now)

    moved = await deps.write(change, source=source, conversations="begin anew")
    deps.events.gateways()
    return make_view(moved)


def find_lost_source(db: Db, folder: str, target: str, now: int) -> str:
    """The gateway that had a group's files and is gone. Raises why the group cannot be moved without them."""
    world, source = _find_places(db, folder, target)
    row = gateways.get(db, source)
    if row is not None and is_living(row, now):
        raise Invalid("without_files", f"{source} runs and has the files of {world}; move it with them")
    if row is not None and row.state is not gateways.GatewayState.GONE:
        raise Invalid("gateway", f"nobody has taken over from {source} yet; try again in some seconds")
    _check_living(db, target, now, "it cannot take anything")
    known = group_moves.find_open(db, world)
    if known is not None and known.state is GroupMoveState.PACKED and _is_living(db, known.target, now):
        way = f"`gatepost group move {world} {known.target}` waits until they are there"
        raise Invalid("without_files", f"the files of {world} are on their way to {known.target}; {way}")
    if known is not None and known.state is GroupMoveState.ARRIVED and _is_living(db, known.source, now):
        raise Invalid("gateway", f"{known.source} removes what {world} left there; try again in some seconds")
    return source


def _end_open_move(db: Db, world: str, now: int) -> None:
    """Mark a move that was under way as failed. Files that it has left on either gateway stay there."""
    if (known := group_moves.find_open(db, world)) is not None:
        group_moves.set_failed(db, known, "it was moved without its files", now)
        group_moves.set_done(db, known, now)


async def _wait(store: Store, move: GroupMove, wait_s: float) -> GroupMove:
    until = asyncio.get_running_loop().time() + wait_s
    while move.state not in _SETTLED and asyncio.get_running_loop().time() < until:
        await asyncio.sleep(LOOK_S)
        found: GroupMove | None = await store.read(group_moves.get, move.id)
        move = move if found is None else found
    return move


def begin_move(db: Db, folder: str, target: str, now: int) -> GroupMove:
    """The move that is wanted: a new one, or the one that is under way."""
    world = group_places.get_world(folder)
    db.lock(LockKind.RULES, f"move:{world}")
    _check_known(db, folder, target)
    if (known := group_moves.find_open(db, world)) is not None:
        return _go_on(db, known, group_places.find_gateway(db, folder), target, now)
    _, source = _find_places(db, folder, target)
    _check_living(db, source, now, f"the files of {world} are there", LOST)
    _check_living(db, target, now, "it cannot take anything")
    used = [each.name for each in worktrees.list_all(db) if group_places.get_world(each.folder) == world]
    if used:
        names = ", ".join(used[:5])
        raise Invalid("folder", f"{world} has worktrees on {source}: {names}; `gatepost worktree archive` them first")
    return group_moves.add(db, world, source, target, now)


def _check_known(db: Db, folder: str, target: str) -> None:
    if groups.get(db, folder) is None:
        raise NotFound("group", folder, "`gatepost group list` shows them")
    if gateways.get(db, target) is None:
        raise NotFound("gateway", target, "`gatepost gateway list` shows them")


def _find_places(db: Db, folder: str, target: str) -> tuple[str, str]:
    """The world, and the gateway that has it, which is another than the target."""
    _check_known(db, folder, target)
    world, source = group_places.get_world(folder), group_places.find_gateway(db, folder)
    if source == target:
        raise Invalid("gateway", f"{world} is on {target} already")
    if not source:
        raise Invalid("folder", f"{world} is on no gateway yet: {NOWHERE}")
    return world, source


def _go_on(db: Db, known: GroupMove, source: str, target: str, now: int) -> GroupMove:
    if known.state is GroupMoveState.ARRIVED:
        if target == known.target:
            return known
        why = f"start it, or `gatepost gateway forget {known.source}`"
        raise Invalid("gateway", f"{known.source} has yet to remove what {known.world} left there; {why}")
    if target == known.target:
        return known
    if target == source:
        group_moves.set_failed(db, known, "it was given up", now)
        return group_moves.get(db, known.id) or known
    raise Invalid(
        "gateway", f"{known.world} is on its way to {known.target}; `group move {known.world} {source}` ends it"
    )


def _is_living(db: Db, name: str, now: int) -> bool:
    row = gateways.get(db, name)
    return row is not None and is_living(row, now)


def _check_living(db: Db, name: str, now: int, why: str, otherwise: str = "") -> None:
    row = gateways.get(db, name)
    if row is None or not is_living(row, now):
        raise Invalid("gateway", f"{name} is away, and {why}; start it first{otherwise}")
    if row.state is gateways.GatewayState.DRAINING:
        raise Invalid("gateway", f"{name} is being drained; start it again first")
