"""`gatepost group`: the agents and their folders."""

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from gatepost.cli import output
from gatepost.cli.commands.prompts import render_cost
from gatepost.cli.operation_command import CommandRun, call_operation, from_operation
from gatepost.core import settings
from gatepost.core.errors import GatepostError, Invalid
from gatepost.core.home import Home
from gatepost.core.record_changes import NO, YES
from gatepost.core.records import asdict, replace
from gatepost.core.terminal_text import one_line
from gatepost.flow.reports import GroupFile, GroupFileText, WrittenGroupFile
from gatepost.serve.control.arguments.group_moves import GroupMoveView, MoveGroupArgs
from gatepost.serve.control.arguments.groups import (
    AddGroupArgs,
    GroupDetails,
    GroupLink,
    GroupRemoval,
    GroupView,
    LinkGroupArgs,
    ListGroupFilesArgs,
    ListGroupsArgs,
    ReadGroupFileArgs,
    RemoveGroupArgs,
    SetGroupArgs,
    SetGroupResult,
    ShowGroupArgs,
    UnlinkGroupArgs,
    WriteGroupFileArgs,
)
from gatepost.serve.control.arguments.prompts import ShowPromptArgs
from gatepost.store.engine.place import URL
from gatepost.store.engine.readonly import read_store
from gatepost.store.gateways.group_moves import GroupMoveState
from gatepost.store.port import Db
from gatepost.store.sessions import groups
from gatepost.store.sessions.groups import Group

G = TypeVar("G", bound=Group)
WIDE = 24  # of the names in `group show`
_OPEN = {True: "yes (its siblings may watch it)", False: "no (sealed: its siblings see nothing of it)"}


@click.group()
def group_command() -> None:
    """The agents and their folders: add, list, show, set, link, move, rm. Works with the gateway up or down."""


@group_command.command()
@from_operation(AddGroupArgs)
def add(run: CommandRun, made: GroupView) -> None:
    where = _describe_folder(run.home, made.folder)
    output.print_line(f"group {made.folder} (tier {made.tier}) is in {where}")
    output.print_line(f"`gatepost route add --match chat_jid=… --target {made.folder}` brings it messages")


def _describe_folder(home: Home, folder: str) -> str:
    """Return where it lies, which may be on another gateway."""
    from gatepost.flow.gateways.folder_check import find_elsewhere
    from gatepost.flow.gateways.group_place import PLACE, SHARED_FOLDER, place_home
    from gatepost.store.gateways.gateway_identity import NAME

    place = place_home(home, settings.load_declared(home.path, PLACE, SHARED_FOLDER, NAME, URL))
    found = read_store(home, find_elsewhere, place, folder) if place.gateway else ""
    return f"groups/{folder} of gateway {found}" if found else str(place.group(folder))


@group_command.command("list")
@from_operation(ListGroupsArgs)
def list_groups(run: CommandRun, found: list[GroupView]) -> None:
    output.print_records(GroupView, _add_inherited(run.home, found), _show_effective(run.home))


def _show_effective(home: Home) -> dict[str, output.Show]:
    """Return how the values are shown for which the gateway has a default."""
    defaults = _defaults(home)
    return {key: partial(_effective_value, key=key, defaults=defaults) for key in defaults}


def _effective_value(group: Group, key: str, defaults: dict[str, str]) -> str:
    """Return what holds for a group: its own value, or the gateway's with a word that it is that."""
    own = getattr(group, key)
    if isinstance(own, bool):
        return YES if own else NO
    return str(own) if own not in ("", None) else f"{defaults[key]} (default)" if key in defaults else "-"


def _add_inherited(home: Home, found: list[G]) -> list[G]:
    """Return groups with the provider, model and options that they go by, and the group above from which these come."""
    from gatepost.flow.sessions.sandbox.effective_group import FOLDER, find_lender, load_effective_group
    from gatepost.flow.sessions.session_deps import PROVIDER

    config = settings.load_declared(home.path, PROVIDER, FOLDER)

    def read(db: Db) -> list[G]:
        return [_add_lent(each, load_effective_group(db, config, each.folder), find_lent(db, each)) for each in found]

    def find_lent(db: Db, group: G) -> Group | None:
        own = groups.get(db, group.folder)
        return find_lender(db, config, own) if own is not None else None

    return read_store(home, read)


