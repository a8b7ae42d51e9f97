"""Groups: add, list, show, set, remove."""

import json
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from gatepost.access.tiers import check_folder, tier_of
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.home import Home
from gatepost.core.name_suggestions import did_you_mean
from gatepost.core.records import extend, replace
from gatepost.core.settings import Config
from gatepost.egress.endpoints import OPTIONS as ENDPOINT_OPTIONS
from gatepost.egress.endpoints import read_own_base
from gatepost.flow.gateways.folder_check import FolderElsewhere, claim_folder_here, find_elsewhere
from gatepost.flow.groups.group_removal import archived_worktrees, find_leftovers, remove_leftovers
from gatepost.flow.groups.groups import DEFAULTS, make_group
from gatepost.flow.requests import unknown_senders
from gatepost.flow.sessions.host.host_uids import group_uid
from gatepost.flow.sessions.sandbox.extra_mounts import (
    find_key_file,
    grant_mounts,
    may_write,
    parse_mount_request,
    parse_mount_requests,
)
from gatepost.flow.sessions.sandbox.group_limits import read_limit
from gatepost.flow.sessions.sandbox.provider_specs import list_provider_names, load_spec
from gatepost.flow.sessions.session_deps import PROVIDER
from gatepost.messages.text import clean
from gatepost.sandboxes.contract import SANDBOXES
from gatepost.serve.control.arguments.rooms.groups import (
    AddGroupArgs,
    GroupDetails,
    GroupRemoval,
    GroupView,
    ListGroupsArgs,
    RemoveGroupArgs,
    SetGroupArgs,
    SetGroupResult,
    ShowGroupArgs,
)
from gatepost.serve.control.contract import OperationDeps, operation, read_operation
from gatepost.store.gateways import gateways, group_moves, group_places
from gatepost.store.gateways.gateway_checks import is_living
from gatepost.store.messages import destinations, inbox
from gatepost.store.messages.inbox import InboxState
from gatepost.store.port import Db
from gatepost.store.rooms import routes
from gatepost.store.schedule import tasks
from gatepost.store.sessions import groups, sessions, turns, worktrees
from gatepost.store.sessions.groups import Group

_NUMBERS = ("window_messages", "window_chars")
_TEXTS = ("name", "model")
_OPEN = {"yes": 1, "no": 0}
OPTION, LIMIT, MOUNTS = "options.", "limits.", "mounts"
_LATER = "(a file added since the start is seen after a restart)"


def check_provider(home: Home, name: str) -> str:
    """'' is the gateway's default."""
    known = list_provider_names(home)
    if name and name not in known:
        near = did_you_mean(name, known)
        raise Invalid("provider", f"there is no provider {name!r}; there are: {', '.join(known)}{near}")
    if name:
        load_spec(home, name)  # what its file declares can be, or it is refused now
    return name


def _make_view(group: Group) -> GroupView:
    return extend(GroupView, group, tier=int(tier_of(group.folder)))


def _get_view(db: Db, folder: str) -> GroupView:
    group = groups.get(db, folder)
    if group is None:
        raise NotFound("group", folder, "`gatepost group list` shows them")
    return _make_view(group)


@operation
async def add(deps: OperationDeps, args: AddGroupArgs) -> GroupView:
    folder = check_folder(args.folder)
    provider = check_provider(deps.home, args.provider)
    name = clean(args.name).strip() or folder.rpartition("/")[2]
    now = deps.clock.now()

    taken = Invalid("folder", f"there is a group {folder!r} already; `gatepost group set` changes it")

    def insert(db: Db) -> GroupView:
        if not groups.add(db, folder, name, provider, now):
            raise taken
        claim_folder_here(db, deps.home, folder, now)
        return _get_view(db, folder)

    if await deps.store.read(groups.get, folder) is not None:
        raise taken
    uid = await group_uid(deps.store, deps.config, deps.clock, folder)
    return await make_group(deps.store, deps.home, folder, uid, partial(deps.write, insert, name=name), name=name)


@read_operation
def list_groups(db: Db, args: ListGroupsArgs, now: int) -> list[GroupView]:
    return list(map(_make_view, groups.list_all(db)))


@read_operation
def show(db: Db, args: ShowGroupArgs, now: int) -> GroupDetails:
    view, gateway = _get_view(db, args.folder), group_places.find_gateway(db, args.folder)
    move = group_moves.find_open(db, group_places.get_world(args.folder)) if gateway else None
    return extend(
        GroupDetails,
        view,
        routes=[route for route in routes.list_all(db) if route.folder == args.folder],
        destinations=destinations.list_for_group(db, args.folder),
        sessions=sessions.list_open(db, args.folder),
        gateway=gateway,
        moves_to=move.target if move is not None and move.target != gateway else "",
    )


