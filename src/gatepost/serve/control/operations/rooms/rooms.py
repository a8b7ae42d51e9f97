"""Rooms: list them, and say who may talk in one."""

from gatepost.flow.channel_specs import check_platform
from gatepost.messages import address as addresses
from gatepost.serve.control.arguments.rooms.rooms import ListRoomsArgs, RoomPolicyArgs, RoomPolicyResult
from gatepost.serve.control.contract import OperationDeps, operation, read_operation
from gatepost.store.port import Db
from gatepost.store.rooms import rooms
from gatepost.store.rooms.rooms import Room


@read_operation
def list_rooms(db: Db, args: ListRoomsArgs, now: int) -> list[Room]:
    return rooms.list_all(db)


@operation
async def set_policy(deps: OperationDeps, args: RoomPolicyArgs) -> RoomPolicyResult:
    address = addresses.parse(args.address)
    check_platform(deps.home, "address", address.platform)
    instance = args.instance or address.platform
    now = deps.clock.now()

    def update(db: Db) -> RoomPolicyResult:
        """Set the policy, and add the room if it is unknown: a refused sender leaves no room, so a policy may come
        first."""
        known = rooms.set_policy(db, instance, args.address, args.policy)
        if not known:
            rooms.add(db, instance, args.address, "", False, args.policy, now)
        return RoomPolicyResult(instance, args.address, args.policy, not known)

    return await deps.write(update, instance=instance)
