"""Rooms: list them, and say who may talk in one."""

from dataclasses import asdict
from typing import Any, Literal

from gatepost.core.errors import NotFound
from gatepost.messages import address as addresses
from gatepost.serve.control.contract import Args, Nothing, Office, operation, write_down
from gatepost.store import rooms
from gatepost.store.port import Db


class Policy(Args, frozen=True):
    address: str
    policy: Literal["strict", "request_approval", "public"]
    instance: str = ""  # '': named like the platform


@operation("room.list", Nothing)
async def every(office: Office, args: Nothing) -> list[dict[str, Any]]:
    return [{**asdict(room), "direct": bool(room.direct)} for room in await office.store.read(rooms.every)]


@operation("room.policy", Policy)
async def set_policy(office: Office, args: Policy) -> dict[str, Any]:
    address = addresses.parse(args.address)
    instance = args.instance or address.platform
    details = {"instance": instance, "address": args.address, "policy": args.policy}

    def update(db: Db) -> dict[str, Any]:
        if not rooms.set_policy(db, instance, args.address, args.policy):
            raise NotFound("room", f"{instance} {args.address}", "a room is known once something was said in it")
        return details

    return await write_down(office, "room.policy", details, update)