@operation
async def set_values(deps: OperationDeps, args: SetGroupArgs) -> SetGroupResult:
    limits, mounts, rest = _split_values(args.values)
    values = {key: value for name, raw in rest.items() for key, value in [parse_value(deps.home, name, raw)]}
    bounds = {name: read_limit(deps.config, name, raw) for name, raw in limits.items()}
    wishes = None if mounts is None else check_mounts(deps.config, deps.home, mounts)
    if values.get("open") and "/" not in args.folder:
        raise Invalid("open", f"{args.folder} is a world, and worlds have no siblings; open a group below it")
    before = await deps.store.read(groups.get, args.folder)
    freed, notes = reset_model(deps.config, before, values)
    values |= freed
    if wishes is not None:
        uid = await group_uid(deps.store, deps.config, deps.clock, args.folder)
        notes += list_unwritable(deps.config, deps.home, wishes, uid)

    def update(db: Db) -> SetGroupResult:
        if not groups.update(db, args.folder, values):
            raise NotFound("group", args.folder, "`gatepost group list` shows them")
        groups.set_limits(db, args.folder, bounds)
        if wishes is not None:
            groups.set_mounts(db, args.folder, wishes)
        return extend(SetGroupResult, _get_view(db, args.folder), notes=notes)

    told = {**values, **{LIMIT + name: value for name, value in bounds.items()}}
    told |= {} if wishes is None else {MOUNTS: list(wishes)}
    answer = await deps.write(update, values=told)
    deps.events.tools(args.folder)
    deps.events.group(args.folder)
    if bounds:
        for each in await deps.store.read(groups.list_all):
            if each.folder.startswith(args.folder + "/"):  # they may have it from this one
                deps.events.group(each.folder)
    return answer


