"""Traces of a person: found by reading alone, a window of the ledger at a time. Both the list that `gatepost user
forget` shows first and the later erasure come from here."""

import re
import stat
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import PurePosixPath
from typing import Protocol, TypeVar, TypeVarTuple

import msgspec
from msgspec import Struct

from gatepost.channels.contract import get_file_folder_name
from gatepost.core.errors import GatepostError
from gatepost.core.files.untrusted_files import UntrustedFolder, open_untrusted, render_path
from gatepost.core.home import Home
from gatepost.flow.groups import WEB_PERSON, WEB_ROOM
from gatepost.store.people import identities, person_removal, person_requests, person_rows
from gatepost.store.people.person_requests import PersonRequest
from gatepost.store.people.person_scope import PersonScope
from gatepost.store.port import Db
from gatepost.store.rights import audit
from gatepost.store.sessions import forks, replays

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

WINDOW = 4000  # ids of messages that one read looks through
ROWS = 1000  # of other tables
CHUNK = 200  # ids in one statement
SHORTEST_NAME = 3  # characters of a name that is looked for: a shorter one is in everything
MANY = 1_000_000
_FOLDER = re.compile(r"f-[0-9a-z]+")
_SESSION = re.compile(r"\bs-[0-9a-z]{18,20}\b")
MOST_FILES, LARGEST_FILE, DEEPEST = 20_000, 1024 * 1024, 16  # an agent chooses how many and how large they are
MOST_FOUND = 20


class StoreReader(Protocol):
    """A store, or one snapshot of it."""

    async def read(self, fn: Callable[[Db, *Ts], T], *args: *Ts) -> T: ...


class _StoredFile(msgspec.Struct):
    path: str = ""


class _Content(msgspec.Struct):
    attachments: list[_StoredFile] = []


_read_content = msgspec.json.Decoder(_Content).decode


class PersonTraces(Struct, frozen=True, kw_only=True):
    scope: PersonScope
    called: frozenset[str]  # their names, as platforms and people say them
    through: int  # the newest message then: what they write later is not looked at
    sessions: tuple[str, ...]  # that were given something of theirs
    room_sessions: tuple[str, ...]  # conversations in direct rooms of theirs
    media: frozenset[str]  # folders below `media/`
    counts: dict[str, int]

    @property
    def words(self) -> re.Pattern[str]:
        """Words of which a text that tells of the person holds one: an identity or a direct room. No name: if they call
        themselves `home` or `info`, everything in which that word stands would be erased."""
        return make_pattern((*self.scope.names, *(address for _, address in self.scope.rooms)))

    @property
    def plain_words(self) -> tuple[str, ...]:
        """The same as they stand in files that are no JSON."""
        names = (each for each in sorted(self.called) if len(each) >= SHORTEST_NAME)
        return (*self.scope.names, *(address for _, address in self.scope.rooms), *names)

    def is_in_line(self, line: str) -> bool:
        """Return True if a line of the log tells of the person, or of a conversation that they were in."""
        mine = {*self.sessions, *self.room_sessions}
        return bool(self.words.search(line)) or any(each in mine for each in _SESSION.findall(line))


def make_pattern(words: Iterable[str]) -> re.Pattern[str]:
    """The words, wherever they stand by themselves in JSON."""
    escaped = "|".join(re.escape(_escape(each)) for each in words)
    return re.compile(rf"(?<!\w)(?:{escaped})(?!\w)")


def _escape(text: str) -> str:
    return msgspec.json.encode(text).decode()[1:-1]


async def find_traces(store: StoreReader, identity: str) -> PersonTraces:
    names = await store.read(identities.list_names, identity)
    through = await store.read(person_rows.get_newest_message)
    called = set(await store.read(person_removal.list_called, names))
    rooms = set(await store.read(person_rows.list_direct_rooms, names))
    for after in range(0, through, WINDOW):
        for place in await store.read(person_rows.list_places, names, after, after + WINDOW):
            called.add(place.sender_name)
            if place.direct:
                rooms.add((place.instance, place.address))
    own = {(instance, address) for instance, address in rooms if address in _list_own_rooms(names)}
    for room in sorted(rooms - own):
        if not await store.read(person_rows.has_others, names, *room):
            own.add(room)
    own.update(await store.read(replays.list_rooms_about, names))  # their words once more, and answers to them
    scope = PersonScope(names, tuple(sorted(own)))
    return await _count(store, scope, frozenset(called - {""}), through)


def _list_own_rooms(names: Iterable[str]) -> set[str]:
    """List the rooms of the web page that are named after the person, whoever else wrote there."""
    pages = (each.removeprefix(WEB_PERSON) for each in names if each.startswith(WEB_PERSON))
    return {f"{WEB_ROOM}{each}" for each in pages}


