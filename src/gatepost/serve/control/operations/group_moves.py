"""Groups that move to another gateway: the operation says what is wanted, the gateways do it."""

import asyncio

from msgspec import Struct

from gatepost.core.errors import Invalid, NotFound
from gatepost.flow.gateways.folder_check import NOWHERE
from gatepost.flow.gateways.group_place import PLACE, GroupPlace
from gatepost.serve.control.arguments.group_moves import MoveGroupArgs
from gatepost.serve.control.contract import OperationDeps, operation
from gatepost.store import gateways, group_moves, group_places, groups, worktrees
from gatepost.store.gateway_checks import is_living
from gatepost.store.group_moves import GroupMove, GroupMoveState
from gatepost.store.port import Db, LockKind, Store

LOOK_S = 0.2
ALONE = "this store is a file of one machine, so it has one gateway; docs/scale.md tells how several share one"
SHARED = "groups lie in a folder that all gateways share (groups.place), so each of them runs them; nothing is to move"
_SETTLED = (GroupMoveState.ARRIVED, GroupMoveState.DONE, GroupMoveState.FAILED)


class GroupMoveView(Struct, frozen=True, kw_only=True):
    """`state`: arrived or done, if the target has it."""

    world: str
    source: str
    target: str
    state: GroupMoveState
    files: int
    bytes: int
    note: str = ""


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
    now = deps.clock.now()
    begun = await deps.write(lambda db: begin_move(db, args.folder, args.gateway, now))
    deps.bells.gateways()
    found = await _wait(deps.store, begun, args.wait_s)
    if found.state is GroupMoveState.FAILED and begun.state is not GroupMoveState.FAILED:
        raise Invalid("folder", f"{found.world} stays on {found.source}; {found.note}")
    return make_view(found)


async def _wait(store: Store, move: GroupMove, wait_s: float) -> GroupMove:
    until = asyncio.get_running_loop().time() + wait_s
    while move.state not in _SETTLED and asyncio.get_running_loop().time() < until:
        await asyncio.sleep(LOOK_S)
        found: GroupMove | None = await store.read(group_moves.get, move.id)
        move = move if found is None else found
    return move


def begin_move(db: Db, folder: str, target: str, now: int) -> GroupMove:
    """The move that is wanted: a new one, or the one that is under way."""
    if groups.get(db, folder) is None:
        raise NotFound("group", folder, "`gatepost group list` shows them")
    if gateways.get(db, target) is None:
        raise NotFound("gateway", target, "`gatepost gateway list` shows them")
    world = group_places.get_world(folder)
    db.alone(LockKind.RULES, f"move:{world}")
    source, known = group_places.find_gateway(db, folder), group_moves.find_open(db, world)
    if known is not None:
        return _go_on(db, known, source, target, now)
    if source == target:
        raise Invalid("gateway", f"{world} is on {target} already")
    if not source:
        raise Invalid("folder", f"{world} is on no gateway yet: {NOWHERE}")
    for name in (source, target):
        _check_living(db, name, now, f"the files of {world} are there" if name == source else "it cannot take anything")
    used = [each.name for each in worktrees.list_all(db) if group_places.get_world(each.folder) == world]
    if used:
        names = ", ".join(used[:5])
        raise Invalid("folder", f"{world} has worktrees on {source}: {names}; `gatepost worktree archive` them first")
    return group_moves.add(db, world, source, target, now)


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


def _check_living(db: Db, name: str, now: int, why: str) -> None:
    row = gateways.get(db, name)
    if row is None or not is_living(row, now):
        raise Invalid("gateway", f"{name} is away, and {why}; start it first")
    if row.state is gateways.GatewayState.DRAINING:
        raise Invalid("gateway", f"{name} is being drained; start it again first")
