"""`gatepost memory`: what agents keep beyond their conversations."""

import sys
from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.given_files import read_text
from gatepost.cli.operation_command import CommandRun, call_operation, from_operation, with_arguments
from gatepost.core.errors import Invalid
from gatepost.core.home import Home
from gatepost.serve.control.answers import to_json
from gatepost.serve.control.arguments.memory import (
    LARGEST_IMPORT,
    AddMemoryArgs,
    EditMemoryArgs,
    ExplainMemoryArgs,
    ForgetMemoryArgs,
    ImportedMemories,
    ImportMemoriesArgs,
    ListMemoriesArgs,
    MemoryFileView,
    MemoryTrace,
    RestoreMemoryArgs,
    SearchMemoriesArgs,
    ShowMemoryFileArgs,
    SyncedMemory,
    SyncMemoryArgs,
    UndoMemoriesArgs,
    UndoneMemories,
)
from gatepost.store.memory.memories import Memory


@click.group()
def memory_command() -> None:
    """The memory of agents: facts that outlive a conversation, each with its source. Works with the gateway up or down.

    \b
        gatepost memory list home
        gatepost memory why 12
        gatepost memory add home "The bins are collected on Tuesdays."
        gatepost memory undo --since 7d --from-untrusted      # a poisoned week
        gatepost memory sync home                             # MEMORY.md in its folder

    `gatepost memory list home --json` exports them, `gatepost memory import home FILE` reads them again.
    """


@memory_command.command("list")
@from_operation(ListMemoriesArgs)
def list_memories(run: CommandRun, found: list[Memory]) -> None:
    output.print_records(Memory, found, empty="nothing is remembered", text="text")


@memory_command.command()
@from_operation(SearchMemoriesArgs)
def search(run: CommandRun, found: list[Memory]) -> None:
    output.print_records(Memory, found, empty="nothing that is remembered has these words", text="text")


@memory_command.command()
@from_operation(ExplainMemoryArgs)
def why(run: CommandRun, trace: MemoryTrace) -> None:
    output.print_details(Memory, trace.entry, width=14, sparse=True)
    if trace.message:
        output.print_line()
        output.print_line(f"it comes from message {trace.entry.message_id}:")
        output.print_line(trace.message)
    if trace.earlier:
        output.print_line()
        output.print_line("it took the place of:")
        output.print_records(Memory, trace.earlier, empty="", text="text")


@memory_command.command()
@from_operation(AddMemoryArgs)
def add(run: CommandRun, made: Memory) -> None:
    output.print_line(f"{made.folder} remembers this as {made.id}")


@memory_command.command()
@from_operation(EditMemoryArgs)
def edit(run: CommandRun, made: Memory) -> None:
    output.print_line(f"{made.id} has taken the place of {made.replaces}")


@memory_command.command()
@from_operation(ForgetMemoryArgs)
def forget(run: CommandRun, entry: Memory) -> None:
    output.print_line(f"{entry.folder} has forgotten {entry.id}")


@memory_command.command()
@from_operation(RestoreMemoryArgs)
def restore(run: CommandRun, entry: Memory) -> None:
    output.print_line(f"{entry.folder} remembers {entry.id} again")


@memory_command.command()
@from_operation(UndoMemoriesArgs)
def undo(run: CommandRun, done: UndoneMemories) -> None:
    output.print_records(Memory, done.ended, empty="nothing was remembered in that time", text="text")
    if done.ended or done.restored:
        output.print_line(f"{len(done.ended)} taken back, {len(done.restored)} earlier ones are in force again")


def _read_file(home: Home, args: dict[str, Any]) -> dict[str, Any]:
    """The operation takes what is in the file."""
    return {**args, "entries": read_text("FILE", args["entries"], LARGEST_IMPORT)}


@memory_command.command("import")
@from_operation(ImportMemoriesArgs, prepare=_read_file)
def import_memories(run: CommandRun, done: ImportedMemories) -> None:
    output.print_line(f"{done.added} added; what was remembered already was left as it was")


@memory_command.command()
@with_arguments(SyncMemoryArgs, digest="")
@click.option("--yes", is_flag=True, help="Do not ask; for scripts.")
def sync(home: Home, args: dict[str, Any], as_json: bool, yes: bool) -> None:
    """Show what was changed in MEMORY.md of FOLDER, take it over, and write the file anew: what everybody may know of
    its agent.

    From then on the file is written whenever the agent wakes. Additions of an agent are not remembered before somebody
    agreed here. Agents of groups above FOLDER can read the file, too.
    """
    if not args["stop"]:
        found = call_operation(home, ShowMemoryFileArgs, {"folder": args["folder"]})
        print_changes(found, error=as_json)
        if found.exists and not found.kept and not args["adopt"]:
            raise Invalid("FOLDER", f"{found.folder} keeps a MEMORY.md of its own; --adopt takes its lines over")
        if (found.changes or (args["drop"] and found.conflicts)) and not yes and not _confirm(drop=args["drop"]):
            output.print_line("nothing was changed", error=True)
            raise click.exceptions.Exit(1)
        args = {**args, "digest": found.digest}
    done = call_operation(home, SyncMemoryArgs, args)
    if as_json:
        output.print_json(to_json(done))
    elif args["stop"]:
        output.print_line(f"MEMORY.md of {args['folder']} is written no more")
    else:
        _print_done(args["folder"], done)


def print_changes(found: MemoryFileView, *, error: bool) -> None:
    for line in (*found.changes, *(f"! {each}" for each in found.conflicts)):
        output.print_line(line, error=error)


def _confirm(*, drop: bool) -> bool:
    try:
        return click.confirm("Drop these changes?" if drop else "Have the agent remember it so?", err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        output.print_line("", error=True)
        raise Invalid("--yes", "is needed where nobody can be asked") from None


def _print_done(folder: str, done: SyncedMemory) -> None:
    output.print_line(f"{folder}: {done.added} added, {done.changed} changed, {done.forgotten} forgotten")
    if done.written:
        output.print_line(f"MEMORY.md has what everybody may know; `gatepost memory list {folder}` shows the rest, too")
    if done.conflicts:
        output.print_line("these entries have changed meanwhile; the words for them stay in the file:")
        for line in done.conflicts:
            output.print_line(f"! {line}")
    if not done.written:
        output.print_line("MEMORY.md was changed just now and left alone; run this again", error=True)
