"""Instructions of agents: what AGENTS.md said, version by version, and putting one back."""

import asyncio

from msgspec import Struct

from gatepost.core.errors import Invalid, NotFound
from gatepost.core.records import replace
from gatepost.flow import group_files
from gatepost.flow.gateways.folder_check import check_here, claim_folder_here, claim_here
from gatepost.flow.group_files import AGENTS
from gatepost.flow.instruction_watch import FIRST, UNSURE, read_texts, record_found
from gatepost.flow.sessions.host.host_uids import group_uid
from gatepost.messages.inbound import OPERATOR
from gatepost.messages.visible_text import render_changes
from gatepost.serve.control.arguments.instructions import (
    InstructionChange,
    InstructionEntry,
    ListInstructionsArgs,
    PutBackAnswer,
    PutBackArgs,
    ShowInstructionsArgs,
)
from gatepost.serve.control.contract import OperationDeps, operation, read_operation
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost.store.sessions import groups, instructions
from gatepost.store.sessions.instructions import InstructionSource, InstructionVersion


@read_operation
def list_instructions(db: Db, args: ListInstructionsArgs, now: int) -> list[InstructionEntry]:
    if groups.get(db, args.folder) is None:
        raise NotFound("group", args.folder[:200], "`gatepost group list` shows them")
    found = instructions.list_for_group(db, args.folder)
    return [_make_entry(db, each, is_current=each.id == found[0].id) for each in found]


def _make_entry(db: Db, version: InstructionVersion, *, is_current: bool) -> InstructionEntry:
    return InstructionEntry(
        id=version.id,
        written_at=version.written_at,
        by=version.written_by,
        by_name=_render_writer(db, version),
        source=version.source,
        size=len(version.text),
        is_current=is_current,
    )


def _render_writer(db: Db, version: InstructionVersion) -> str:
    by = version.written_by
    if not by:
        return "somebody on the machine"
    if by == UNSURE:
        return "an agent, or somebody on the machine"
    if by == FIRST:
        return "as it was at first"
    if by == OPERATOR:
        return "the operator"
    if by == f"agent:{version.folder}":
        return "the agent itself"
    user = users.get(db, by)
    return (user.name if user is not None else "") or by


@operation
async def show_instructions(deps: OperationDeps, args: ShowInstructionsArgs) -> InstructionChange:
    await check_here(deps.store, deps.home, args.folder)
    found = await deps.store.read(_read_version, args.folder, args.id)
    texts = await asyncio.to_thread(read_texts, deps.home, [args.folder])
    current, text = (texts[0].digest, texts[0].text) if texts else ("", "")
    changes = await asyncio.to_thread(render_changes, text, found.version.text)
    entry = replace(found.entry, is_current=current == found.version.digest)
    return InstructionChange(
        entry=entry,
        text=found.version.text,
        changes=changes if current != found.version.digest else [],
        current=current,
        undo=found.undo if entry.is_current else None,
    )


class _ReadVersion(Struct, frozen=True):
    version: InstructionVersion
    entry: InstructionEntry
    undo: int | None


def _read_version(db: Db, folder: str, version_id: int) -> _ReadVersion:
    version = instructions.get(db, folder, version_id)
    if version is None:
        raise NotFound("version", str(version_id), f"`gatepost instructions list {folder}` lists them")
    newest = instructions.list_for_group(db, folder)[:2]
    was_put_back = newest[0].source is InstructionSource.PUT_BACK and newest[0].digest == version.digest
    undo = newest[1].id if was_put_back and len(newest) > 1 else None
    return _ReadVersion(version, _make_entry(db, version, is_current=False), undo)


@operation
async def put_back(deps: OperationDeps, args: PutBackArgs) -> PutBackAnswer:
    folder, now = args.folder, deps.clock.now()
    await claim_here(deps.store, deps.home, folder, now)
    wanted = (await deps.store.read(_read_version, folder, args.id)).version
    uid = await group_uid(deps.store, deps.config, deps.clock, folder)
    before = await asyncio.to_thread(read_texts, deps.home, [folder])
    current = before[0].digest if before else ""
    if args.version and args.version != current:
        raise Invalid("version", "the instructions were changed meanwhile; look at them again first")
    if current == wanted.digest:
        return PutBackAnswer(folder=folder, version=current, undo=None)
    done = await asyncio.to_thread(group_files.write_file, deps.home, folder, AGENTS, wanted.text, current, uid)

    def record(db: Db) -> int | None:
        claim_folder_here(db, deps.home, folder, now)
        record_found(db, before, None, now)
        replaced = instructions.get_newest(db, folder)
        instructions.add(db, folder, done.version, wanted.text, InstructionSource.PUT_BACK, deps.caller, now)
        return replaced.id if replaced is not None and current else None

    undo = await deps.write(record, version=done.version, before=current)
    deps.events.group(folder)
    return PutBackAnswer(folder=folder, version=done.version, undo=undo)
