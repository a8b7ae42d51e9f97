"""People: make one known, give a role, let into a group, list, show."""

from typing import Any, Literal

from gatepost.core.errors import NotFound
from gatepost.core.records import asdict
from gatepost.messages import address as addresses
from gatepost.messages.text import clean
from gatepost.serve.control.contract import (
    OPERATOR,
    NoArgs,
    OperationArgs,
    OperationDeps,
    operation,
    run_audited,
    to_json,
)
from gatepost.store import groups, users
from gatepost.store.port import Db


class AddUserArgs(OperationArgs, frozen=True):
    id: str  # the sender's address, telegram:user/9
    name: str = ""


class GiveRoleArgs(OperationArgs, frozen=True):
    id: str
    role: Literal["owner", "admin"]
    folder: str = ""  # '': everywhere


class AddMemberArgs(OperationArgs, frozen=True):
    id: str
    folder: str


class UserArgs(OperationArgs, frozen=True):
    id: str


def _check_exists(db: Db, user_id: str, folder: str = "") -> None:
    if users.get(db, user_id) is None:
        raise NotFound("user", user_id, f"`gatepost user add {user_id}` makes them known")
    if folder and groups.get(db, folder) is None:
        raise NotFound("group", folder, "`gatepost group list` shows them")


def read_user(db: Db, user_id: str) -> dict[str, Any]:
    user = users.get(db, user_id)
    if user is None:
        raise NotFound("user", user_id, "`gatepost user list` shows them")
    return {**to_json(user), **asdict(users.get_roles(db, user_id))}


def list_user_details(db: Db) -> list[dict[str, Any]]:
    return [read_user(db, user.id) for user in users.list_all(db)]


@operation("user.list", NoArgs)
async def list_users(office: OperationDeps, args: NoArgs) -> list[dict[str, Any]]:
    return await office.store.read(list_user_details)


@operation("user.add", AddUserArgs)
async def add(office: OperationDeps, args: AddUserArgs) -> dict[str, Any]:
    addresses.parse(args.id, "id")
    now = office.clock.now()

    def insert(db: Db) -> dict[str, Any]:
        users.add(db, args.id, clean(args.name), now)
        return read_user(db, args.id)

    return await run_audited(office, "user.add", {"id": args.id, "name": args.name}, insert)


@operation("user.role", GiveRoleArgs)
async def give_role(office: OperationDeps, args: GiveRoleArgs) -> dict[str, Any]:
    now = office.clock.now()

    def insert(db: Db) -> dict[str, Any]:
        _check_exists(db, args.id, args.folder)
        users.add_role(db, args.id, args.role, args.folder, OPERATOR, now)
        return read_user(db, args.id)

    return await run_audited(office, "user.role", {"id": args.id, "role": args.role, "folder": args.folder}, insert)


@operation("user.member", AddMemberArgs)
async def add_group_member(office: OperationDeps, args: AddMemberArgs) -> dict[str, Any]:
    now = office.clock.now()

    def insert(db: Db) -> dict[str, Any]:
        _check_exists(db, args.id, args.folder)
        users.add_member(db, args.id, args.folder, OPERATOR, now)
        return read_user(db, args.id)

    return await run_audited(office, "user.member", {"id": args.id, "folder": args.folder}, insert)


@operation("user.show", UserArgs)
async def show(office: OperationDeps, args: UserArgs) -> dict[str, Any]:
    return await office.store.read(read_user, args.id)
