"""Memories: what an agent keeps beyond its conversations, each with its source and with the people who may be told.

An entry is never changed: another one takes its place, so that each step can be looked up and taken back. An ended
entry is found by nobody but the operator.
"""

from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import asdict

from gatepost.core.errors import Invalid, NotFound
from gatepost.core.record_fields import ShownAs, option, shown
from gatepost.store.engine.full_text import list_words, separate_characters
from gatepost.store.engine.table import Table
from gatepost.store.people import identities
from gatepost.store.port import Db, LockKind
from gatepost.store.rooms import direct_rooms, rooms
from gatepost.store.sessions import forks

LONGEST_TEXT, LONGEST_ABOUT = 2000, 100  # characters
MOST_LIVE = 10_000  # entries of one group that are in force
MOST_OF_ONE = 2000  # of these, by what one identity said, and for one person or one room alone
MOST_ENDED = 10_000  # and that have ended; the oldest of these go
DROPPED_AT_ONCE, OVER_AT_ONCE = 200, 10  # rows that go with an entry that comes, and entries that have had their time
OUTDATED, MADE_ROOM = "time", "room"  # what ends an entry that has had its time, or makes room for another
MOST_WORDS = 100  # of one entry that it is found by
STEM = 6  # letters: what a word ends with hardly matters in most languages


class MemoryScope(StrEnum):
    """The people who may be told of an entry."""

    PERSON = "person"  # one person, where nobody else reads
    ROOM = "room"  # one room
    AGENT = "agent"  # everybody who talks with the agent
    FAMILY = "family"  # the same, and with the agents below it


def render_scope(scope: MemoryScope) -> str:
    return _READERS[scope]


_READERS = {
    MemoryScope.PERSON: "one person",
    MemoryScope.ROOM: "its room",
    MemoryScope.AGENT: "everybody",
    MemoryScope.FAMILY: "everybody, and agents below",
}


class MemoryTrust(StrEnum):
    """The origin of an entry."""

    OPERATOR = "operator"
    MEMBER = "member"  # said by somebody who belongs to the group
    STRANGER = "stranger"  # said by anybody else
    READ = "read"  # read on a page, in a file, or in the result of a tool
    CONCLUDED = "concluded"  # the agent's own conclusion


UNTRUSTED = (MemoryTrust.STRANGER, MemoryTrust.READ)
# What makes room for an entry, by its trust. What members and the operator say makes room for nothing.
_MAKES_ROOM = dict.fromkeys(MemoryTrust, (MemoryTrust.CONCLUDED, *UNTRUSTED)) | dict.fromkeys(UNTRUSTED, UNTRUSTED)


class MemoryFields(Struct, frozen=True, kw_only=True):
    """The columns of an entry that whoever adds one sets as they are."""

    text: Annotated[
        str,
        Meta(max_length=LONGEST_TEXT),
        shown("Remembered", head="text"),
        option("What is to be remembered, as one sentence."),
    ]
    about: Annotated[
        str, Meta(max_length=LONGEST_ABOUT), shown("About"), option("The person or thing it is about.")
    ] = ""
    expires_at: Annotated[int | None, shown("Until", ShownAs.MOMENT, head="until", empty="")] = None


class Memory(MemoryFields, frozen=True, kw_only=True):
    id: Annotated[int, shown("Id", ShownAs.ID)] = 0  # 0: not written yet
    folder: Annotated[str, shown("Agent", head="group")]
    scope: Annotated[MemoryScope, shown("Known to", head="known to", render=render_scope)]
    person: Annotated[str, shown("Person", ShownAs.CODE, details=True)] = ""
    instance: str = ""
    address: Annotated[str, shown("Room", ShownAs.CODE, details=True)] = ""
    message_id: Annotated[int | None, shown("Message", ShownAs.NUMBER, details=True, empty="")] = None
    speaker: Annotated[str, shown("Said by", ShownAs.CODE, head="by")] = ""
    trust: Annotated[MemoryTrust, shown("Source", head="source")]
    turn_id: str = ""
    created_at: Annotated[int, shown("Since", ShownAs.MOMENT, head="since")]
    ended_at: Annotated[int | None, shown("Ended", ShownAs.MOMENT, details=True, empty="")] = None
    ended_by: Annotated[str, shown("Ended by", details=True)] = ""
    replaces: Annotated[int | None, shown("In the place of", ShownAs.NUMBER, details=True, empty="")] = None


