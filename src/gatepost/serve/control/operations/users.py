"""People: make one known, give a role, let into a group, bind further identities, list, show, forget. Newcomers: open
and close entrances, list who came, let in, deny."""

from collections.abc import Callable

from gatepost.core.errors import Invalid, NotFound, Refused
from gatepost.core.languages.catalogue import list_languages
from gatepost.core.process.home_lock import read_holder
from gatepost.core.records import asdict, extend, replace
from gatepost.flow import grant_changes, pairing
from gatepost.flow.channel_specs import check_platform
from gatepost.flow.groups import OWNER
from gatepost.flow.intake.patterns import compile_glob
from gatepost.flow.people import personal_routes
from gatepost.flow.people.person_erasure import PersonErasure
from gatepost.flow.reports import ErasureReport
from gatepost.flow.requests import unknown_senders
from gatepost.flow.sender_rights import read_operation_rights
from gatepost.messages import address as addresses
from gatepost.messages.inbound import OPERATOR
from gatepost.messages.text import clean
from gatepost.serve.control.arguments import routes
from gatepost.serve.control.arguments.users import (
    USERS_WRITE,
    AddMemberArgs,
    AddUserArgs,
    AllowNewcomerArgs,
    AllowUserArgs,
    BlockUserArgs,
    ChooseLanguageArgs,
    CloseEntranceArgs,
    DenyNewcomerArgs,
    ForgetUserArgs,
    GiveRoleArgs,
    ListNewcomersArgs,
    ListUsersArgs,
    OnboardingOverview,
    OpenEntranceArgs,
    PairingCode,
    PairUserArgs,
    RenameUserArgs,
    ShowUserArgs,
    SpeakArgs,
    UnblockUserArgs,
    UnpairedIdentity,
    UnpairUserArgs,
    UserDetails,
    ViewAsUserArgs,
    ViewedPerson,
)
from gatepost.serve.control.contract import OperationDeps, operation, read_operation
from gatepost.serve.control.rights import ROOT_FOLDER, has_right
from gatepost.store.people import identities, newcomers, users
from gatepost.store.people.newcomers import Entrance, Newcomer
from gatepost.store.people.pairing_codes import LASTS
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import acl
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.rights.tokens import MOST_LINKS
from gatepost.store.rooms import direct_rooms
from gatepost.store.sessions import groups


def _read_user(db: Db, identity: str) -> UserDetails:
    names = identities.list_names(db, identity)
    user = users.get(db, names[0])
    if user is None:
        raise NotFound("user", identity, "`gatepost user list` shows them")
    rooms = tuple(room.address for room in direct_rooms.list_for_people(db, names[:1]))
    return extend(UserDetails, user, **asdict(users.get_roles(db, user.id)), identities=names, direct_rooms=rooms)


@read_operation
def list_users(db: Db, args: ListUsersArgs, now: int) -> list[UserDetails]:
    return [_read_user(db, user.id) for user in users.list_all(db)]


@read_operation
def show(db: Db, args: ShowUserArgs, now: int) -> UserDetails:
    return _read_user(db, args.id)


@operation
async def view(deps: OperationDeps, args: ViewAsUserArgs) -> ViewedPerson:
    """Only the record is written here: the page keeps in the browser whom it is shown as."""

    def find(db: Db) -> ViewedPerson:
        if deps.caller != OPERATOR and not read_operation_rights(db, deps.caller).is_operator:
            raise Refused(deps.caller, "view as", args.id[:80], "only owners see the page as somebody else does")
        if not args.id:
            return ViewedPerson("", "")
        person = _read_user(db, args.id)
        return ViewedPerson(person.id, person.name or person.id)

    return await deps.write(find)


@operation
async def add(deps: OperationDeps, args: AddUserArgs) -> UserDetails:
    addresses.parse(args.id, "id", addresses.LIKE_USER)
    now = deps.clock.now()

    def insert(db: Db) -> UserDetails:
        users.add(db, identities.get_person(db, args.id), clean(args.name), now)
        return _read_user(db, args.id)

    return await deps.write(insert)


@operation
async def rename(deps: OperationDeps, args: RenameUserArgs) -> UserDetails:
    name = " ".join(clean(args.name).split())
    if not name:
        raise Invalid("name", "it has no letters")

    def change(db: Db) -> UserDetails:
        if not users.set_name(db, identities.get_person(db, args.id), name):
            raise NotFound("user", args.id, "`gatepost user list` shows them")
        return _read_user(db, args.id)

    return await deps.write(change)


