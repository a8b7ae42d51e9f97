"""Files of a group that people write. They are read and written in a thread: a disk may be slow."""

import asyncio

from gatepost.core.errors import Invalid, NotFound
from gatepost.flow import group_files
from gatepost.flow.gateways.folder_check import check_here, claim_folder_here, claim_here
from gatepost.flow.group_files import SKILLS
from gatepost.flow.reports import GroupFile, GroupFileText, WrittenGroupFile
from gatepost.flow.sessions.host.host_uids import group_uid
from gatepost.serve.control.arguments.rooms.group_files import ListGroupFilesArgs, ReadGroupFileArgs, WriteGroupFileArgs
from gatepost.serve.control.contract import OperationDeps, operation
from gatepost.store.port import Db
from gatepost.store.sessions import groups


def _list_inner(db: Db, folder: str) -> list[str]:
    """Groups that lie where skills do: their files are theirs. Only a group's name becomes a path."""
    known = [each.folder for each in groups.list_all(db)]
    if folder not in known:
        raise NotFound("group", folder[:200], "`gatepost group list` shows them")
    return [each.removeprefix(f"{folder}/") for each in known if f"{each}/".startswith(f"{folder}/{SKILLS}/")]


def _is_inside(path: str, inner: list[str]) -> bool:
    return any(f"{path}/".startswith(f"{each}/") for each in inner)


async def _check_file(deps: OperationDeps, folder: str, path: str) -> None:
    if _is_inside(path, await deps.store.read(_list_inner, folder)):
        raise Invalid("path", f"{path[:80]} belongs to a group of its own; name that one")


@operation
async def list_files(deps: OperationDeps, args: ListGroupFilesArgs) -> list[GroupFile]:
    inner = await deps.store.read(_list_inner, args.folder)
    await check_here(deps.store, deps.home, args.folder)
    found = await asyncio.to_thread(group_files.list_files, deps.home, args.folder)
    return [each for each in found if not _is_inside(each.path, inner)]


@operation
async def read_file(deps: OperationDeps, args: ReadGroupFileArgs) -> GroupFileText:
    await _check_file(deps, args.folder, args.path)
    await check_here(deps.store, deps.home, args.folder)
    return await asyncio.to_thread(group_files.read_file, deps.home, args.folder, args.path)


@operation
async def write_file(deps: OperationDeps, args: WriteGroupFileArgs) -> WrittenGroupFile:
    await _check_file(deps, args.folder, args.path)
    now = deps.clock.now()
    await claim_here(deps.store, deps.home, args.folder, now)
    uid = await group_uid(deps.store, deps.config, deps.clock, args.folder)
    done = await asyncio.to_thread(
        group_files.write_file, deps.home, args.folder, args.path, args.content, args.version, uid
    )

    def check_again(db: Db) -> None:
        """A move that began after this was written takes it along; one that began before may not."""
        claim_folder_here(db, deps.home, args.folder, now)

    await deps.write(check_again, version=done.version, size=done.size, before=args.version)
    deps.events.group(args.folder)
    return done