MEMORIES = Table("memories", Memory)
_WORDS = ("folder", "word", "reader", "memory_id")


class _MemoryWord(Struct, frozen=True):
    folder: str
    word: str
    reader: str
    memory_id: int


MEMORY_WORDS = Table("memory_words", _MemoryWord)


class Audience(Struct, frozen=True):
    """The people of a turn, as far as memories may be told to all of them. `names`: the identities of the one person
    who reads there alone; empty if others may read as well, or nobody knows who does."""

    folder: str
    above: tuple[str, ...] = ()  # the groups above it
    instance: str = ""
    address: str = ""
    names: tuple[str, ...] = ()

    @property
    def folders(self) -> tuple[str, ...]:
        return (self.folder, *self.above)

    @property
    def readers(self) -> tuple[str, ...]:
        """Return which entries of its own group the index is asked for."""
        room = (make_reader(MemoryScope.ROOM, "", self.instance, self.address),) if self.address else ()
        people = (make_reader(MemoryScope.PERSON, each, "", "") for each in self.names)
        return (MemoryScope.AGENT, MemoryScope.FAMILY, *room, *people)

    def make_memory(
        self, text: str, trust: MemoryTrust, now: int, *, message_id: int | None, speaker: str, turn_id: str = ""
    ) -> Memory:
        """Return a new entry, known to the one person who reads here alone, else to the room."""
        person = self.names[0] if self.names else ""
        return Memory(
            folder=self.folder,
            text=text,
            scope=MemoryScope.PERSON if person else MemoryScope.ROOM,
            person=person,
            instance="" if person else self.instance,
            address="" if person else self.address,
            message_id=message_id,
            speaker=speaker,
            trust=trust,
            turn_id=turn_id,
            created_at=now,
        )


def make_reader(scope: MemoryScope, person: str, instance: str, address: str) -> str:
    """Return one word of the index for everybody who may be told."""
    named = {MemoryScope.PERSON: f" {person}", MemoryScope.ROOM: f" {instance} {address}"}
    return f"{scope}{named.get(scope, '')}"


def find_audience(
    db: Db, folder: str, instance: str, address: str, askers: Collection[str], session_id: str | None = None
) -> Audience:
    """Return who is told what an agent says in a room. `askers`: everybody on whose behalf it speaks. An entry for one
    person alone is for nobody's asking but theirs: whoever has an agent speak in a room has it act elsewhere, too. A
    conversation of several rooms is told only what everybody may know: it may say that in each."""
    if session_id is not None and forks.spans_rooms(db, session_id):
        return Audience(folder, list_above(folder))
    names = find_only_reader(db, instance, address) if askers else ()
    return Audience(folder, list_above(folder), instance, address, names if set(askers) <= set(names) else ())


def find_only_reader(db: Db, instance: str, address: str) -> tuple[str, ...]:
    """Return the identities of the one person who reads in a direct room; none if others may read there."""
    room = rooms.get(db, instance, address) if address else None
    if room is None or not room.direct:
        return ()
    people = {identities.get_person(db, each) for each in direct_rooms.list_readers(db, instance, address)}
    return identities.list_names(db, people.pop()) if len(people) == 1 else ()


def list_above(folder: str) -> tuple[str, ...]:
    parts = folder.split("/")
    return tuple("/".join(parts[:count]) for count in range(len(parts) - 1, 0, -1))