@operation
async def choose_language(deps: OperationDeps, args: ChooseLanguageArgs) -> UserDetails:
    if args.language and args.language not in list_languages():
        raise Invalid("language", f"there are no texts in it; there are: {', '.join(list_languages())}")

    def change(db: Db) -> UserDetails:
        caller = OWNER if deps.caller == OPERATOR else deps.caller
        person = identities.get_person(db, args.id or caller)
        if person != identities.get_person(db, caller) and not has_right(db, caller, f"op:{USERS_WRITE}", ROOT_FOLDER):
            raise Refused(caller, "choose the language of", person, f"it needs op:{USERS_WRITE}")
        if not users.set_language(db, person, args.language):
            raise NotFound("user", person, "`gatepost user list` shows them")
        return _read_user(db, person)

    return await deps.write(change)


@operation
async def give_role(deps: OperationDeps, args: GiveRoleArgs) -> UserDetails:
    now = deps.clock.now()
    return await _change(
        deps, args, lambda db, person: users.add_role(db, person, args.role, args.folder, deps.caller, now)
    )


@operation
async def add_group_member(deps: OperationDeps, args: AddMemberArgs) -> UserDetails:
    if not args.folder:
        raise Invalid("folder", "name the group; `gatepost group list` shows them")
    now = deps.clock.now()
    return await _change(deps, args, lambda db, person: users.add_member(db, person, args.folder, deps.caller, now))


@operation
async def pair(deps: OperationDeps, args: PairUserArgs) -> PairingCode:
    now = deps.clock.now()
    if args.link:
        return await _issue_link(deps, args.id, now)

    def issue(db: Db) -> PairingCode:
        person = identities.get_person(db, args.id or OWNER)
        code = pairing.issue_code(db, person, deps.caller, now)
        return PairingCode(code=code, person=person, expires_at=now + LASTS)

    return await deps.write(issue, id=args.id or OWNER)


async def _issue_link(deps: OperationDeps, identity: str, now: int) -> PairingCode:
    if not identity:
        raise Invalid("id", "is missing: a link is for one identity, like telegram:user/9")
    addresses.parse(identity, "id", addresses.LIKE_USER)
    holder = read_holder(deps.home)
    base = pairing.get_page_url(deps.config, holder.listen if holder is not None else "")
    if not base:
        raise Invalid("link", "no browser can open the web page where it listens; set web.url to its address")

    def issue(db: Db) -> PairingCode:
        link = pairing.issue_link(db, identity, deps.caller, base, now)
        if not link:
            raise Refused(deps.caller, "pair", identity, f"{MOST_LINKS} links are open; wait ten minutes")
        return PairingCode(link=link, identity=identity, expires_at=now + LASTS)

    return await deps.write(issue)


@operation
async def unpair(deps: OperationDeps, args: UnpairUserArgs) -> UnpairedIdentity:
    removed = await deps.write(lambda db: pairing.unpair(db, args.identity))
    deps.events.tools()
    deps.events.requests()
    return UnpairedIdentity(removed.identity, removed.person)


@operation
async def block(deps: OperationDeps, args: BlockUserArgs) -> AclRow:
    return await _write_row(deps, args, AclEffect.DENY)


@operation
async def allow(deps: OperationDeps, args: AllowUserArgs) -> AclRow:
    return await _write_row(deps, args, AclEffect.ALLOW)


@operation
async def unblock(deps: OperationDeps, args: UnblockUserArgs) -> AclRow:
    who, scope = parse_who(args.who), _make_scope(args)

    def remove(db: Db) -> AclRow:
        row = grant_changes.remove_block(db, who, scope)
        if row is None:
            where = f"in {args.folder}" if args.folder else "everywhere"
            raise NotFound("block", f"{args.who} {where}", "`gatepost grant list` shows the rows of the access list")
        return row

    row = await deps.write(remove)
    deps.events.tools(None)
    return row


def _make_scope(args: SpeakArgs) -> str:
    return f"{args.folder}/**" if args.folder else acl.ANYWHERE


async def _write_row(deps: OperationDeps, args: SpeakArgs, effect: AclEffect) -> AclRow:
    giver = acl.OPERATOR if deps.caller == OPERATOR else deps.caller
    scope = _make_scope(args)
    new = AclRow(id=0, principal=parse_who(args.who), action="interact", scope=scope, effect=effect, granted_by=giver)
    check_platform(deps.home, "who", args.who.partition(":")[0])
    now = deps.clock.now()

    def write(db: Db) -> AclRow:
        if args.folder and groups.get(db, args.folder) is None:
            raise NotFound("group", args.folder, "`gatepost group list` shows them")
        if effect is AclEffect.DENY and (UserRole.OWNER, "") in users.get_roles(db, new.principal).roles:
            raise Invalid("who", f"{args.who} is an owner, whom no row shuts out")
        row = grant_changes.replace_opposite(db, new, now)
        unknown_senders.hurry(db, new.principal, now)
        return row

    row = await deps.write(write)
    deps.events.tools(None)
    deps.events.requests()
    return row


