"""Groups: add, list, show, set, remove; their files and their links.

Files are read and written in a thread: a disk may be slow. A link is a name by which an agent gives work to that of
another group.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from gatepost.access.policy import GroupPolicy
from gatepost.access.tiers import check_folder, check_removable, tier_of
from gatepost.core.errors import GatepostError, Invalid, NotFound, Refused, did_you_mean
from gatepost.core.home import Home
from gatepost.core.record_changes import check_json, get_given
from gatepost.core.records import extend, replace
from gatepost.core.settings import Config
from gatepost.egress import rules as host_rules
from gatepost.egress.endpoints import OPTIONS as ENDPOINT_OPTIONS
from gatepost.egress.endpoints import read_own_base
from gatepost.flow import group_files
from gatepost.flow.gateways.folder_check import (
    FolderElsewhere,
    check_here,
    claim_folder_here,
    claim_here,
    find_elsewhere,
)
from gatepost.flow.group_files import AGENTS, SKILLS, is_inside, is_instruction, is_skill_name
from gatepost.flow.groups import archived_worktrees, find_leftovers, make_group, remove_leftovers
from gatepost.flow.instruction_watch import read_texts, record_found
from gatepost.flow.prompt_cost import measure_prompt
from gatepost.flow.reports import GroupFile, GroupFileText, PromptCost, WrittenGroupFile
from gatepost.flow.requests import unknown_senders
from gatepost.flow.sessions.host.host_uids import group_uid
from gatepost.flow.sessions.runner.runner_welcome import render_rules_everywhere
from gatepost.flow.sessions.sandbox.effective_group import MODELS_OPTION, PROVIDERS_OPTION, load_effective_group
from gatepost.flow.sessions.sandbox.extra_mounts import (
    find_key_file,
    grant_mounts,
    may_write,
    parse_mount_request,
    parse_mount_requests,
)
from gatepost.flow.sessions.sandbox.group_limits import check_limit
from gatepost.flow.sessions.sandbox.provider_specs import find_spec, list_provider_names, load_spec
from gatepost.flow.sessions.session_deps import PROVIDER
from gatepost.flow.skills.agreements import agree_to_read, change_file
from gatepost.flow.skills.skill_card import ReadSkill
from gatepost.flow.skills.skill_files import MAIN, pack_tree, unpack_tree
from gatepost.gate.policies import visible_tools
from gatepost.inside.provider_spec import ProviderSpec
from gatepost.messages.inbound import OPERATOR
from gatepost.messages.text import clean
from gatepost.messages.visible_text import hides_something
from gatepost.sandboxes.contract import SANDBOXES
from gatepost.serve.control.arguments.groups import (
    READ_FILES,
    WRITE_FILES,
    AddGroupArgs,
    FindGroupFileArgs,
    GiveFileArgs,
    GroupDetails,
    GroupLink,
    GroupRemoval,
    GroupRest,
    GroupRestAnswer,
    GroupView,
    LinkGroupArgs,
    ListGroupFilesArgs,
    ListGroupsArgs,
    ReadGroupFileArgs,
    RemoveGroupArgs,
    RestGroupArgs,
    SetGroupArgs,
    SetGroupResult,
    ShowGroupArgs,
    ShowPromptArgs,
    UnlinkGroupArgs,
    WakeGroupArgs,
    WriteGroupFileArgs,
)
from gatepost.serve.control.contract import OperationDeps, operation, read_operation
from gatepost.serve.control.operations.access import load_group_policy, load_tools
from gatepost.serve.control.rights import ROOT_FOLDER, has_right
from gatepost.store.gateways import gateways, group_moves, group_places
from gatepost.store.gateways.gateway_checks import is_living
from gatepost.store.messages import destinations, inbox
from gatepost.store.messages.destinations import DestinationKind
from gatepost.store.messages.inbox import InboxState
from gatepost.store.port import Db
from gatepost.store.rights import switches
from gatepost.store.rooms import routes
from gatepost.store.schedule import tasks
from gatepost.store.sessions import due_sessions, groups, instructions, pinned_rules, sessions, skills, turns, worktrees
from gatepost.store.sessions.groups import Group, GroupSettings
from gatepost.store.sessions.instructions import InstructionSource
from gatepost.store.sessions.pinned_rules import PinnedRule
from gatepost.store.sessions.skills import EffectiveSkill, SkillSource

LONGEST_TEXT = 200  # of a name, and of a model's
LONGEST_REASON = 500  # of why it rests
HIDES = "has characters that cannot be seen, and an agent would go by them; take them out."
_LATER = "(a file added since the start is seen after a restart)"
_LINK_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?\Z")


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
        rest=_find_rest(db, args.folder),
    )


def _find_rest(db: Db, folder: str) -> GroupRest | None:
    """A panic is everybody's, and is shown elsewhere."""
    resting = {each.folder: each for each in switches.list_resting(db)}
    above = [folder, *(each.folder for each in groups.list_ancestors(db, folder))]
    found = next((resting[each] for each in above if each in resting), None)
    if found is None:
        return None
    return GroupRest(folder=found.folder, reason=found.reason, by=found.turned_by, since_at=found.since)


