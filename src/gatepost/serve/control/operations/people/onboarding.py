"""Newcomers: open and close entrances, list who came, let in, deny."""

from gatepost.access.tiers import ROOT_FOLDER
from gatepost.core.errors import Invalid, NotFound
from gatepost.flow.intake.patterns import compile_glob
from gatepost.messages.text import clean
from gatepost.serve.control.arguments.people.onboarding import (
    AllowNewcomerArgs,
    CloseEntranceArgs,
    DenyNewcomerArgs,
    ListNewcomersArgs,
    OnboardingOverview,
    OpenEntranceArgs,
)
from gatepost.serve.control.contract import OperationDeps, operation, read_operation
from gatepost.store.people import newcomers
from gatepost.store.people.newcomers import Entrance, Newcomer
from gatepost.store.port import Db
from gatepost.store.sessions import groups


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
async def allow(deps: OperationDeps, args: AllowNewcomerArgs) -> Newcomer:
    now = deps.clock.now()

    def admit(db: Db) -> Newcomer:
        _get(db, args.id)
        admitted = newcomers.admit(db, args.id, deps.caller, now)
        if admitted is None:
            raise Invalid("id", f"{args.id} is in already")
        return admitted

    admitted = await deps.write(admit)
    deps.events.newcomers()
    return admitted


@operation
async def deny(deps: OperationDeps, args: DenyNewcomerArgs) -> Newcomer:
    def refuse(db: Db) -> Newcomer:
        known = _get(db, args.id)
        denied = newcomers.deny(db, args.id, deps.caller, clean(args.reason))
        if denied is None:
            raise Invalid("id", f"{args.id} is {known.state} and does not wait; `gatepost user` takes rights away")
        return denied

    return await deps.write(refuse)


def _get(db: Db, newcomer_id: str) -> Newcomer:
    found = newcomers.get(db, newcomer_id)
    if found is None:
        raise NotFound("newcomer", newcomer_id[:80], "`gatepost onboarding list` shows them")
    return found