def reset_model(config: Config, before: Group | None, values: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A model belongs to its provider: with another one, it goes, unless the same command names one. With the word
    for whoever asked."""
    if before is None or not before.model or "provider" not in values or "model" in values:
        return {}, []
    usual = config[PROVIDER]
    if (values["provider"] or usual) == (before.provider or usual):
        return {}, []
    return {"model": ""}, [f"model is now the provider's own; it was {before.model}"]


def list_unwritable(config: Config, home: Home, wishes: Iterable[str], uid: int | None) -> list[str]:
    """A word for each mount that may be written to by our rules, and not by the machine's."""
    granted = [each.mount for each in grant_mounts(config, home, map(parse_mount_request, wishes))]
    return [
        f"{mount.source} is mounted to write, but the user that sandboxes run as"
        f"{'' if uid is None else f' (uid {uid})'} may not: chown or chmod it"
        for mount in granted
        if mount.writable and not may_write(mount.source, uid)
    ]


def _split_values(values: dict[str, str]) -> tuple[dict[str, str], str | None, dict[str, str]]:
    """Limits by their bare names, mounts, and everything else."""
    limits = {name.removeprefix(LIMIT): raw for name, raw in values.items() if name.startswith(LIMIT)}
    rest = {name: raw for name, raw in values.items() if name != MOUNTS and not name.startswith(LIMIT)}
    return limits, values.get(MOUNTS), rest


def check_mounts(config: Config, home: Home, text: str) -> tuple[str, ...]:
    """`/host/path:/workspace/extra/name[:rw],…`, each judged as it will be again when a sandbox starts."""
    wishes = parse_mount_requests(text)
    for granted in grant_mounts(config, home, wishes):
        key = find_key_file(granted)
        if key:
            place = granted.mount.source
            raise Invalid(MOUNTS, f"{place} holds {key}, which is where keys are kept; mount a folder below it")
    return tuple(str(wish) for wish in wishes)


def parse_value(home: Home, name: str, raw: str) -> tuple[str, Any]:
    """One `key=value`, judged: (column or option, value). An empty value is the default."""
    if name.startswith(OPTION) and len(name) > len(OPTION):
        bare = name.removeprefix(OPTION)
        if bare in groups.SETTABLE:
            raise Invalid(name, f"is no provider's option but the group's own: write {bare}=…")
        vendor = next((vendor for vendor, option in ENDPOINT_OPTIONS.items() if option == bare), "")
        if vendor and raw:
            return bare, read_own_base(vendor, raw).url
        return bare, _parse_option(name, raw) if raw else None
    if name in _TEXTS:
        return name, clean(raw)
    if name == "provider":
        return name, check_provider(home, raw)
    if name == "sandbox":
        if raw and raw not in SANDBOXES:
            near = did_you_mean(raw, SANDBOXES)
            raise Invalid("sandbox", f"there is no sandbox {raw!r}; there are: {', '.join(SANDBOXES)} {_LATER}{near}")
        return name, raw
    if name in _NUMBERS:
        if raw and not (raw.isascii() and raw.isdigit() and len(raw) < 10):
            raise Invalid(name, f"{raw[:40]!r} is no whole number below 10⁹; leave it empty for the gateway's default")
        return name, int(raw) if raw else None
    if name == "open":
        if raw not in ("", *_OPEN):
            raise Invalid(name, f"{raw[:40]!r} is neither yes (its siblings may watch it) nor no (sealed, the default)")
        return name, _OPEN.get(raw, 0)
    keys = ("name", "provider", "model", "sandbox", "open", *_NUMBERS, MOUNTS)
    known = ", ".join((*keys, f"{LIMIT}<name>"))
    near = did_you_mean(name, keys)
    raise Invalid(name, f"is nothing that a group has; it has {known}, and {OPTION}<key> for its provider{near}")


def _parse_option(name: str, raw: str) -> Any:
    """JSON where it reads as such, else text."""
    try:
        value = json.loads(raw)
    except ValueError:
        return clean(raw)
    except RecursionError:
        raise Invalid(name, "is too deep") from None
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        raise Invalid(name, "has something in it that JSON cannot say (NaN, half a sign), or is too deep") from None
    return value


def check_removable(folder: str) -> None:
    if folder in DEFAULTS:
        raise Invalid("folder", f"{folder!r} belongs to every gateway and stays")


@operation
async def remove(deps: OperationDeps, args: RemoveGroupArgs) -> GroupRemoval:
    folder = args.folder
    check_removable(folder)
    elsewhere = await _find_dead_place(deps, folder)
    remains = await deps.store.read(find_leftovers, folder)
    going = await deps.store.read(sessions.list_open, folder)
    if deps.stop_session is not None:
        for session in going:
            await deps.stop_session(session.id, deps.caller_name)
    now = deps.clock.now()

    def delete(db: Db) -> tuple[int, tuple[str, ...], int]:
        left, every = sessions.list_open(db, folder), tuple(sessions.list_ids(db, folder))
        for session in left:
            end_session(db, session.id, "its group was removed", now)
        for project, slug in archived_worktrees(db, folder):
            worktrees.remove(db, project, slug)
        unknown_senders.withdraw_for_group(db, folder, now)
        scheduled = tasks.count_live(db, folder)  # they go with the group's row
        if not groups.remove(db, folder):
            raise NotFound("group", folder, "`gatepost group list` shows them")
        return len(left), every, scheduled

    closed, ids, scheduled = await deps.write(delete)
    removed, left = await remove_leftovers(deps.home, replace(remains, sessions=ids))
    removed["tasks"] = scheduled
    kept = str(deps.home.group(folder))
    if elsewhere:
        kept, left = (
            f"groups/{folder} of gateway {elsewhere}",
            [f"sessions/{each} of gateway {elsewhere}" for each in ids],
        )
    return GroupRemoval(folder=folder, closed=closed, kept=kept, removed=removed, left=left)


async def _find_dead_place(deps: OperationDeps, folder: str) -> str:
    """The other gateway that has its files and cannot be asked: the group goes all the same, and they stay there.
    Raises FolderElsewhere if it can."""
    if not deps.home.gateway or not (place := await deps.store.read(find_elsewhere, deps.home, folder)):
        return ""
    row = await deps.store.read(gateways.get, place)
    if row is not None and is_living(row, deps.clock.now()):
        raise FolderElsewhere(folder, place, deps.home.gateway)
    return place


def end_session(db: Db, session_id: str, reason: str, now: int) -> None:
    """Close a session; what waited in it is withdrawn with a reason, so that the ledger stays whole."""
    turn = turns.find_open(db, session_id)
    if turn is not None:
        turns.cancel(db, turn.id, reason, now)
    for entry, _ in inbox.list_open(db, session_id):
        inbox.set_state(db, entry.id, InboxState.CANCELLED, reason, None, now)
    sessions.close(db, session_id, now)