@operation
async def rest(deps: OperationDeps, args: RestGroupArgs) -> GroupRestAnswer:
    reason, now = clean(args.reason).strip()[:LONGEST_REASON], deps.clock.now()

    def turn_on(db: Db) -> GroupRestAnswer:
        _get_view(db, args.folder)
        changed = switches.turn_on(db, switches.name_rest(args.folder), reason, deps.caller, now)
        return GroupRestAnswer(folder=args.folder, changed=changed, rest=_find_rest(db, args.folder))

    return await _change_rest(deps, args.folder, turn_on, reason=reason)


@operation
async def wake(deps: OperationDeps, args: WakeGroupArgs) -> GroupRestAnswer:
    def turn_off(db: Db) -> GroupRestAnswer:
        _get_view(db, args.folder)
        changed = switches.turn_off(db, switches.name_rest(args.folder))
        return GroupRestAnswer(folder=args.folder, changed=changed, rest=_find_rest(db, args.folder))

    return await _change_rest(deps, args.folder, turn_off)


async def _change_rest(
    deps: OperationDeps, folder: str, change: Callable[[Db], GroupRestAnswer], **given: Any
) -> GroupRestAnswer:
    """Sessions that are awake end after their turns, and messages that wait are looked at now."""
    answer = await deps.write(change, **given)
    deps.events.group(folder)
    deps.events.tasks()
    deps.events.requests()
    for session in await deps.store.read(due_sessions.list_waiting_below, folder):
        deps.events.session(session)
    return answer


@operation
async def set_values(deps: OperationDeps, args: SetGroupArgs) -> SetGroupResult:
    given = get_given(args.values)
    if not given:
        raise Invalid("values", f"name no setting; there are: {', '.join(GroupSettings.__struct_fields__)}")
    values = {name: CHECKS[name](deps, value) if name in CHECKS else value for name, value in given.items()}
    if values.get("name") == "":
        values["name"] = args.folder.rpartition("/")[2]
    if values.get("open") and "/" not in args.folder:
        raise Invalid("open", f"{args.folder} is a world, and worlds have no siblings; open a group below it")
    before = await deps.store.read(groups.get, args.folder)
    freed, notes = reset_model(deps.config, before, values)
    values |= freed
    if "options" in values:
        run = await deps.store.read(load_effective_group, deps.config, args.folder, str(values.get("provider") or ""))
        provider = run.provider if run is not None else ""
        notes += await asyncio.to_thread(check_option_names, deps.home, provider, values["options"])
    if "mounts" in values:
        uid = await group_uid(deps.store, deps.config, deps.clock, args.folder)
        notes += list_unwritable(deps.config, deps.home, values["mounts"], uid)

    def update(db: Db) -> SetGroupResult:
        if not groups.update(db, args.folder, values):
            raise NotFound("group", args.folder, "`gatepost group list` shows them")
        return extend(SetGroupResult, _get_view(db, args.folder), notes=notes)

    answer = await deps.write(update, values=values)
    deps.events.tools(args.folder)
    deps.events.group(args.folder)
    if "limits" in values:
        for each in await deps.store.read(groups.list_all):
            if each.folder.startswith(args.folder + "/"):  # they may have it from this one
                deps.events.group(each.folder)
    return answer


