"""People: make one known, give a role, let into a group, list, show."""

from collections.abc import Callable

from gatepost.core.errors import NotFound
from gatepost.core.records import asdict, replace
from gatepost.messages import address as addresses
from gatepost.messages.text import clean
from gatepost.serve.control.arguments.users import (
    AddMemberArgs,
    AddUserArgs,
    GiveRoleArgs,
    ListUsersArgs,
    ShowUserArgs,
)
from gatepost.serve.control.contract import OPERATOR, OperationDeps, extend, operation, read_operation
from gatepost.store import groups, users
from gatepost.store.port import Db
from gatepost.store.users import User


class UserDetails(User, frozen=True, kw_only=True):
    known: bool
    roles: tuple[tuple[str, str], ...]  # (role, folder); '' is everywhere
    member_of: tuple[str, ...]


def _read_user(db: Db, user_id: str) -> UserDetails:
    user = users.get(db, user_id)
    if user is None:
        raise NotFound("user", user_id, "`gatepost user list` shows them")
    return extend(UserDetails, user, **asdict(users.get_roles(db, user_id)))


@read_operation
def list_users(db: Db, args: ListUsersArgs, now: int) -> list[UserDetails]:
    return [_read_user(db, user.id) for user in users.list_all(db)]


@read_operation
def show(db: Db, args: ShowUserArgs, now: int) -> UserDetails:
    return _read_user(db, args.id)


@operation
async def add(deps: OperationDeps, args: AddUserArgs) -> UserDetails:
    addresses.parse(args.id, "id")
    now = deps.clock.now()

    def insert(db: Db) -> UserDetails:
        users.add(db, args.id, clean(args.name), now)
        return _read_user(db, args.id)

    return await deps.write(insert)


@operation
async def give_role(deps: OperationDeps, args: GiveRoleArgs) -> UserDetails:
    now = deps.clock.now()
    return await _change(deps, args, lambda db: users.add_role(db, args.id, args.role, args.folder, deps.caller, now))


@operation
async def add_group_member(deps: OperationDeps, args: AddMemberArgs) -> UserDetails:
    now = deps.clock.now()
    return await _change(deps, args, lambda db: users.add_member(db, args.id, args.folder, deps.caller, now))


async def _change(
    deps: OperationDeps, args: GiveRoleArgs | AddMemberArgs, change: Callable[[Db], object]
) -> UserDetails:
    def insert(db: Db) -> UserDetails:
        if users.get(db, args.id) is None:
            raise NotFound("user", args.id, f"`gatepost user add {args.id}` makes them known")
        if args.folder and groups.get(db, args.folder) is None:
            raise NotFound("group", args.folder, "`gatepost group list` shows them")
        change(db)
        return _read_user(db, args.id)

    answer = await deps.write(insert)
    if deps.caller == OPERATOR or not args.folder:
        return answer
    # The right is for this group alone.
    roles = tuple(each for each in answer.roles if each[1] == args.folder)
    return replace(answer, roles=roles, member_of=tuple(each for each in answer.member_of if each == args.folder))
