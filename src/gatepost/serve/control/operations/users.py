"""People: make one known, give a role, let into a group, list, show."""

from dataclasses import asdict
from typing import Any, Literal

from gatepost.core.errors import NotFound
from gatepost.messages import address as addresses
from gatepost.messages.text import clean
from gatepost.serve.control.contract import OPERATOR, Args, Nothing, Office, as_told, operation, write_down
from gatepost.store import groups, users
from gatepost.store.port import Db


class Add(Args, frozen=True):
    id: str  # the sender's address, telegram:user/9
    name: str = ""


class Role(Args, frozen=True):
    id: str
    role: Literal["owner", "admin"]
    folder: str = ""  # '': everywhere


class Member(Args, frozen=True):
    id: str
    folder: str


class Named(Args, frozen=True):
    id: str


def _known(db: Db, user_id: str, folder: str = "") -> None:
    if users.get(db, user_id) is None:
        raise NotFound("user", user_id, f"`gatepost user add {user_id}` makes them known")
    if folder and groups.get(db, folder) is None:
        raise NotFound("group", folder, "`gatepost group list` shows them")


def shown(db: Db, user_id: str) -> dict[str, Any]:
    user = users.get(db, user_id)
    if user is None:
        raise NotFound("user", user_id, "`gatepost user list` shows them")
    return {**as_told(user), **asdict(users.standing(db, user_id))}


def all_shown(db: Db) -> list[dict[str, Any]]:
    return [shown(db, user.id) for user in users.every(db)]


@operation("user.list", Nothing)
async def every(office: Office, args: Nothing) -> list[dict[str, Any]]:
    return await office.store.read(all_shown)


@operation("user.add", Add)
async def add(office: Office, args: Add) -> dict[str, Any]:
    addresses.parse(args.id, "id")
    now = office.clock.now()

    def insert(db: Db) -> dict[str, Any]:
        users.add(db, args.id, clean(args.name), now)
        return shown(db, args.id)

    return await write_down(office, "user.add", {"id": args.id, "name": args.name}, insert)


@operation("user.role", Role)
async def give_role(office: Office, args: Role) -> dict[str, Any]:
    now = office.clock.now()

    def insert(db: Db) -> dict[str, Any]:
        _known(db, args.id, args.folder)
        users.give_role(db, args.id, args.role, args.folder, OPERATOR, now)
        return shown(db, args.id)

    return await write_down(office, "user.role", {"id": args.id, "role": args.role, "folder": args.folder}, insert)


@operation("user.member", Member)
async def let_in(office: Office, args: Member) -> dict[str, Any]:
    now = office.clock.now()

    def insert(db: Db) -> dict[str, Any]:
        _known(db, args.id, args.folder)
        users.add_member(db, args.id, args.folder, OPERATOR, now)
        return shown(db, args.id)

    return await write_down(office, "user.member", {"id": args.id, "folder": args.folder}, insert)


@operation("user.show", Named)
async def show(office: Office, args: Named) -> dict[str, Any]:
    return await office.store.read(shown, args.id)