def _add_lent(group: G, run: Group | None, lender: Group | None) -> G:
    if lender is None or run is None:
        return group
    mark = f" (as {lender.folder})"
    model = f"{run.model}{mark}" if run.model and not group.model else group.model
    options = {key: value if key in group.options else f"{value}{mark}" for key, value in run.options.items()}
    return replace(group, provider=f"{run.provider}{mark}", model=model, options=options)


def _defaults(home: Home) -> dict[str, str]:
    from gatepost.flow.sessions.sandbox.sandbox_plan import KIND
    from gatepost.flow.sessions.session_deps import PROVIDER, WINDOW, WINDOW_CHARS

    config = settings.load_declared(home.path, PROVIDER, WINDOW, WINDOW_CHARS, KIND)
    return {
        "provider": config[PROVIDER],
        "model": "the provider's own",
        "sandbox": config[KIND],
        "window_messages": str(config[WINDOW]),
        "window_chars": str(config[WINDOW_CHARS]),
    }


@group_command.command("show")
@from_operation(ShowGroupArgs)
def show_group(run: CommandRun, group: GroupDetails) -> None:
    place, folder = run.home, group.folder
    (run_as,) = _add_inherited(place, [group])
    own: dict[str, output.Show] = {
        **_show_effective(place),
        "open": lambda group: _OPEN[group.open] if "/" in folder else (),  # a world has no siblings
        "limits": lambda group: _show_limits(place, group),
        "mounts": lambda group: [_render_mount(place, each) for each in group.mounts],
        "options": lambda group: group.options,
    }
    output.print_details(GroupView, run_as, own, width=WIDE)
    output.print_line(f"{'files':<{WIDE}} {_describe_folder(place, folder)}")
    cost = call_operation(place, ShowPromptArgs, {"folder": folder})
    output.print_line(f"{'prompt':<{WIDE}} {render_cost(cost)} (`gatepost prompt show {folder}`)")
    for route in group.routes:
        output.print_line(
            f"{'route ' + str(route.id):<{WIDE}} {one_line(route.match) or '(everything)'} → {route.target}"
        )
    for known in group.destinations:
        where = one_line(f"{known.address} {known.thread}".strip() or known.target_folder)
        output.print_line(f"{'may send to':<{WIDE}} {one_line(known.name)} ({where})")
    for session in group.sessions:
        where = one_line(f"{session.address} {session.thread}")
        output.print_line(f"{'session':<{WIDE}} {session.id} {session.state} {where}")
        if (sockets := place.sockets_of(session.id)).is_dir():
            output.print_line(f"{'':<{WIDE}} {sockets}/router.sock, for processes of its sandbox alone")


def _limits(home: Home, folder: str) -> dict[str, str]:
    """Those in force, with the words of the groups above it."""
    from gatepost.flow.sessions.sandbox.group_limits import (
        CPU_PERCENT,
        DISK_MB,
        FILES,
        MAY_EXCEED,
        MEMORY_MB,
        PROCESSES,
        TURN_S,
        limits_of,
    )

    group = read_store(home, groups.get, folder)
    if group is None:
        return {}
    config = settings.load_declared(home.path, MEMORY_MB, CPU_PERCENT, PROCESSES, TURN_S, DISK_MB, FILES, MAY_EXCEED)
    found = asdict(limits_of(config, group, read_store(home, groups.list_ancestors, folder)))
    return {name: f"{value:g}" if value else "none" for name, value in found.items()}


def _show_limits(home: Home, group: Group) -> dict[str, str]:
    """Those in force, each with a word if it is not the group's own."""
    found = _limits(home, group.folder).items()
    return {name: value + _inherited(group.limits.get(name), value) for name, value in found}


def _inherited(own: int | None, in_force: str) -> str:
    if in_force == "none":
        return ""
    if own is None:
        return " (not its own)"
    return "" if f"{own:g}" == in_force else f" (its own {own} is above the gateway's)"


def _render_mount(home: Home, wish: str) -> str:
    """A mount as it would come about now."""
    from gatepost.flow.sessions.sandbox.extra_mounts import ALLOWED, grant_mount, parse_mount_request

    try:
        granted = grant_mount(settings.load_declared(home.path, ALLOWED), home, parse_mount_request(wish)).mount
    except GatepostError as error:
        return f"{wish}, refused: {error}"
    return f"{granted.source} at {granted.target}, {'to read and write' if granted.writable else 'read-only'}"


