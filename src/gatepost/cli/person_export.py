"""Everything that is known of a person, as a zip of JSON and files: read from one snapshot, with the gateway up or
down."""

import asyncio
import zipfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

import msgspec

from gatepost.core.files.private_files import make_private_file
from gatepost.core.home import Home
from gatepost.flow.people.person_traces import MANY, ROWS, PersonTraces, find_traces, list_messages, list_requests
from gatepost.store.engine.readonly import read_store
from gatepost.store.messages import messages
from gatepost.store.people import person_removal, person_rows
from gatepost.store.port import Db
from gatepost.store.rights import audit, requests

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _Snapshot:
    def __init__(self, db: Db) -> None:
        self._db = db

    async def read(self, fn: Callable[[Db, *Ts], T], *args: *Ts) -> T:
        return fn(self._db, *args)


def write_export(home: Home, identity: str, target: Path) -> int:
    """Write to a new file of the owner's alone; return how many of the person's files are in it."""
    with (
        make_private_file("--export", target) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        return read_store(home, _write, home, identity, archive)


def _write(db: Db, home: Home, identity: str, archive: zipfile.ZipFile) -> int:
    return asyncio.run(_write_all(db, home, identity, archive))


async def _write_all(db: Db, home: Home, identity: str, archive: zipfile.ZipFile) -> int:
    snapshot = _Snapshot(db)
    found = await find_traces(snapshot, identity)
    about = {"identities": found.scope.names, "names": sorted(found.called), "rooms": found.scope.rooms}
    archive.writestr("person.json", _encode({**about, **person_removal.list_rows(db, found.scope)}))
    await _write_lines(archive, "messages.jsonl", _list_messages(db, snapshot, found, answers=False))
    await _write_lines(archive, "answers.jsonl", _list_messages(db, snapshot, found, answers=True))
    await _write_lines(archive, "requests.jsonl", _list_requests(db, snapshot, found))
    await _write_lines(archive, "audit.jsonl", _list_audit(db, found))
    return sum(_write_folder(archive, home.media / each, f"files/{each}") for each in sorted(found.media))


def _encode(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value, enc_hook=str))


async def _write_lines(archive: zipfile.ZipFile, name: str, rows: AsyncIterator[Any]) -> None:
    with archive.open(name, "w", force_zip64=True) as file:
        async for row in rows:
            file.write(msgspec.json.encode(row, enc_hook=str) + b"\n")


async def _list_messages(db: Db, snapshot: _Snapshot, found: PersonTraces, *, answers: bool) -> AsyncIterator[Any]:
    async for numbers, _ in list_messages(snapshot, found.scope, found.through):
        for each in person_rows.list_answers(db, numbers, MANY) if answers else numbers:
            yield messages.get(db, each)


async def _list_requests(db: Db, snapshot: _Snapshot, found: PersonTraces) -> AsyncIterator[Any]:
    async for each in list_requests(snapshot, found.scope):
        yield requests.get(db, each.id)


async def _list_audit(db: Db, found: PersonTraces) -> AsyncIterator[Any]:
    newest, after, more, words = audit.get_newest(db), 0, True, found.words
    while more:
        portion = person_rows.find_audit_rows(db, found.scope, words, after, newest, ROWS)
        after, more = portion.after, portion.more
        for seq in sorted({*portion.own, *portion.others}):
            yield audit.get(db, seq)


def _write_folder(archive: zipfile.ZipFile, folder: Path, name: str) -> int:
    """The media folder is the daemon's own: no sandbox can put a link there."""
    files = [each for each in sorted(folder.rglob("*")) if each.is_file() and not each.is_symlink()]
    for each in files:
        archive.write(each, f"{name}/{each.relative_to(folder)}")
    return len(files)
