"""Rooms: list them, and say who may talk in one."""

from typing import Any, Literal

from gatepost.messages import address as addresses
from gatepost.serve.control.contract import NoArgs, OperationArgs, OperationDeps, operation, run_audited, to_json
from gatepost.store import rooms
from gatepost.store.port import Db


class RoomPolicyArgs(OperationArgs, frozen=True):
    address: str
    policy: Literal["strict", "request_approval", "public"]
    instance: str = ""  # '': named like the platform


@operation("room.list", NoArgs)
async def list_rooms(office: OperationDeps, args: NoArgs) -> list[dict[str, Any]]:
    return [{**to_json(room), "direct": bool(room.direct)} for room in await office.store.read(rooms.list_all)]


@operation("room.policy", RoomPolicyArgs)
async def set_policy(office: OperationDeps, args: RoomPolicyArgs) -> dict[str, Any]:
    address = addresses.parse(args.address)
    instance = args.instance or address.platform
    details = {"instance": instance, "address": args.address, "policy": args.policy}
    now = office.clock.now()

    def update(db: Db) -> dict[str, Any]:
        """Whoever is refused leaves no room behind, so the first policy may come before the first word."""
        known = rooms.set_policy(db, instance, args.address, args.policy)
        if not known:
            rooms.add(db, instance, args.address, "", False, args.policy, now)
        return {**details, "new": not known}

    return await run_audited(office, "room.policy", details, update)
