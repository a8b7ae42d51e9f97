"""Memory: list, search, why, add, edit, forget, undo, import, and its view as a file."""

import asyncio
from functools import partial

import msgspec

from gatepost.core.errors import Invalid, NotFound
from gatepost.core.records import replace
from gatepost.flow.gateways.folder_check import check_here, claim_here
from gatepost.flow.memory.view_file import compare_view, write_view
from gatepost.flow.memory.view_text import (
    VIEW,
    ViewChanges,
    parse_notes,
    render_changes,
    render_conflicts,
    render_entry,
    split_changes,
    split_line,
)
from gatepost.messages.inbound import OPERATOR
from gatepost.messages.text import clean
from gatepost.serve.control.arguments.memory import (
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
from gatepost.serve.control.arguments.users import USERS_READ
from gatepost.serve.control.contract import OperationDeps, operation, read_operation
from gatepost.serve.control.operations.ledger import parse_since
from gatepost.serve.control.rights import ROOT_FOLDER, has_right
from gatepost.store.memory import memories, memory_views, recall
from gatepost.store.memory.memories import LONGEST_ABOUT, LONGEST_TEXT, Memory, MemoryFilter, MemoryScope, MemoryTrust
from gatepost.store.messages import messages
from gatepost.store.people import identities, users
from gatepost.store.port import Db
from gatepost.store.sessions import groups

MOST_EARLIER = 20  # steps that `why` goes back
AT_ONCE = 15  # entries that one write adds or ends, with a hundred words of each
MOST_IMPORTED = 1000


class ImportedEntry(msgspec.Struct, frozen=True):
    """An entry of a file; what else the file says of it is not taken over."""

    text: str
    about: str = ""


_read_import = msgspec.json.Decoder(list[str | ImportedEntry]).decode


@read_operation
def list_memories(db: Db, args: ListMemoriesArgs, now: int) -> list[Memory]:
    chosen = MemoryFilter(
        folders=_list_folders(db, args.folder),
        since=parse_since(args.since, now) if args.since else 0,
        untrusted=args.from_untrusted,
        ended=args.all,
        before=args.before or 2**62,
        limit=args.limit,
    )
    return memories.list_chosen(db, chosen, now)


def _list_folders(db: Db, folder: str) -> tuple[str, ...] | None:
    """A group and those below it; None: all."""
    if not folder:
        return None
    _check_group(db, folder)
    return tuple(each.folder for each in groups.list_all(db) if f"{each.folder}/".startswith(f"{folder}/"))


def _check_group(db: Db, folder: str) -> None:
    if groups.get(db, folder) is None:
        raise NotFound("group", folder, "`gatepost group list` shows them")


@read_operation
def search_memories(db: Db, args: SearchMemoriesArgs, now: int) -> list[Memory]:
    _check_group(db, args.folder)
    return recall.find_for_operator(db, args.folder, clean(args.query), now, args.limit)


@read_operation
def explain_memory(db: Db, args: ExplainMemoryArgs, now: int) -> MemoryTrace:
    entry = _get(db, args.id)
    source = messages.get(db, entry.message_id) if entry.message_id is not None else None
    earlier: list[Memory] = []
    before = entry.replaces
    while before is not None and len(earlier) < MOST_EARLIER and (found := memories.get(db, before)) is not None:
        earlier.append(found)
        before = found.replaces
    return MemoryTrace(entry=entry, message=source.text if source is not None else "", earlier=earlier)


def _get(db: Db, memory_id: int) -> Memory:
    entry = memories.get(db, memory_id)
    if entry is None:
        raise NotFound("memory", str(memory_id), "`gatepost memory list` shows them")
    return entry


def _get_live(db: Db, memory_id: int) -> Memory:
    entry = _get(db, memory_id)
    if entry.ended_at is not None:
        raise Invalid("id", f"{memory_id} is over; `gatepost memory why {memory_id}` shows what became of it")
    return entry


def _may_see_people(db: Db, deps: OperationDeps) -> bool:
    return deps.caller == OPERATOR or has_right(db, deps.caller, f"op:{USERS_READ}", ROOT_FOLDER)


@operation
async def add_memory(deps: OperationDeps, args: AddMemoryArgs) -> Memory:
    now = deps.clock.now()

    def insert(db: Db) -> Memory:
        _check_group(db, args.folder)
        person = ""
        if args.person:
            person = identities.get_person(db, args.person)
            hidden = person != args.person and not _may_see_people(db, deps)  # the answer would tell whose it is
            if hidden or users.get(db, person) is None:
                raise NotFound("person", args.person, "`gatepost user list` shows them")
            if args.family:
                raise Invalid("family", "an entry for one person is known to their own agent alone")
        wide = MemoryScope.FAMILY if args.family else MemoryScope.AGENT
        return memories.add(
            db,
            Memory(
                folder=args.folder,
                text=_check_text(args.text),
                about=clean(args.about).strip(),
                scope=MemoryScope.PERSON if person else wide,
                person=person,
                trust=MemoryTrust.OPERATOR,
                created_at=now,
            ),
        )

    return await deps.write(insert)


def _check_text(text: str) -> str:
    said = clean(text).strip()
    if not said or len(said) > LONGEST_TEXT:
        raise Invalid("text", f"must have 1 to {LONGEST_TEXT} characters; this one has {len(said)}")
    return said


@operation
async def edit_memory(deps: OperationDeps, args: EditMemoryArgs) -> Memory:
    now = deps.clock.now()

    def change(db: Db) -> Memory:
        old = _get_live(db, args.id)
        new = replace(
            old, id=0, text=_check_text(args.text), trust=MemoryTrust.OPERATOR, created_at=now, replaces=old.id
        )
        return memories.replace(db, old, new, deps.caller)

    return await deps.write(change)


@operation
async def forget_memory(deps: OperationDeps, args: ForgetMemoryArgs) -> Memory:
    now = deps.clock.now()

    def drop(db: Db) -> Memory:
        entry = _get_live(db, args.id)
        memories.end(db, [entry.id], deps.caller, now)
        return _get(db, args.id)

    return await deps.write(drop)


@operation
async def restore_memory(deps: OperationDeps, args: RestoreMemoryArgs) -> Memory:
    now = deps.clock.now()

    def put_back(db: Db) -> Memory:
        entry = _get(db, args.id)
        if entry.ended_at is None:
            raise Invalid("id", f"{args.id} is in force")
        if entry.expires_at is not None and entry.expires_at <= now:
            raise Invalid("id", f"{args.id} has had its time; add it anew")
        if reason := memories.make_room(db, replace(entry, created_at=now)):
            raise Invalid("id", reason)
        memories.restore(db, [entry.id])
        return _get(db, args.id)

    return await deps.write(put_back)


@operation
async def undo_memories(deps: OperationDeps, args: UndoMemoriesArgs) -> UndoneMemories:
    """In several steps: everybody else's writes go on between them."""
    now = deps.clock.now()
    since = parse_since(args.since, now)

    def undo(db: Db) -> UndoneMemories:
        folders = _list_folders(db, args.folder)
        wanted = MemoryFilter(folders=folders, since=since, untrusted=args.from_untrusted, limit=AT_ONCE)
        chosen = memories.list_chosen(db, wanted, now)
        ended, restored = memories.undo(db, chosen, deps.caller, now)
        if not ended:  # what was forgotten comes back last, when it is known what took its place
            restored = memories.restore(db, [each.id for each in memories.list_restorable(db, wanted, now)])
        return UndoneMemories(
            ended=[each for each in chosen if each.id in set(ended)], restored=[_get(db, each) for each in restored]
        )

    ended, restored = list[Memory](), list[Memory]()
    part = await deps.write(undo)
    while part.ended or part.restored:
        ended += part.ended
        restored += part.restored
        part = await deps.write(undo)
    gone = {each.id for each in ended}
    return UndoneMemories(ended=ended, restored=[each for each in restored if each.id not in gone])


@operation
async def import_memories(deps: OperationDeps, args: ImportMemoriesArgs) -> ImportedMemories:
    """The same. Entries that are there already are left as they are, so an import that broke off can be made again."""
    now, new = deps.clock.now(), _read_entries(args.entries)
    texts = {_check_text(each.text): clean(each.about).strip()[:LONGEST_ABOUT] for each in new}
    left = list(texts.items())

    def insert(some: list[tuple[str, str]], db: Db) -> int:
        _check_group(db, args.folder)
        known = memories.list_known_texts(db, args.folder, [text for text, _ in some])
        scope, trust = MemoryScope.AGENT, MemoryTrust.OPERATOR
        fresh = [(text, about) for text, about in some if text not in known]
        for text, about in fresh:
            entry = Memory(folder=args.folder, text=text, about=about, scope=scope, trust=trust, created_at=now)
            memories.add(db, entry)
        return len(fresh)

    added = 0
    for at in range(0, max(len(left), 1), AT_ONCE):
        added += await deps.write(partial(insert, left[at : at + AT_ONCE]))
    return ImportedMemories(added)


def _read_entries(text: str) -> list[ImportedEntry]:
    found: list[str | ImportedEntry] = []
    if not text.lstrip().startswith(("[", "{")):
        found += [ImportedEntry(said, about) for about, said in parse_notes(text)]
        if not found:
            raise Invalid("entries", "holds nothing to remember: neither an item nor a paragraph")
    else:
        try:
            found += _read_import(text)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise Invalid("entries", f"is no JSON list of texts or of entries with a text: {error}") from None
    if len(found) > MOST_IMPORTED:
        raise Invalid("entries", f"has {len(found)} entries; at most {MOST_IMPORTED} are taken at once")
    return [ImportedEntry(each) if isinstance(each, str) else each for each in found]


@operation
async def show_memory_file(deps: OperationDeps, args: ShowMemoryFileArgs) -> MemoryFileView:
    await deps.store.read(_check_group, args.folder)
    await check_here(deps.store, deps.home, args.folder)
    found = await compare_view(deps.store, deps.home, args.folder, deps.clock.now())
    return MemoryFileView(
        folder=args.folder,
        digest=found.seen,
        exists=bool(found.digest),
        kept=found.written is not None,
        changes=await asyncio.to_thread(render_changes, found.changes),
        conflicts=await asyncio.to_thread(render_conflicts, found.changes),
    )


@operation
async def sync_memory(deps: OperationDeps, args: SyncMemoryArgs) -> SyncedMemory:
    """Leave what is there already as it is, so one that broke off can be made again. The file goes before the row
    that says what is in it: a line that is not in the file yet is not taken for one that somebody took out."""
    now = deps.clock.now()
    await deps.store.read(_check_group, args.folder)
    if args.stop:
        await deps.write(lambda db: memory_views.remove(db, args.folder))
        return SyncedMemory(added=0, changed=0, forgotten=0, conflicts=[], written=False)
    await claim_here(deps.store, deps.home, args.folder, now)
    seen = await compare_view(deps.store, deps.home, args.folder, now)
    if seen.written is None and seen.digest and not args.adopt:
        raise Invalid(
            "folder", f"{args.folder} keeps a {VIEW} of its own, which is left alone; `--adopt` takes it over"
        )
    if seen.seen != args.digest:
        raise Invalid("digest", f"{VIEW} comes to something else meanwhile; nothing was taken over. Look at it again")
    done = SyncedMemory(added=0, changed=0, forgotten=0, conflicts=[], written=False)
    for part in [] if args.drop else split_changes(seen.changes, AT_ONCE):
        made = await deps.write(partial(_apply_changes, folder=args.folder, part=part, by=deps.caller, now=now))
        done = _add_up(done, made)
    left = await compare_view(deps.store, deps.home, args.folder, now)
    fresh = left.bare if args.drop else left.fresh
    written = await asyncio.to_thread(
        write_view, deps.home, args.folder, fresh.text, seen.digest, keep_former=seen.written is None
    )
    if written:
        await deps.write(lambda db: memory_views.put(db, args.folder, fresh.lines, now))
    conflicts = [] if args.drop else await asyncio.to_thread(render_conflicts, left.changes)
    return replace(done, conflicts=conflicts, written=written)


def _apply_changes(db: Db, *, folder: str, part: ViewChanges, by: str, now: int) -> SyncedMemory:
    """Make a person's words of what they have seen. Entries that have changed since then are left alone."""
    _check_group(db, folder)
    pairs = [(split_line(each.text), each.below) for each in part.added]
    known = {render_entry(each) for each in memory_views.list_same(db, folder, [text for (_, text), _ in pairs], now)}
    trust = MemoryTrust.OPERATOR
    added = [each for each in part.added if each.text not in known]
    for each in added:
        about, text = split_line(each.text)
        scope = MemoryScope.FAMILY if each.below else MemoryScope.AGENT
        memories.add(db, Memory(folder=folder, text=text, about=about, scope=scope, trust=trust, created_at=now))
    rows = memory_views.find_wide(db, folder, [entry.id for entry, _ in part.changed])
    changed = [(rows[entry.id], line) for entry, line in part.changed if entry.id in rows]
    live = [(row, line) for row, line in changed if row.ended_at is None]
    for row, line in live:
        about, text = split_line(line.text)
        new = replace(row, id=0, about=about, text=text, trust=trust, created_at=now, replaces=row.id)
        memories.replace(db, row, new, by)
    ended = memories.end(db, [each.id for each in part.forgotten], by, now)
    return SyncedMemory(added=len(added), changed=len(live), forgotten=len(ended), conflicts=[], written=False)


def _add_up(one: SyncedMemory, other: SyncedMemory) -> SyncedMemory:
    return replace(
        one,
        added=one.added + other.added,
        changed=one.changed + other.changed,
        forgotten=one.forgotten + other.forgotten,
    )
