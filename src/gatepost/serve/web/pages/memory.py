"""Memory: what agents keep beyond their conversations, where each entry comes from, and MEMORY.md."""

from gatepost.core.errors import GatepostError
from gatepost.serve.control.arguments.memory import (
    ExplainMemoryArgs,
    ListMemoriesArgs,
    MemoryFileView,
    ShowMemoryFileArgs,
)
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import link, make_columns, make_facts, make_table
from gatepost.serve.web.dashboard.view import Action, Block, DiffBlock, EmptyState, LongText, Note, PageView, Tone
from gatepost.store.memory.memories import Memory

LONGEST_ID = 19  # digits
NEW = Action(label="Add an entry", operation="memory.add", asks=True, tone=Tone.GOOD)
UNDO = Action(label="Take back", operation="memory.undo", asks=True, tone=Tone.BAD)
EMPTY = EmptyState(text="Nothing is remembered yet. Agents remember what people tell them to.", action=NEW)
EARLIER = EmptyState(text="It took the place of nothing.")

GROUP = link("folder", "Agent", "/memory?group={folder}")
TEXT = link("text", "Remembered", "/memory/{id}", by="id")
COLUMNS = make_columns(Memory, {"folder": GROUP, "text": TEXT})
DETAILS = make_columns(Memory, {"folder": GROUP}, details=True)[1:]


@page("/memory", "Memory", Section.AGENTS, "memory.list", order=30)
async def show_memories(request: PageRequest) -> PageView:
    folder = request.query.get("group", "")
    found = await request.ask(ListMemoriesArgs(folder=folder))
    table = make_table(found, COLUMNS, EMPTY, actions=list_actions)
    if not folder:
        return PageView(blocks=[table], actions=(NEW, UNDO))
    return PageView(title=f"Memory of {folder}", blocks=[*await _ask_file(request, folder), table], actions=(NEW, UNDO))


async def _ask_file(request: PageRequest, folder: str) -> list[Block]:
    """A file that cannot be read keeps nobody from the entries."""
    try:
        return make_file(await request.ask(ShowMemoryFileArgs(folder=folder)))
    except GatepostError as error:
        return [Note(text=f"MEMORY.md cannot be compared: {error}.", tone=Tone.WARN)]


def make_file(found: MemoryFileView) -> list[Block]:
    """Show the changes in the file, each line whole, and the buttons that take them over or drop them."""
    given = {"folder": found.folder, "digest": found.digest}
    if found.exists and not found.kept:
        given["adopt"] = "on"
    if not found.exists or (found.kept and not found.changes and not found.conflicts):
        said = "MEMORY.md says what everybody may know." if found.exists else "There is no MEMORY.md in the folder."
        write = Action(label="Write MEMORY.md", operation="memory.sync", args=given)
        return [Note(text=said, action=write)]
    said = "Somebody changed MEMORY.md. The agent remembers it so once you agree."
    if not found.kept:
        said = "The agent keeps a MEMORY.md of its own. Its lines can be taken over; it stays as MEMORY.old.md."
    take = Action(label="Take over", operation="memory.sync", args=given, tone=Tone.GOOD)
    drop = Action(label="Drop the changes", operation="memory.sync", args={**given, "drop": "on"}, tone=Tone.BAD)
    blocks: list[Block] = [Note(text=said, tone=Tone.WARN, action=take), DiffBlock(lines=found.changes)]
    blocks += [
        Note(text=f"Changed meanwhile, and left in the file: {each}", tone=Tone.WARN) for each in found.conflicts
    ]
    return [*blocks, Note(text="Or leave all of it out.", action=drop)]


@page("/memory/{id}", "Entry", Section.AGENTS, "memory.why")
async def show_memory(request: PageRequest) -> PageView:
    wanted = request.params["id"]
    number = int(wanted) if wanted.isascii() and wanted.isdigit() and len(wanted) < LONGEST_ID else 0
    trace = await request.ask(ExplainMemoryArgs(id=number))
    blocks: list[Block] = [make_facts(trace.entry, DETAILS)]
    if trace.message:
        blocks.append(LongText(title="The message that it comes from", text=trace.message))
    if trace.earlier:
        blocks.append(make_table(trace.earlier, COLUMNS, EARLIER, title="It took the place of"))
    return PageView(title=f"Entry {trace.entry.id}", blocks=blocks, actions=list_actions(trace.entry))


def list_actions(entry: Memory) -> tuple[Action, ...]:
    given = {"id": entry.id}
    if entry.ended_at is not None:
        return (Action(label="Restore", operation="memory.restore", args=given),)
    return (
        Action(label="Edit", operation="memory.edit", args=given, asks=True),
        Action(label="Forget", operation="memory.forget", args=given, tone=Tone.BAD),
    )
