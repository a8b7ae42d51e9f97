"""Memory: what agents keep beyond their conversations, each entry with its source."""

from typing import Annotated

from msgspec import Meta, Struct

from gatepost.core.record_fields import ShownAs, argument, option, shown
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.memory.memories import LONGEST_ABOUT, LONGEST_TEXT, Memory

READ, WRITE = "memory.read", "memory.write"
LARGEST_IMPORT = 1_000_000  # characters
MemoryId = Annotated[int, argument("The entry's id, as `memory list` shows it.", "memory")]
MemoryText = Annotated[
    str, Meta(max_length=LONGEST_TEXT), argument("What is to be remembered, as a sentence.", "text", secret=True)
]
MemoryFolder = Annotated[str, argument("Only of this agent and those below it.", "folder", scope=True)]
Since = Annotated[
    str,
    option("Only what was remembered since then.", metavar="TIME", examples=("24h", "7d", "2026-01-31")),
]
Untrusted = Annotated[bool, option("Only what comes from strangers, pages and files.", "from-untrusted")]


class MemoryTrace(Struct, frozen=True, kw_only=True):
    """An entry with where it comes from. `message`: the words of its source, '' if they are not kept any more.
    `earlier`: what it took the place of, the newest first."""

    entry: Memory
    message: Annotated[str, shown("Source", ShownAs.LONG)]
    earlier: list[Memory]


class UndoneMemories(Struct, frozen=True, kw_only=True):
    """The entries that were taken back, and those that are in force again in their place."""

    ended: list[Memory]
    restored: list[Memory]


class ImportedMemories(Struct, frozen=True):
    added: int


@declares("memory.list", right=READ, reads=True)
class ListMemoriesArgs(OperationArgs[list[Memory]], frozen=True, kw_only=True):
    """Entries of FOLDER and the agents below it, or of all agents; the newest first."""

    folder: MemoryFolder = ""
    since: Since = ""
    from_untrusted: Untrusted = False
    all: Annotated[bool, option("Those that were replaced, forgotten or are over, too.")] = False
    before: Annotated[int, option("Only those before this id.", metavar="ID", unset=0)] = 0
    limit: Annotated[int, option("At most so many.", least=1, most=1000)] = 200


@declares("memory.search", right=READ, reads=True)
class SearchMemoriesArgs(OperationArgs[list[Memory]], frozen=True, kw_only=True):
    """Entries of FOLDER that its agent would find by these words where it may tell everything, the best first."""

    folder: Annotated[str, argument("The agent's group.", "folder", scope=True)]
    query: Annotated[str, argument("Words that the entry may have.", "words")]
    limit: Annotated[int, option("At most so many.", least=1, most=200)] = 20


@declares("memory.why", right=READ, reads=True)
class ExplainMemoryArgs(OperationArgs[MemoryTrace], frozen=True):
    """Show where an entry comes from: who said it, in which message, and what it took the place of."""

    id: MemoryId


@declares("memory.add", right=WRITE)
class AddMemoryArgs(OperationArgs[Memory], frozen=True, kw_only=True):
    """Have the agent of FOLDER remember something, which it does not change."""

    folder: Annotated[str, argument("The agent's group.", "folder", scope=True)]
    text: MemoryText
    about: Annotated[str, Meta(max_length=LONGEST_ABOUT), option("The person or thing it is about.")] = ""
    person: Annotated[str, option("Tell it this person alone, in their own chat.", metavar="USER")] = ""
    family: Annotated[bool, option("The agents below it know it, too.")] = False


@declares("memory.edit", right=WRITE)
class EditMemoryArgs(OperationArgs[Memory], frozen=True, kw_only=True):
    """Put other words in the place of an entry. Everybody who was told of it is told of these from then on."""

    id: MemoryId
    text: MemoryText


@declares("memory.forget", right=WRITE)
class ForgetMemoryArgs(OperationArgs[Memory], frozen=True):
    """Have an agent forget an entry."""

    id: MemoryId


@declares("memory.restore", right=WRITE)
class RestoreMemoryArgs(OperationArgs[Memory], frozen=True):
    """Put an entry that is over in force again."""

    id: MemoryId


@declares("memory.undo", right=WRITE)
class UndoMemoriesArgs(OperationArgs[UndoneMemories], frozen=True, kw_only=True):
    """Take back what was remembered since a time. Entries that it had taken the place of are in force again, and so are
    those that agents and people in chats had forgotten since then."""

    folder: MemoryFolder = ""
    since: Annotated[str, option("Since then.", metavar="TIME", examples=("24h", "7d", "2026-01-31"))]
    from_untrusted: Untrusted = False


@declares("memory.import", right=WRITE)
class ImportMemoriesArgs(OperationArgs[ImportedMemories], frozen=True, kw_only=True):
    """Have the agent of FOLDER remember the entries of a file.

    Notes in Markdown, such as another program's MEMORY.md: each item and paragraph. Or a JSON list of texts, or of what
    `memory list --json` prints."""

    folder: Annotated[str, argument("The agent's group.", "folder", scope=True)]
    entries: Annotated[
        str,
        Meta(max_length=LARGEST_IMPORT),
        argument(
            "Notes, or a JSON list.", "file", cli="A file with notes or a JSON list.", metavar="FILE", secret=True
        ),
    ]


class MemoryFileView(Struct, frozen=True, kw_only=True):
    """MEMORY.md of an agent, and what somebody changed in it. `changes`: lines that begin with `+` or `-`. `conflicts`:
    words for entries that have changed meanwhile, which stay in the file."""

    folder: str
    digest: str
    exists: Annotated[bool, shown("There", ShownAs.FLAG)]
    kept: Annotated[bool, shown("Written by the gateway", ShownAs.FLAG)]
    changes: Annotated[list[str], shown("Changes")]
    conflicts: Annotated[list[str], shown("Conflicts")]


class SyncedMemory(Struct, frozen=True, kw_only=True):
    """`written`: False if somebody changed the file meanwhile, so that it was left alone."""

    added: int
    changed: int
    forgotten: int
    conflicts: list[str]
    written: bool


@declares("memory.file", right=READ, needs_home=True)
class ShowMemoryFileArgs(OperationArgs[MemoryFileView], frozen=True):
    """Compare MEMORY.md in FOLDER with what its agent remembers. Nothing is changed."""

    folder: Annotated[str, argument("The agent's group.", "folder", scope=True)]


@declares("memory.sync", right=WRITE, needs_home=True)
class SyncMemoryArgs(OperationArgs[SyncedMemory], frozen=True, kw_only=True):
    """Take over what was changed in MEMORY.md of FOLDER, and write it anew: what everybody may know of its agent. From
    then on it is written whenever the agent wakes."""

    folder: Annotated[str, argument("The agent's group.", "folder", scope=True)]
    digest: Annotated[
        str, Meta(pattern="^([0-9a-f]{64})?$"), option("Of the changes that were seen, as `memory.file` has it.")
    ] = ""
    drop: Annotated[bool, option("Take nothing over: its changes are lost.")] = False
    adopt: Annotated[bool, option("Also if the agent keeps a MEMORY.md of its own, which stays as MEMORY.old.md.")] = (
        False
    )
    stop: Annotated[bool, option("Write the file no more. It stays as it is.")] = False
