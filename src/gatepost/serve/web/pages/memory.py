"""Memory: what agents keep beyond their conversations, and where each entry comes from."""

from gatepost.serve.control.arguments.memory import ExplainMemoryArgs, ListMemoriesArgs
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import link, make_columns, make_facts, make_table
from gatepost.serve.web.dashboard.view import Action, Block, EmptyState, LongText, PageView, Tone
from gatepost.store.memory.memories import Memory

LONGEST_ID = 19  # digits
NEW = Action(label="Add an entry", operation="memory.add", asks=True, tone=Tone.GOOD)
UNDO = Action(label="Take back", operation="memory.undo", asks=True, tone=Tone.BAD)
EMPTY = EmptyState(text="Nothing is remembered yet. Agents remember what people tell them to.", action=NEW)
EARLIER = EmptyState(text="It took the place of nothing.")

GROUP = link("folder", "Agent", "/groups/{folder}")
TEXT = link("text", "Remembered", "/memory/{id}")
COLUMNS = make_columns(Memory, {"folder": GROUP, "text": TEXT})
DETAILS = make_columns(Memory, {"folder": GROUP}, details=True)[1:]


@page("/memory", "Memory", Section.AGENTS, "memory.list", order=45)
async def show_memories(request: PageRequest) -> PageView:
    found = await request.ask(ListMemoriesArgs())
    return PageView(blocks=[make_table(found, COLUMNS, EMPTY, actions=list_actions)], actions=(NEW, UNDO))


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