def get_condition(audience: Audience, now: int) -> tuple[str, tuple[object, ...]]:
    """Return the condition on a row `m` that everybody in the audience may be told of it, and the parameters."""
    own = ["m.scope IN ('agent', 'family')"]
    given: list[object] = []
    if audience.address:
        own.append("m.scope = 'room' AND m.instance = ? AND m.address = ?")
        given += [audience.instance, audience.address]
    if audience.names:
        own.append(f"m.scope = 'person' AND m.person IN ({_marks(audience.names)})")
        given += audience.names
    parts = [f"m.folder = ? AND ({' OR '.join(own)})"]
    if audience.above:
        parts.append(f"m.folder IN ({_marks(audience.above)}) AND m.scope = 'family'")
    sql = f"m.ended_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > ?) AND ({' OR '.join(parts)})"
    return sql, (now, audience.folder, *given, *audience.above)


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def make_room(db: Db, new: Memory) -> str:
    """End the oldest entry of little trust wherever there is no room for another. Return why there is none, or ''."""
    for most, where, condition, params in _list_shares(new):
        live = f"FROM memories WHERE folder = ? AND ended_at IS NULL AND {condition}"
        count = _count(db, f"SELECT COUNT(*) {live}", (new.folder, *params))
        if count >= most:  # those whose time is over do not count
            count -= _count(db, f"SELECT COUNT(*) {live} AND expires_at <= ?", (new.folder, *params, new.created_at))
        if count < most:
            continue
        trusts = _MAKES_ROOM[new.trust]
        oldest = db.row(
            f"SELECT id {live} AND trust IN ({_marks(trusts)}) ORDER BY id LIMIT 1", (new.folder, *params, *trusts)
        )
        if oldest is None:
            return f"{most} things are remembered {where} already; something must be forgotten first"
        end(db, [int(oldest[0])], MADE_ROOM, new.created_at)
    return ""


def _count(db: Db, sql: str, params: tuple[object, ...]) -> int:
    row = db.row(sql, params)
    return int(row[0]) if row is not None else 0


def _list_shares(new: Memory) -> list[tuple[int, str, str, tuple[object, ...]]]:
    """Return each share that an entry takes a part of: its size, its name, and a condition with its parameters."""
    shares: list[tuple[int, str, str, tuple[object, ...]]] = []
    if new.scope in (MemoryScope.PERSON, MemoryScope.ROOM):
        where = "for this person" if new.scope is MemoryScope.PERSON else "for this room"
        condition = "scope = ? AND person = ? AND instance = ? AND address = ?"
        shares.append((MOST_OF_ONE, where, condition, (new.scope, new.person, new.instance, new.address)))
    if new.speaker:
        shares.append((MOST_OF_ONE, f"of what {new.speaker} said", "speaker = ?", (new.speaker,)))
    return [*shares, (MOST_LIVE, f"by {new.folder}", "1 = 1", ())]


def add(db: Db, new: Memory) -> Memory:
    """Insert an entry and index its words."""
    made = _insert(db, new, "")
    assert made is not None  # only a fact has a key
    return made


def add_fact(db: Db, new: Memory, key: str) -> Memory | None:
    """Insert an entry unless one with its key was ever there: what was forgotten does not come again."""
    if MEMORIES.get(db, "WHERE folder = ? AND fact_key = ?", new.folder, key) is not None:
        return None
    return _insert(db, new, key)


def _insert(db: Db, new: Memory, fact_key: str) -> Memory | None:
    db.lock(LockKind.QUOTA, "memories", new.folder)
    _end_outdated(db, new.folder, new.created_at)
    if reason := make_room(db, new):
        raise Invalid("text", reason)
    values = asdict(new)
    del values["id"]
    row = MEMORIES.insert(
        db,
        f"ON CONFLICT (folder, fact_key) WHERE fact_key <> '' DO NOTHING RETURNING {MEMORIES.columns}",
        **values,
        fact_key=fact_key,
    )
    if row is None:
        return None
    made = MEMORIES.parse(row)
    _index(db, made)
    return made


def _end_outdated(db: Db, folder: str, now: int) -> None:
    """End entries that have had their time: they take no other entry's place, neither of those in force nor of those
    that are found."""
    rows = db.rows(
        "SELECT id FROM memories WHERE folder = ? AND ended_at IS NULL AND expires_at <= ?"
        " ORDER BY expires_at, id LIMIT ?",
        (folder, now, OVER_AT_ONCE),
    )
    end(db, [int(row[0]) for row in rows], OUTDATED, now)