# Options that the gateway reads itself, whatever provider a group has.
GROUP_OPTIONS = frozenset(
    {
        PROVIDERS_OPTION,
        MODELS_OPTION,
        host_rules.OPTION,
        *ENDPOINT_OPTIONS.values(),
        "audio",
        "max_children",
        "model_features",
        "tool_groups",
        "transcribe",
        "transcribe_command",
    }
)


def check_option_names(home: Home, provider: str, options: Mapping[str, Any]) -> list[str]:
    """Refuse options that nobody reads, if the provider declares its own. With a word for each that only another
    provider reads, as a conversation may have that one, and for each that looks misspelt."""
    specs = {name: spec for name in list_provider_names(home) if (spec := _find_spec(home, name)) is not None}
    own = specs.get(provider)
    if own is None or not own.options:
        known = {*GROUP_OPTIONS, *(each for spec in specs.values() for each in spec.options)}
        unknown = [name for name in sorted(options) if name not in known and options[name] is not None]
        meant = {name: did_you_mean(name, sorted(known)) for name in unknown}
        return [f"options.{name} is read by no provider here{near}" for name, near in meant.items() if near]
    notes: list[str] = []
    for name in sorted(each for each, value in options.items() if value is not None):
        if name in own.options or name in GROUP_OPTIONS:
            continue
        others = [each.name for each in specs.values() if name in each.options]
        if not others:
            near = did_you_mean(name, [*own.options, *sorted(GROUP_OPTIONS)])
            those, all_ = ", ".join(own.options), ", ".join(sorted(GROUP_OPTIONS))
            raise Invalid(
                f"options.{name}",
                f"{provider} has no such option{near or '.'} It has: {those}; every group has: {all_}",
            )
        notes.append(f"options.{name} is one of {', '.join(others)}, which {provider} does not read")
    return notes


def _find_spec(home: Home, name: str) -> ProviderSpec | None:
    try:
        return find_spec(home, name)
    except GatepostError:  # a broken plugin: it reads none
        return None


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


def check_mounts(deps: OperationDeps, texts: Sequence[str]) -> list[str]:
    """`/host/path:/workspace/extra/name[:rw]`, each judged as it will be again when a sandbox starts."""
    wishes = parse_mount_requests(texts)
    for granted in grant_mounts(deps.config, deps.home, wishes):
        key = find_key_file(granted)
        if key:
            place = granted.mount.source
            raise Invalid("mounts", f"{place} holds {key}, which is where keys are kept; mount a folder below it")
    return list(map(str, wishes))


def _check_limits(deps: OperationDeps, limits: dict[str, int | None]) -> dict[str, int | None]:
    for name, value in limits.items():
        check_limit(deps.config, name, value)
    return limits


def _check_text(name: str, text: str) -> str:
    """Each is read with every message of the group."""
    if len(text) > LONGEST_TEXT:
        raise Invalid(name, f"is longer than {LONGEST_TEXT} characters, which is the most")
    return clean(text).strip()


def _check_sandbox(deps: OperationDeps, name: str) -> str:
    if name and name not in SANDBOXES:
        near = did_you_mean(name, SANDBOXES)
        raise Invalid("sandbox", f"there is no sandbox {name!r}; there are: {', '.join(SANDBOXES)} {_LATER}{near}")
    return name


