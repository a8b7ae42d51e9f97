"""`gatepost memory`: what agents keep beyond their conversations."""

from pathlib import Path
from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.operation_command import CommandRun, from_operation
from gatepost.core.errors import Invalid
from gatepost.core.home import Home
from gatepost.serve.control.arguments.memory import (
    LARGEST_IMPORT,
    AddMemoryArgs,
    EditMemoryArgs,
    ExplainMemoryArgs,
    ForgetMemoryArgs,
    ImportedMemories,
    ImportMemoriesArgs,
    ListMemoriesArgs,
    MemoryTrace,
    RestoreMemoryArgs,
    SearchMemoriesArgs,
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

    `gatepost memory list home --json` exports them, `gatepost memory import home FILE` reads them again.
    """


@memory_command.command("list")
@from_operation(ListMemoriesArgs)
def list_memories(run: CommandRun, found: list[Memory]) -> None:
    output.print_records(Memory, found, empty="nothing is remembered", gives=("text",))


@memory_command.command()
@from_operation(SearchMemoriesArgs)
def search(run: CommandRun, found: list[Memory]) -> None:
    output.print_records(Memory, found, empty="nothing that is remembered has these words", gives=("text",))


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
        output.print_records(Memory, trace.earlier, empty="", gives=("text",))


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
    output.print_records(Memory, done.ended, empty="nothing was remembered in that time", gives=("text",))
    if done.ended or done.restored:
        output.print_line(f"{len(done.ended)} taken back, {len(done.restored)} earlier ones are in force again")


def _read_file(home: Home, args: dict[str, Any]) -> dict[str, Any]:
    """The operation takes what is in the file."""
    try:
        with Path(args["entries"]).expanduser().open("rb") as file:
            data = file.read(LARGEST_IMPORT + 1)
        text = data.decode()
    except OSError as error:
        raise Invalid("FILE", f"{args['entries']} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Invalid("FILE", f"{args['entries']} is no text in UTF-8") from None
    if len(data) > LARGEST_IMPORT:
        raise Invalid("FILE", f"{args['entries']} has more than {LARGEST_IMPORT} bytes")
    return {**args, "entries": text}


@memory_command.command("import")
@from_operation(ImportMemoriesArgs, prepare=_read_file)
def import_memories(run: CommandRun, done: ImportedMemories) -> None:
    output.print_line(f"{done.added} added; what was remembered already was left as it was")