def _index(db: Db, entry: Memory) -> None:
    words = list_stems(f"{entry.about} {entry.text}")[:MOST_WORDS]
    reader = make_reader(entry.scope, entry.person, entry.instance, entry.address)
    rows = [(entry.folder, word, reader, entry.id) for word in words]
    if rows:
        MEMORY_WORDS.add_rows(db, "", _WORDS, rows)


def list_stems(text: str) -> list[str]:
    """Return the beginnings of the words of a text, each once, in their order."""
    words = list_words(separate_characters(text))
    return list(dict.fromkeys((word[:-1] if len(word) > 3 and word.endswith("s") else word)[:STEM] for word in words))


def get(db: Db, memory_id: int) -> Memory | None:
    return MEMORIES.get(db, "WHERE id = ?", memory_id)


def get_visible(db: Db, audience: Audience, memory_id: int, now: int) -> Memory | None:
    """Return an entry that this audience may be told of."""
    sql, given = get_condition(audience, now)
    row = db.row(f"SELECT {MEMORIES.columns_of('m')} FROM memories m WHERE m.id = ? AND {sql}", (memory_id, *given))
    return MEMORIES.parse(row) if row is not None else None


def replace(db: Db, old: Memory, new: Memory, by: str) -> Memory:
    """Put an entry in the place of another one, which has only one in its place, however many want that at once."""
    if not end(db, [old.id], by, new.created_at, new.trust):
        raise NotFound("memory", str(old.id), "it was changed or forgotten meanwhile")
    return add(db, new)


def end(db: Db, ids: Iterable[int], by: str, now: int, trust: MemoryTrust = MemoryTrust.OPERATOR) -> list[int]:
    """End entries that are in force; return those. They can be looked up until there are too many. `trust`: of whoever
    wants it. Entries that the operator ends are not among those that `undo` restores."""
    ended: list[int] = []
    folders = set[str]()
    ended_trust = "" if trust is MemoryTrust.OPERATOR else trust.value
    for memory_id in ids:
        row = db.row(
            "UPDATE memories SET ended_at = ?, ended_by = ?, ended_trust = ? WHERE id = ? AND ended_at IS NULL"
            " RETURNING folder",
            (now, by, ended_trust, memory_id),
        )
        if row is not None:
            ended.append(memory_id)
            folders.add(str(row[0]))
            db.run("DELETE FROM memory_words WHERE memory_id = ?", (memory_id,))
            db.run("DELETE FROM memory_vectors WHERE memory_id = ?", (memory_id,))
    for folder in sorted(folders):
        _drop_oldest(db, folder)
    return ended


def _drop_oldest(db: Db, folder: str) -> None:
    """An agent that remembers and forgets for ever fills no disk."""
    db.run(
        "DELETE FROM memories WHERE id IN (SELECT id FROM memories WHERE folder = ? AND ended_at IS NOT NULL"
        " ORDER BY ended_at DESC, id DESC LIMIT ? OFFSET ?)",
        (folder, DROPPED_AT_ONCE, MOST_ENDED),
    )


def list_newest(db: Db, audience: Audience, now: int, limit: int) -> list[Memory]:
    """Return what this audience may be told of, the newest first."""
    sql, given = get_condition(audience, now)
    rows = db.rows(
        f"SELECT {MEMORIES.columns_of('m')} FROM memories m WHERE {sql} ORDER BY m.id DESC LIMIT ?", (*given, limit)
    )
    return [MEMORIES.parse(row) for row in rows]


class MemoryFilter(Struct, frozen=True, kw_only=True):
    """A choice of entries, for the operator."""

    folders: tuple[str, ...] | None = None  # None: all
    since: int = 0  # made at that time or later
    untrusted: bool = False  # only what strangers said or what was read
    ended: bool = False  # those that are over, too
    before: int = 2**62  # ids below that
    limit: int = 200