def check_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a provider, judged. None takes one out."""
    return {name: None if value in ("", None) else _check_option(name, value) for name, value in options.items()}


def _check_option(name: str, value: Any) -> Any:
    if name in GroupSettings.__struct_fields__:
        raise Invalid(f"options.{name}", f"is no provider's option but the group's own: write {name}=…")
    vendor = next((vendor for vendor, option in ENDPOINT_OPTIONS.items() if option == name), "")
    if vendor:
        return read_own_base(vendor, str(value)).url
    if name == host_rules.OPTION and value not in host_rules.CHOICES:
        raise Invalid(f"options.{name}", f"{str(value)[:40]!r} is none of {', '.join(host_rules.CHOICES)}")
    if isinstance(value, str):
        return clean(value)
    check_json(f"options.{name}", value)
    return value


# Settings whose values are judged by more than their type.
CHECKS: dict[str, Callable[[OperationDeps, Any], Any]] = {
    "name": lambda deps, value: _check_text("name", value),
    "model": lambda deps, value: _check_text("model", value),
    "provider": lambda deps, value: check_provider(deps.home, value),
    "sandbox": _check_sandbox,
    "limits": _check_limits,
    "mounts": check_mounts,
    "options": lambda deps, value: check_options(value),
}


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


def _list_inner(db: Db, folder: str) -> frozenset[str]:
    """Groups that lie in this one's folder: their files are theirs. Only a group's name becomes a path."""
    known = [each.folder for each in groups.list_all(db)]
    if folder not in known:
        raise NotFound("group", folder[:200], "`gatepost group list` shows them")
    return frozenset(each.removeprefix(f"{folder}/") for each in known if each.startswith(f"{folder}/"))


async def _may_touch(deps: OperationDeps, right: str, folder: str) -> bool:
    """Return True if the caller may see or change an agent's own files, beside what it is told."""
    if deps.caller == OPERATOR:
        return True
    scopes = (ROOT_FOLDER, folder)
    return any([await deps.store.read(has_right, deps.caller, f"op:{right}", scope, deps.args) for scope in scopes])


async def _check_file(deps: OperationDeps, folder: str, path: str, right: str) -> None:
    if is_inside(group_files.check_path(path), await deps.store.read(_list_inner, folder)):
        raise Invalid("path", f"{path[:80]} belongs to a group of its own; name that one")
    if not is_instruction(path) and not await _may_touch(deps, right, folder):
        raise Refused(deps.caller, f"touch {path[:80]}", folder, f"it needs op:{right} there (`gatepost grant allow`)")


@operation
async def list_group_files(deps: OperationDeps, args: ListGroupFilesArgs) -> list[GroupFile]:
    inner = await deps.store.read(_list_inner, args.folder)
    everything = await _may_touch(deps, READ_FILES, args.folder)
    await check_here(deps.store, deps.home, args.folder)
    return await asyncio.to_thread(group_files.list_files, deps.home, args.folder, inner, everything=everything)


@operation
async def read_group_file(deps: OperationDeps, args: ReadGroupFileArgs) -> GroupFileText:
    await _check_file(deps, args.folder, args.path, READ_FILES)
    await check_here(deps.store, deps.home, args.folder)
    return await asyncio.to_thread(group_files.read_file, deps.home, args.folder, args.path)


@operation
async def find_group_file(deps: OperationDeps, args: FindGroupFileArgs) -> GroupFile:
    await _check_file(deps, args.folder, args.path, READ_FILES)
    await check_here(deps.store, deps.home, args.folder)
    return await asyncio.to_thread(group_files.find_file, deps.home, args.folder, args.path)


@operation
async def give_file(deps: OperationDeps, args: GiveFileArgs) -> WrittenGroupFile:
    await _check_file(deps, args.folder, args.path, WRITE_FILES)
    now = deps.clock.now()
    await claim_here(deps.store, deps.home, args.folder, now)
    uid = await group_uid(deps.store, deps.config, deps.clock, args.folder)
    done = await asyncio.to_thread(group_files.give_file, deps.home, args.folder, args.path, args.data, uid)

    def record(db: Db) -> None:
        claim_folder_here(db, deps.home, args.folder, now)

    await deps.write(record, version=done.version, size=done.size)
    return done


@operation
async def write_group_file(deps: OperationDeps, args: WriteGroupFileArgs) -> WrittenGroupFile:
    await _check_file(deps, args.folder, args.path, WRITE_FILES)
    now = deps.clock.now()
    await claim_here(deps.store, deps.home, args.folder, now)
    uid = await group_uid(deps.store, deps.config, deps.clock, args.folder)
    change = await _make_skill_change(deps, args, now)
    before = await asyncio.to_thread(read_texts, deps.home, [args.folder]) if args.path == AGENTS else []
    done = await asyncio.to_thread(
        group_files.write_file, deps.home, args.folder, args.path, args.content, args.version, uid
    )

    def check_again(db: Db) -> None:
        """A move that began after this was written takes it along; one that began before may not."""
        claim_folder_here(db, deps.home, args.folder, now)
        if args.path == AGENTS:
            record_found(db, before, None, now)
            written = InstructionSource.WRITTEN
            instructions.add(db, args.folder, done.version, args.content, written, deps.caller, now)
        if change is not None:
            agree_to_read(db, args.folder, change.skill, change.pack, deps.caller, now, base=change.base)

    await deps.write(check_again, version=done.version, size=done.size, before=args.version)
    deps.events.group(args.folder)
    return replace(done, skill=change.skill.name) if change is not None else done