@group_command.command("set")
@from_operation(SetGroupArgs)
def set_values(run: CommandRun, changed: SetGroupResult) -> None:
    for key, value in _list_changed(run.home, changed, run.args["values"]):
        output.print_line(f"group {changed.folder}: {one_line(key)} is now {one_line(value)}")
    for note in changed.notes:
        output.print_line(f"group {changed.folder}: {one_line(note)}")


def _list_changed(home: Home, changed: GroupView, given: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    defaults = _defaults(home)
    for key, value in given.items():
        if key == "mounts":
            yield key, "; ".join(_render_mount(home, each) for each in changed.mounts) or "none"
        elif key == "limits":
            yield from ((f"{key}.{name}", _show_limits(home, changed)[name]) for name in value)
        elif key == "options":
            yield from ((f"{key}.{name}", str(changed.options.get(name, "not set"))) for name in value)
        else:
            yield key, _effective_value(changed, key, defaults)


@group_command.command()
@from_operation(LinkGroupArgs)
def link(run: CommandRun, made: GroupLink) -> None:
    output.print_line(f"the agent of {made.folder} may give work to {made.group}, as {made.name}")


@group_command.command()
@from_operation(UnlinkGroupArgs)
def unlink(run: CommandRun, gone: GroupLink) -> None:
    output.print_line(f"the agent of {gone.folder} knows {gone.group} no more as {gone.name}")


@group_command.command()
@from_operation(MoveGroupArgs)
def move(run: CommandRun, found: GroupMoveView) -> None:
    world, target = found.world, found.target
    if run.args.get("without_files"):
        output.print_line(f"{world} is on {target} now, with what lies in its folder there")
    elif found.state in (GroupMoveState.ARRIVED, GroupMoveState.DONE):
        output.print_line(f"{world} is on {target} now, with {found.files} files ({found.bytes:,} bytes)")
    elif found.state is GroupMoveState.FAILED:
        output.print_line(f"{world} stays on {found.source}")
    else:
        output.print_line(f"{world} is on its way from {found.source} to {target}; the same command waits further")
    if found.note:
        output.print_line(one_line(found.note))


def _check_removal(home: Home, args: dict[str, Any], yes: bool) -> dict[str, Any]:
    from gatepost.serve.control.operations.groups import check_removable

    check_removable(args["folder"])
    if not yes:
        raise Invalid(
            "", f"removing {args['folder']!r} ends its sessions and takes its routes away; say --yes to do it"
        )
    return args


@group_command.command()
@from_operation(RemoveGroupArgs, prepare=_check_removal)
@click.option("--yes", is_flag=True, help="Really.")
def rm(run: CommandRun, gone: GroupRemoval, yes: bool) -> None:
    removed = gone.removed
    output.print_line(
        f"group {gone.folder} is removed, {gone.closed} sessions closed;"
        f" with it went {removed['sessions']} session folders, {removed['media']} folders of media"
        f" and {removed['worktrees']} records of worktrees; {removed['tasks']} scheduled tasks ended"
    )
    output.print_line(f"its own files stay in {gone.kept}, its messages in the ledger")
    for each in gone.left:
        output.print_line(f"gatepost: {each} could not be removed; remove it by hand", error=True)


@group_command.command()
@from_operation(ListGroupFilesArgs)
def files(run: CommandRun, found: list[GroupFile]) -> None:
    output.print_records(GroupFile, found, empty="it has neither AGENTS.md nor skills")


@group_command.command("read-file")
@from_operation(ReadGroupFileArgs)
def read_file(run: CommandRun, found: GroupFileText) -> None:
    output.print_line(found.text.rstrip("\n"))


def _read_content(home: Home, args: dict[str, Any]) -> dict[str, Any]:
    """The operation has the text where the command has a file."""
    try:
        return {**args, "content": Path(args["content"]).read_text(encoding="utf-8")}
    except OSError as error:
        raise Invalid("--content", f"{args['content']} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Invalid("--content", f"{args['content']} is no text in UTF-8") from None


@group_command.command("write-file")
@from_operation(WriteGroupFileArgs, prepare=_read_content)
def write_file(run: CommandRun, done: WrittenGroupFile) -> None:
    output.print_line(f"{done.path} of {done.folder} is version {done.version[:12]}, {done.size} bytes")