def parse_who(who: str) -> str:
    """`telegram:*` is everybody there, also those with slashes in their names."""
    addresses.parse(who, "who", addresses.LIKE_USER)
    if who.endswith(":*"):
        return f"{who}*"
    if "*" in who:
        raise Invalid("who", f"{who!r}: a star stands for a whole platform, as in telegram:*")
    return who


@operation
async def forget(deps: OperationDeps, args: ForgetUserArgs) -> ErasureReport:
    addresses.parse(args.id, "id", addresses.LIKE_USER)
    running = deps.extra.get("erasure")
    erasure = running if isinstance(running, PersonErasure) else PersonErasure(deps.home, deps.store, deps.clock)
    if not args.erase:
        return await erasure.describe(args.id)
    done = await erasure.erase(args.id, deps.caller)
    deps.refusals.discard(lambda counted: counted[0] in done.identities)
    deps.events.tools()
    return done


async def _change(
    deps: OperationDeps, args: GiveRoleArgs | AddMemberArgs, change: Callable[[Db, str], object]
) -> UserDetails:
    def insert(db: Db) -> UserDetails:
        person = identities.get_person(db, args.id)
        if users.get(db, person) is None:
            raise NotFound("user", args.id, f"`gatepost user add {args.id}` makes them known")
        if args.folder and groups.get(db, args.folder) is None:
            raise NotFound("group", args.folder, "`gatepost group list` shows them")
        change(db, person)
        unknown_senders.hurry(db, person, deps.clock.now())
        if deps.caller == OPERATOR or has_right(db, deps.caller, f"op:{routes.WRITE}", ROOT_FOLDER):
            personal_routes.add_page_route(db, person, deps.clock.now())
        return _read_user(db, args.id)

    answer = await deps.write(insert)
    deps.events.requests()
    if deps.caller == OPERATOR or not args.folder:
        return answer
    # The right is for this group alone.
    return replace(
        answer,
        roles=tuple(each for each in answer.roles if each[1] == args.folder),
        member_of=tuple(each for each in answer.member_of if each == args.folder),
        identities=(args.id,),
        direct_rooms=(),
    )


@operation
async def open_entrance(deps: OperationDeps, args: OpenEntranceArgs) -> Entrance:
    try:
        compile_glob(args.senders)
    except Invalid as error:
        raise Invalid("senders", error.why) from None
    if args.folder == ROOT_FOLDER:
        raise Invalid("folder", "root has no groups below it")
    now = deps.clock.now()

    def insert(db: Db) -> Entrance:
        if groups.get(db, args.folder) is None:
            raise NotFound("group", args.folder, "`gatepost group list` shows them")
        return newcomers.add_entrance(db, args.instance, args.senders, args.folder, args.per_day, deps.caller, now)

    made = await deps.write(insert)
    deps.events.newcomers()  # a higher limit may be somebody's turn
    return made


@operation
async def close_entrance(deps: OperationDeps, args: CloseEntranceArgs) -> Entrance:
    def delete(db: Db) -> Entrance:
        closed = newcomers.remove_entrance(db, args.id)
        if closed is None:
            raise NotFound("entrance", str(args.id), "`gatepost onboarding list` shows them")
        return closed

    return await deps.write(delete)


@read_operation
def list_newcomers(db: Db, args: ListNewcomersArgs, now: int) -> OnboardingOverview:
    return OnboardingOverview(newcomers.list_entrances(db), newcomers.list_all(db))


@operation
async def allow_newcomer(deps: OperationDeps, args: AllowNewcomerArgs) -> Newcomer:
    now = deps.clock.now()

    def admit(db: Db) -> Newcomer:
        _get_newcomer(db, args.id)
        admitted = newcomers.admit(db, args.id, deps.caller, now)
        if admitted is None:
            raise Invalid("id", f"{args.id} is in already")
        return admitted

    admitted = await deps.write(admit)
    deps.events.newcomers()
    return admitted


@operation
async def deny_newcomer(deps: OperationDeps, args: DenyNewcomerArgs) -> Newcomer:
    def refuse(db: Db) -> Newcomer:
        known = _get_newcomer(db, args.id)
        denied = newcomers.deny(db, args.id, deps.caller, clean(args.reason))
        if denied is None:
            raise Invalid("id", f"{args.id} is {known.state} and does not wait; `gatepost user` takes rights away")
        return denied

    return await deps.write(refuse)


def _get_newcomer(db: Db, newcomer_id: str) -> Newcomer:
    found = newcomers.get(db, newcomer_id)
    if found is None:
        raise NotFound("newcomer", newcomer_id[:80], "`gatepost onboarding list` shows them")
    return found