class SkillChange(Struct, frozen=True):
    """`base`: the digest that it is made from, '' for a new one."""

    skill: ReadSkill
    pack: bytes
    base: str


async def _make_skill_change(deps: OperationDeps, args: WriteGroupFileArgs, now: int) -> SkillChange | None:
    """Return the skill that has this file from now on: who wrote the text has agreed to it. The other
    files of the folder are the agent's, and stay drafts. None: AGENTS.md, or a file of what is only a draft."""
    top, _, rest = args.path.partition("/")
    name, _, inner = rest.partition("/")
    if top != SKILLS or not inner or not is_skill_name(name):
        return None
    row = await deps.store.read(skills.get, args.folder, name)
    if row is None and inner != MAIN:
        return None
    agreed = await deps.store.read(skills.get_pack, row.digest) if row is not None else None

    def make() -> SkillChange:
        tree = unpack_tree(agreed) if agreed is not None else None
        data = args.content.encode()
        if any(map(hides_something, args.content.splitlines())):
            raise Invalid("content", f"{HIDES} `gatepost skill add {args.folder}:{name}` shows them, and asks")
        skill = change_file(tree, name, inner, data, SkillSource.PERSON, now, f"{args.folder}/{SKILLS}/{name}")
        return SkillChange(skill, pack_tree(skill.tree), row.digest if row is not None else "")

    return await asyncio.to_thread(make)


def check_link_name(name: str) -> str:
    if not _LINK_NAME.match(name):
        raise Invalid("name", f"{name[:60]!r}: lower-case letters, digits and inner hyphens, at most 40")
    return name


@operation
async def link_group(deps: OperationDeps, args: LinkGroupArgs) -> GroupLink:
    now = deps.clock.now()
    check_link_name(args.name)

    def add(db: Db) -> None:
        for folder in (args.folder, args.group):
            if groups.get(db, folder) is None:
                raise NotFound("group", folder, "`gatepost group list` shows them")
        known = destinations.get(db, args.folder, args.name)
        if known is not None and known.kind is DestinationKind.ROOM:
            raise Invalid("name", f"{args.folder} calls the room {known.address} {args.name!r}; choose another")
        destinations.add_group(db, args.folder, args.name, args.group, now)

    await deps.write(add)
    return GroupLink(args.folder, args.name, args.group)


@operation
async def unlink_group(deps: OperationDeps, args: UnlinkGroupArgs) -> GroupLink:
    def remove(db: Db) -> str:
        known = destinations.get(db, args.folder, args.name)
        if known is None or known.kind is not DestinationKind.GROUP:
            raise NotFound("link", args.name, f"`gatepost group show {args.folder}` shows them")
        destinations.remove(db, args.folder, args.name)
        return known.target_folder

    return GroupLink(args.folder, args.name, await deps.write(remove))


@operation
async def show_prompt(deps: OperationDeps, args: ShowPromptArgs) -> PromptCost:
    group, policy, rules, found = await deps.store.read(_load_prompt, deps.config, args.folder)
    tools = deps.extra["tools"] if "tools" in deps.extra else load_tools(deps.home)

    def measure() -> PromptCost:
        said = render_rules_everywhere(rules)
        return measure_prompt(deps.home, group, said, found, visible_tools(tools, policy), policy)

    return await asyncio.to_thread(measure)


def _load_prompt(
    db: Db, config: Config, folder: str
) -> tuple[Group, GroupPolicy, Sequence[PinnedRule], Sequence[EffectiveSkill]]:
    group = load_effective_group(db, config, folder)
    if group is None:
        raise NotFound("group", folder, "`gatepost group list` shows them")
    rules, found = pinned_rules.list_for_group(db, folder), skills.list_effective(db, folder)
    return group, load_group_policy(db, config, folder), rules, found