async def _count(store: StoreReader, scope: PersonScope, called: frozenset[str], through: int) -> PersonTraces:
    sessions: set[str] = set()
    media: set[str] = set()
    messages, answers = 0, 0
    async for ids, contents in list_messages(store, scope, through):
        said = await store.read(person_rows.list_answers, ids, MANY)
        sent = await store.read(person_rows.list_sent_files, [*ids, *said])
        sessions.update(await store.read(person_rows.list_sessions, ids))
        media.update(f"{instance}/{get_file_folder_name(key)}" for instance, key in sent)
        media.update(folder for each in contents for folder in list_attachment_folders(each))
        messages, answers = messages + len(ids), answers + len(said)
    requests = [each async for each in list_requests(store, scope)]
    sessions.update(each.session_id for each in requests if each.session_id is not None)
    room_sessions = await store.read(person_rows.list_room_sessions, scope.rooms)
    sessions.update(await store.read(forks.list_descendants, [*sessions, *room_sessions]))  # they know what these know
    found = PersonTraces(
        scope=scope,
        called=called,
        through=through,
        sessions=tuple(sorted(sessions - {*room_sessions})),
        room_sessions=tuple(room_sessions),
        media=frozenset(media),
        counts={},
    )
    found.counts.update(messages=messages, answers=answers, files=len(media))
    found.counts["conversations"] = len(found.sessions) + len(room_sessions)
    found.counts["requests"] = len(requests)
    found.counts["audit"] = await _count_audit(store, found)
    found.counts.update(await store.read(person_removal.count, scope))
    return found


async def list_messages(
    store: StoreReader, scope: PersonScope, through: int
) -> AsyncIterator[tuple[list[int], list[str]]]:
    """Yield (ids, contents) of the person's messages, some at a time."""
    for after in range(0, through, WINDOW):
        found = await store.read(person_rows.list_messages, scope, after, min(after + WINDOW, through))
        for start in range(0, len(found), CHUNK):
            some = found[start : start + CHUNK]
            yield [each.id for each in some], [each.content for each in some]


def list_attachment_folders(content: str) -> list[str]:
    """Below `media/`, of the files that came with a message. Only what intake itself names so."""
    try:
        paths = [PurePosixPath(each.path).parts for each in _read_content(content).attachments]
    except msgspec.MsgspecError:
        return []
    return [f"in/{parts[1]}" for parts in paths if len(parts) == 3 and parts[0] == "in" and _FOLDER.fullmatch(parts[1])]


async def list_requests(store: StoreReader, scope: PersonScope) -> AsyncIterator[PersonRequest]:
    after, more = "", True
    while more:
        found, after = await store.read(person_requests.list_requests, scope, after, ROWS)
        for each in found:
            yield each
        more = bool(after)


async def _count_audit(store: StoreReader, traces: PersonTraces) -> int:
    found, after, words = 0, 0, traces.words
    newest = await store.read(audit.get_newest)
    while True:
        portion = await store.read(person_rows.find_audit_rows, traces.scope, words, after, newest, ROWS)
        found, after = found + len(portion.own) + len(portion.others), portion.after
        if not portion.more:
            return found


def find_mentions(home: Home, words: Iterable[str]) -> tuple[list[str], bool]:
    """Find files that agents wrote and that hold one of the words, or are named by one. Return their paths below the
    home's `groups/`, and True if every file was looked at. The gateway does not change them. Takes a while: for a
    thread."""
    escaped = [re.escape(each.encode()) for each in words if each]
    if not escaped:
        return [], True
    wanted = re.compile(rb"(?<!\w)(?:" + b"|".join(escaped) + rb")(?!\w)")
    try:
        groups = open_untrusted(home.groups)
    except GatepostError:  # a home without groups
        return [], True
    found: list[str] = []
    looked, whole = 0, True
    with groups as root:
        for path, size in _walk_files(root, "", 0):
            looked += 1
            if looked > MOST_FILES or len(found) >= MOST_FOUND:
                return found, False
            whole = whole and 0 <= size <= LARGEST_FILE
            if wanted.search(path.encode(errors="replace")) or wanted.search(_read_file(root, path, size)):
                found.append(f"groups/{render_path(path)}")
    return found, whole


def _walk_files(root: UntrustedFolder, folder: str, depth: int) -> Iterator[tuple[str, int]]:
    """(path, size) of every regular file; the size is -1 if something cannot be looked into."""
    try:
        names = root.list(folder)
    except GatepostError:
        yield folder, -1
        return
    for name in names:
        path = f"{folder}/{name}" if folder else name
        try:
            here = root.stat(path)
        except GatepostError:
            continue
        if stat.S_ISREG(here.st_mode):
            yield path, here.st_size
        elif stat.S_ISDIR(here.st_mode) and depth < DEEPEST:
            yield from _walk_files(root, path, depth + 1)
        elif stat.S_ISDIR(here.st_mode):
            yield path, -1


def _read_file(root: UntrustedFolder, path: str, size: int) -> bytes:
    if not 0 < size <= LARGEST_FILE:
        return b""
    try:
        return root.read_bytes(path, LARGEST_FILE)
    except GatepostError:
        return b""
