"""Rooms: list them, and say who may talk in one."""

from typing import Any, Literal

from gatepost.messages import address as addresses
from gatepost.serve.control.contract import Args, Nothing, Office, as_told, operation, write_down
from gatepost.store import rooms
from gatepost.store.port import Db


class Policy(Args, frozen=True):
    address: str
    policy: Literal["strict", "request_approval", "public"]
    instance: str = ""  # '': named like the platform


@operation("room.list", Nothing)
async def every(office: Office, args: Nothing) -> list[dict[str, Any]]:
    return [{**as_told(room), "direct": bool(room.direct)} for room in await office.store.read(rooms.every)]


@operation("room.policy", Policy)
async def set_policy(office: Office, args: Policy) -> dict[str, Any]:
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

    return await write_down(office, "room.policy", details, update)
