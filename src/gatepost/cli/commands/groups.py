"""`gatepost group`, `gatepost prompt`: the agents, their folders, and what each is told before a word is said."""

from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gatepost.access.tiers import check_removable
from gatepost.cli import output
from gatepost.cli.given_files import read_bytes, read_text
from gatepost.cli.operation_command import CommandRun, call_operation, from_operation
from gatepost.cli.operation_runner import zone_of
from gatepost.core.clock import iso
from gatepost.core.errors import Invalid
from gatepost.core.home import Home
from gatepost.core.terminal_text import one_line
from gatepost.flow.reports import (
    GroupFile,
    GroupFileText,
    InheritedSetting,
    PromptCost,
    PromptCostPart,
    WrittenGroupFile,
)
from gatepost.serve.control.arguments.group_moves import GroupMoveView, MoveGroupArgs
from gatepost.serve.control.arguments.groups import (
    LARGEST_GIVEN,
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
from gatepost.serve.control.arguments.instructions import (
    InstructionChange,
    InstructionEntry,
    ListInstructionsArgs,
    PutBackAnswer,
    PutBackArgs,
    ShowInstructionsArgs,
)
from gatepost.store.gateways.group_moves import GroupMoveState

if TYPE_CHECKING:
    from gatepost.cli.effective_values import EffectiveValues

WIDE = 24  # of the names in `group show`
_OPEN = {True: "yes (its siblings may watch it)", False: "no (sealed: its siblings see nothing of it)"}


@click.group()
def group_command() -> None:
    """The agents and their folders: add, list, show, set, link, move, rm. Works with the gateway up or down."""


@group_command.command()
@from_operation(AddGroupArgs)
def add(run: CommandRun, made: GroupView) -> None:
    where = _read_values(run.home).describe_folder(made.folder)
    output.print_line(f"group {made.folder} (tier {made.tier}) is in {where}")
    output.print_line(f"`gatepost route add --match chat_jid=… --target {made.folder}` brings it messages")


def _read_values(home: Home) -> "EffectiveValues":
    from gatepost.cli.effective_values import EffectiveValues

    return EffectiveValues(home)


@group_command.command("list")
@from_operation(ListGroupsArgs)
def list_groups(run: CommandRun, found: list[GroupView]) -> None:
    values = _read_values(run.home)
    output.print_records(GroupView, values.add_inherited(found), values.show_effective())


def _render_rest(rest: GroupRest) -> str:
    why = f", {one_line(rest.reason)}" if rest.reason else ""
    return f"since {iso(rest.since_at)} by {rest.by}{why} (`gatepost group wake {rest.folder}`)"


@group_command.command("show")
@from_operation(ShowGroupArgs)
def show_group(run: CommandRun, group: GroupDetails) -> None:
    place, folder, values = run.home, group.folder, _read_values(run.home)
    (run_as,) = values.add_inherited([group])
    own: dict[str, output.Show] = {
        **values.show_effective(),
        "open": lambda group: _OPEN[group.open] if "/" in folder else (),  # a world has no siblings
        "limits": values.show_limits,
        "mounts": lambda group: [values.render_mount(each) for each in group.mounts],
        "options": lambda group: group.options,
    }
    output.print_details(GroupView, run_as, own, width=WIDE)
    output.print_line(f"{'files':<{WIDE}} {values.describe_folder(folder)}")
    cost = call_operation(run.home, ShowPromptArgs, {"folder": folder})
    output.print_line(f"{'prompt':<{WIDE}} {_render_cost(cost)} (`gatepost prompt show {folder}`)")
    if group.rest is not None:
        output.print_line(f"{'rests':<{WIDE}} {_render_rest(group.rest)}")
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
    if inherited := values.list_inherited(folder):
        output.print_line()
        output.print_records(InheritedSetting, inherited, gives=("value",))


@group_command.command("set")
@from_operation(SetGroupArgs)
def set_values(run: CommandRun, changed: SetGroupResult) -> None:
    for key, value in _read_values(run.home).list_changed(changed, run.args["values"]):
        output.print_line(f"group {changed.folder}: {one_line(key)} is now {one_line(value)}")
    for note in changed.notes:
        output.print_line(f"group {changed.folder}: {one_line(note)}")


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
@from_operation(RestGroupArgs)
def rest(run: CommandRun, answer: GroupRestAnswer) -> None:
    assert answer.rest is not None
    if answer.rest.folder != answer.folder:
        output.print_line(f"{answer.folder} rests already, with {answer.rest.folder}")
    word = "rests" if answer.changed else "rested already"
    output.print_line(f"{answer.folder} {word}; `gatepost group wake {answer.folder}` lets it go on")


@group_command.command()
@from_operation(WakeGroupArgs)
def wake(run: CommandRun, answer: GroupRestAnswer) -> None:
    if answer.rest is not None:
        folder = answer.rest.folder
        raise Invalid("folder", f"{answer.folder} still rests with {folder}; `gatepost group wake {folder}` wakes both")
    output.print_line(f"{answer.folder} goes on" if answer.changed else f"{answer.folder} was not at rest")


@group_command.command()
@from_operation(ListGroupFilesArgs)
def files(run: CommandRun, found: list[GroupFile]) -> None:
    output.print_records(GroupFile, found, empty="its folder is empty")


@group_command.command("read-file")
@from_operation(ReadGroupFileArgs)
def read_file(run: CommandRun, found: GroupFileText) -> None:
    output.print_line(found.text.rstrip("\n"))


@group_command.command("find-file")
@from_operation(FindGroupFileArgs)
def find_file(run: CommandRun, found: GroupFile) -> None:
    output.print_records(GroupFile, [found], empty="")


def _read_content(home: Home, args: dict[str, Any]) -> dict[str, Any]:
    """The operation has the text where the command has a file."""
    return {**args, "content": read_text("--content", args["content"])}


@group_command.command("write-file")
@from_operation(WriteGroupFileArgs, prepare=_read_content)
def write_file(run: CommandRun, done: WrittenGroupFile) -> None:
    output.print_line(f"{done.path} of {done.folder} is version {done.version[:12]}, {done.size} bytes")
    if done.skill:
        output.print_line(f"{done.folder} has it as the skill {done.skill} from now on")


def _read_data(home: Home, args: dict[str, Any]) -> dict[str, Any]:
    """The operation has the bytes where the command has a file, and its name unless another one is given."""
    data = read_bytes("--data", args["data"], LARGEST_GIVEN)
    return {"path": Path(args["data"]).name, **args, "data": b64encode(data).decode()}


@group_command.command("give-file")
@from_operation(GiveFileArgs, prepare=_read_data)
def give_file(run: CommandRun, done: WrittenGroupFile) -> None:
    output.print_line(f"{done.folder} finds it as {done.path}, {done.size} bytes")


@click.group()
def prompt_command() -> None:
    """The prompt of an agent before a word is said."""


@prompt_command.command("show")
@from_operation(ShowPromptArgs)
def show_prompt(run: CommandRun, cost: PromptCost) -> None:
    output.print_records(PromptCostPart, cost.parts, empty="nothing")
    output.print_line(f"{cost.folder}: {_render_cost(cost)}")
    for hint in cost.hints:
        output.print_line(f"→ {hint}")


def _render_cost(cost: PromptCost) -> str:
    more = f"; {cost.provider} adds a prompt and tools of its own" if cost.own else ""
    return f"{cost.size:,} bytes, about {cost.tokens:,} tokens before the first word{more}"


@click.group()
def instructions_command() -> None:
    """The versions of an agent's AGENTS.md: which there were, by whom, and putting one back."""


@instructions_command.command("list")
@from_operation(ListInstructionsArgs)
def list_instructions(run: CommandRun, found: list[InstructionEntry]) -> None:
    output.print_records(InstructionEntry, found, empty="no version is known yet", zone=zone_of(run.home))


@instructions_command.command("show")
@from_operation(ShowInstructionsArgs)
def show_instructions(run: CommandRun, found: InstructionChange) -> None:
    for line in found.changes:
        output.print_line(line)
    if not found.changes:
        output.print_line(found.text.rstrip("\n"))


@instructions_command.command("put-back")
@from_operation(PutBackArgs)
def put_back(run: CommandRun, done: PutBackAnswer) -> None:
    if done.undo is None:
        output.print_line(f"{done.folder} goes by it")
        return
    undo = f"`gatepost instructions put-back {done.folder} {done.undo}`"
    output.print_line(f"{done.folder} goes by it from now on; {undo} undoes that")