def list_chosen(db: Db, chosen: MemoryFilter, now: int) -> list[Memory]:
    """The newest first."""
    conditions, given = ["created_at >= ?", "id < ?"], [chosen.since, chosen.before]
    params: list[object] = [*given]
    if chosen.folders is not None:
        conditions.append(f"folder IN ({_marks(chosen.folders) or 'NULL'})")
        params += chosen.folders
    if chosen.untrusted:
        conditions.append(f"trust IN ({_marks(UNTRUSTED)})")
        params += [each.value for each in UNTRUSTED]
    if not chosen.ended:
        conditions.append("ended_at IS NULL AND (expires_at IS NULL OR expires_at > ?)")
        params.append(now)
    where = " AND ".join(conditions)
    return MEMORIES.list(db, f"WHERE {where} ORDER BY id DESC LIMIT ?", *params, chosen.limit)


def list_known_texts(db: Db, folder: str, texts: Sequence[str]) -> set[str]:
    """Return those of these texts that everybody who talks with a group's agent may be told already."""
    rows = db.rows(
        "SELECT text FROM memories WHERE folder = ? AND ended_at IS NULL AND scope IN ('agent', 'family')"
        f" AND text IN ({_marks(texts) or 'NULL'})",
        (folder, *texts),
    )
    return {str(row[0]) for row in rows}


def undo(db: Db, chosen: Sequence[Memory], by: str, now: int) -> tuple[list[int], list[int]]:
    """Take entries back: what they took the place of is in force again. Return (ended, restored)."""
    ended = end(db, [each.id for each in chosen], by, now)
    gone = {each.id for each in chosen}
    replaced = [each.replaces for each in chosen if each.id in ended and each.replaces not in (None, *gone)]
    return ended, restore(db, [each for each in replaced if each is not None])


def restore(db: Db, ids: Iterable[int]) -> list[int]:
    """Put entries that have ended in force again; return those that were not."""
    restored = []
    for memory_id in ids:
        row = db.row(
            "UPDATE memories SET ended_at = NULL, ended_by = '', ended_trust = '' WHERE id = ? AND ended_at IS NOT NULL"
            f" RETURNING {MEMORIES.columns}",
            (memory_id,),
        )
        if row is not None:
            _index(db, MEMORIES.parse(row))
            restored.append(memory_id)
    return restored


# A condition on `memories`: nothing is in force that took its place, or the place of what had taken it, and so on.
_NOTHING_LATER = (
    "NOT EXISTS (WITH RECURSIVE later (id, ended_at) AS"
    " (SELECT n.id, n.ended_at FROM memories n WHERE n.replaces = memories.id"
    " UNION SELECT n.id, n.ended_at FROM memories n JOIN later l ON n.replaces = l.id)"
    " SELECT 1 FROM later WHERE ended_at IS NULL)"
)


def list_restorable(db: Db, chosen: MemoryFilter, now: int) -> list[Memory]:
    """Return what was made before, was ended since by an agent or in a chat, and in whose place nothing is in force.
    With `untrusted`, that is what a stranger had ended, also of what members said since."""
    untrusted = [each.value for each in UNTRUSTED]
    conditions = ["ended_trust <> '' AND ended_at >= ?", "(expires_at IS NULL OR expires_at > ?)"]
    params: list[object] = [chosen.since, now]
    if chosen.untrusted:
        conditions.append(f"ended_trust IN ({_marks(untrusted)})")
        conditions.append(f"NOT (created_at >= ? AND trust IN ({_marks(untrusted)}))")
        params += [*untrusted, chosen.since, *untrusted]
    else:
        conditions.append("created_at < ?")
        params.append(chosen.since)
    if chosen.folders is not None:
        conditions.append(f"folder IN ({_marks(chosen.folders) or 'NULL'})")
        params += chosen.folders
    where = " AND ".join(conditions)
    return MEMORIES.list(db, f"WHERE {where} AND {_NOTHING_LATER} ORDER BY id DESC LIMIT ?", *params, chosen.limit)


def count_shared(db: Db, folder: str) -> int:
    """Return how many entries of a group hold for those below it, too."""
    row = db.row("SELECT COUNT(*) FROM memories WHERE folder = ? AND scope = 'family' AND ended_at IS NULL", (folder,))
    return int(row[0]) if row else 0
