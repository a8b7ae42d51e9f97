"""Memory: what an agent keeps beyond its conversations. A turn is told, and finds, only what everybody who reads its
answer may know: what somebody said in private never comes up in a room with others."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from gatepost.access.tiers import Tier
from gatepost.core.clock import iso
from gatepost.core.errors import Invalid, NotFound, Refused
from gatepost.core.records import replace
from gatepost.messages.text import clean
from gatepost.store.memory import memories
from gatepost.store.memory.memories import (
    LONGEST_ABOUT,
    LONGEST_TEXT,
    Audience,
    Memory,
    MemoryScope,
    MemoryTrust,
)
from gatepost.store.memory.recall import find
from gatepost.store.messages import inbox, messages
from gatepost.store.port import Db
from gatepost.store.rooms import origins
from gatepost.store.sessions import forks, sessions, tool_calls, turns
from gatepost.store.sessions.sessions import Session
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import Body, tool
from gatepost.tools.kit.lookup_helpers import parse_time

MOST_FOUND = 20
MOST_FACTS = 30  # of one conversation that are kept at once
AT_ONCE = 5  # of these that one write keeps
MOST_ALIKE = 3  # entries that are looked at for whether a fact is known
NO_ROOM = "this conversation is in no room, or in several; say agent or family, and a person is asked"
TRUSTED = frozenset(("owner", "admin", "member"))
WIDE = (MemoryScope.AGENT, MemoryScope.FAMILY)

Source = Literal["said", "read", "concluded"]


class RememberedEntry(Struct, frozen=True):
    id: int
    known_to: str


class KeptFacts(Struct, frozen=True):
    """How many of them were not known yet."""

    kept: int


class RecalledEntry(Struct, frozen=True, kw_only=True):
    """`source`: said by a member or a stranger, read somewhere, concluded, or written by the operator."""

    id: int
    text: str
    about: str
    source: MemoryTrust
    by: str
    since: str


class RecalledEntries(Struct, frozen=True):
    memories: list[RecalledEntry]


class ForgottenEntry(Struct, frozen=True):
    ok: bool


async def explain_hold(call: ToolCall, arguments: Mapping[str, Any]) -> str:
    """Return why a person must agree, or '' if nobody must. Words that were said to few are told to many only with
    their consent, and so are changes of what many are told already."""
    known_to, replaced = arguments.get("known_to"), arguments.get("replaces")
    if replaced is not None and (why := await _explain_change(call, replaced)):
        return why
    if known_to not in WIDE:
        return ""
    more = " and with the agents below it" if known_to == MemoryScope.FAMILY else ""
    return f"everybody who talks with this agent{more} could then be told of it"


async def explain_hold_of_forget(call: ToolCall, arguments: Mapping[str, Any]) -> str:
    return await _explain_change(call, arguments["id"])


async def _explain_change(call: ToolCall, memory_id: int) -> str:
    """A person agreed that everybody may know an entry, with these words. None else puts others in their place. An
    entry that is not there now is not waited for: it would be changed before anybody has judged it."""

    def read(db: Db) -> Memory:
        return _get_visible(db, call, _find_audience(db, call), memory_id)

    entry = await call.read(read)
    if entry.scope not in WIDE or entry.folder != call.caller.folder:
        return ""
    return "" if entry.trust == MemoryTrust.OPERATOR else f"everybody who talks with this agent is told: {entry.text}"


@tool(tier=Tier.WORKER, group="memory", effects=(), holds_if=explain_hold, core=True)
async def remember(
    call: ToolCall,
    text: Annotated[Body, Meta(description="One fact, as a sentence that stands alone.")],
    about: Annotated[str, Meta(description="Person or thing.")] = "",
    source: Annotated[Source, Meta(description="said by a person, read, or concluded")] = "said",
    replaces: Annotated[int | None, Meta(description="Id of an entry that this corrects.")] = None,
    until: Annotated[str | None, Meta(description="RFC 3339; default: for good")] = None,
    known_to: Annotated[
        MemoryScope | None,
        Meta(description="Default: where it was said. agent, family: everybody, if a person agrees."),
    ] = None,
) -> RememberedEntry:
    """Keep a fact that will matter in later conversations: a preference, a name, a date, a decision.

    Not for work in hand (set_work), nor for what the files say. Correct an entry with `replaces`.
    """
    said, topic = clean(text).strip(), clean(about).strip()
    if not said or len(said) > LONGEST_TEXT:
        raise Invalid("text", f"must have 1 to {LONGEST_TEXT} characters; this one has {len(said)}")
    if len(topic) > LONGEST_ABOUT:
        raise Invalid("about", f"has {len(topic)} characters; at most {LONGEST_ABOUT} are possible")
    ends = parse_time(until, "until") if until else None

    def insert(db: Db) -> Memory:
        audience = _find_audience(db, call)
        if replaces is None:
            return memories.add(db, _make_entry(db, call, audience, said, topic, source, known_to, ends))
        old = _get_changeable(db, call, audience, replaces)
        wanted = known_to or (old.scope if old.scope in WIDE else None)  # a call that was held runs in no room, perhaps
        new = _make_entry(db, call, audience, said, topic, source, wanted, ends)
        kept = {"scope": old.scope, "person": old.person, "instance": old.instance, "address": old.address}
        return memories.replace(
            db, old, replace(new, replaces=old.id, **(kept if known_to is None else {})), _name(call)
        )

    made = await call.write(insert)
    return RememberedEntry(made.id, made.scope)


def _get_remember(arguments: Mapping[str, Any]) -> str:
    return "remember"


@tool(tier=Tier.WORKER, group="memory", effects=(), idempotent=True, acts_as=_get_remember)
async def keep_facts(
    call: ToolCall,
    facts: Annotated[list[Body], Meta(description="What people said or you concluded: one sentence each.")],
    read: Annotated[list[Body], Meta(description="What stood on a page or in a file.")] = [],  # noqa: B006
) -> KeptFacts:
    """Keep facts of this conversation before its older part is summed up. That happens by itself; use remember else."""
    wanted = [(clean(each).strip(), False) for each in facts] + [(clean(each).strip(), True) for each in read]
    if len(wanted) > MOST_FACTS:
        raise Invalid("facts", f"are {len(wanted)}; at most {MOST_FACTS} are kept at once")
    if long := next((text for text, _ in wanted if len(text) > LONGEST_TEXT), ""):
        raise Invalid("facts", f"one has {len(long)} characters; at most {LONGEST_TEXT} are possible")

    source = await call.read(_find_source, call)
    if source is None:
        return KeptFacts(0)
    made = 0
    for at in range(0, len(wanted), AT_ONCE):  # everybody else's writes go on between them
        some = [each for each in wanted[at : at + AT_ONCE] if each[0] and not await call.read(_is_known, source, each)]
        made += await call.write(_keep_facts, call, source, some)
    return KeptFacts(made)


class _FactSource(Struct, frozen=True):
    """A conversation, as far as it counts for what is kept of it. `speaker`: '' if there are several."""

    session: Session
    folder: str
    speaker: str
    trust: MemoryTrust
    now: int

    def find_audience(self, db: Db) -> Audience:
        """The readers of the conversation, whoever asked in its last turn."""
        names = memories.find_only_reader(db, self.session.instance, self.session.address)
        above = memories.list_above(self.folder)
        return Audience(self.folder, above, self.session.instance, self.session.address, names)


def _find_source(db: Db, call: ToolCall) -> _FactSource | None:
    """None: nobody knows who may be told of what is kept."""
    session = sessions.get(db, call.caller.session_id) if call.caller.session_id else None
    if session is None or not session.address or forks.spans_rooms(db, session.id):
        return None
    people = inbox.list_people(db, session.id, 2)
    trust = MemoryTrust.STRANGER if turns.has_rights_beyond(db, session.id, TRUSTED) else MemoryTrust.CONCLUDED
    if tool_calls.has_foreign_in_session(db, session.id):  # what is summed up is of earlier turns
        trust = MemoryTrust.READ
    return _FactSource(session, call.caller.folder, people[0] if len(people) == 1 else "", trust, call.now)


def _is_known(db: Db, source: _FactSource, fact: tuple[str, bool]) -> bool:
    text, _ = fact
    words = _normalize(text)
    found = find(db, source.find_audience(db), text, source.now, MOST_ALIKE)
    return any(_normalize(each.text) == words for each in found)


def _keep_facts(db: Db, call: ToolCall, source: _FactSource, facts: Sequence[tuple[str, bool]]) -> int:
    return sum([_keep_fact(db, call, source, *each) for each in facts])


def _keep_fact(db: Db, call: ToolCall, source: _FactSource, text: str, was_read: bool) -> bool:
    """Keep a fact for the readers of a conversation. Return False if it was kept before."""
    audience = source.find_audience(db)
    last = inbox.find_last_of_people(db, call.turn.id) if call.turn is not None else None
    entry = audience.make_memory(
        text,
        MemoryTrust.READ if was_read else source.trust,
        call.now,
        message_id=last[0] if last is not None else None,
        speaker=source.speaker,
        turn_id=call.turn.id if call.turn is not None else "",
    )
    if memories.make_room(db, entry):
        return False
    reader = memories.make_reader(entry.scope, entry.person, entry.instance, entry.address)
    return memories.add_fact(db, entry, sha256(f"{reader}\n{_normalize(text)}".encode()).hexdigest()[:32]) is not None


def _normalize(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".!")


@tool(tier=Tier.WORKER, group="memory", read_only=True, idempotent=True, core=True)
async def recall(
    call: ToolCall,
    query: Annotated[Body, Meta(description="Words that the fact may have; empty: the newest.")] = "",
    limit: Annotated[int, Meta(description="1–20")] = 8,
) -> RecalledEntries:
    """Look up what you remember, before you ask people for what they told you once. For messages use find_messages."""
    most, words, meanings = min(max(limit, 1), MOST_FOUND), clean(query), call.deps.meanings
    meaning, least = None, 0.0
    if meanings is not None and words.strip():
        turn_id = call.turn.id if call.turn is not None else None
        meaning = await meanings.find(call.caller.folder, call.caller.session_id or "", turn_id, words)
        least = meanings.least

    def read(db: Db) -> list[Memory]:
        audience = _find_audience(db, call)
        if words.strip():
            return find(db, audience, words, call.now, most, meaning=meaning, alike=least)
        return memories.list_newest(db, audience, call.now, most)

    return RecalledEntries([_render(each) for each in await call.read(read)])


@tool(
    tier=Tier.WORKER,
    group="memory",
    effects=(),
    destructive=True,
    idempotent=True,
    holds_if=explain_hold_of_forget,
)
async def forget(call: ToolCall, id: Annotated[int, Meta(description="As recall shows it.")]) -> ForgottenEntry:
    """Drop a fact that is wrong or that somebody wants forgotten. To correct one use remember with `replaces`."""

    def drop(db: Db) -> None:
        entry = _get_changeable(db, call, _find_audience(db, call), id)
        rights = call.turn.rights if call.turn is not None else ""
        memories.end(db, [entry.id], _name(call), call.now, _judge("said", rights))

    await call.write(drop)
    return ForgottenEntry(ok=True)


def _find_audience(db: Db, call: ToolCall) -> Audience:
    turn = call.turn
    if turn is None:
        return Audience(call.caller.folder, memories.list_above(call.caller.folder))
    askers = origins.get_for_turn(db, turn.id).people
    return memories.find_audience(db, call.caller.folder, turn.instance, turn.address, askers, call.caller.session_id)


def _get_visible(db: Db, call: ToolCall, audience: Audience, memory_id: int) -> Memory:
    entry = memories.get_visible(db, audience, memory_id, call.now)
    if entry is None:
        raise NotFound("memory", str(memory_id), "recall shows the entries of this room")
    return entry


def _get_changeable(db: Db, call: ToolCall, audience: Audience, memory_id: int) -> Memory:
    entry = _get_visible(db, call, audience, memory_id)
    if entry.folder != call.caller.folder:
        raise Refused(call.caller.folder, call.tool, str(memory_id), f"it belongs to {entry.folder}")
    if entry.trust == MemoryTrust.OPERATOR:
        raise Refused(call.caller.folder, call.tool, str(memory_id), "the operator wrote it")
    return entry


def _make_entry(
    db: Db,
    call: ToolCall,
    audience: Audience,
    text: str,
    about: str,
    source: Source,
    known_to: MemoryScope | None,
    until: int | None,
) -> Memory:
    turn = call.turn
    last = inbox.find_last_of_people(db, turn.id) if turn is not None else None
    spoken = messages.get(db, last[0]) if last is not None else None
    scope = known_to or (MemoryScope.PERSON if audience.names else MemoryScope.ROOM)
    person = audience.names[0] if audience.names else ""
    if scope is MemoryScope.PERSON and not person:
        raise Invalid("known_to", "others read here as well; leave it out, so that the entry stays in this room")
    if scope is MemoryScope.ROOM and not audience.address:
        raise Invalid("known_to", NO_ROOM)
    return Memory(
        folder=call.caller.folder,
        text=text,
        about=about,
        expires_at=until,
        scope=scope,
        person=person if scope is MemoryScope.PERSON else "",
        instance=audience.instance if scope is MemoryScope.ROOM else "",
        address=audience.address if scope is MemoryScope.ROOM else "",
        message_id=spoken.id if spoken is not None else None,
        speaker=spoken.sender if spoken is not None else "",
        trust=_judge(
            "read" if turn is not None and tool_calls.has_foreign(db, turn.id) else source,
            turn.rights if turn is not None and spoken is not None else "",
        ),
        turn_id=turn.id if turn is not None else "",
        created_at=call.now,
    )


def _judge(source: Source, rights: str) -> MemoryTrust:
    """Return how far an entry can be trusted. One that nobody said is a conclusion at best, and one that a stranger had
    concluded is theirs. `rights`: of the turn's people, '' if there are none."""
    if source == "read":
        return MemoryTrust.READ
    if rights and rights not in TRUSTED:
        return MemoryTrust.STRANGER
    return MemoryTrust.CONCLUDED if source == "concluded" or not rights else MemoryTrust.MEMBER


def _name(call: ToolCall) -> str:
    return f"agent:{call.caller.folder}"


def _render(entry: Memory) -> RecalledEntry:
    return RecalledEntry(
        id=entry.id,
        text=entry.text,
        about=entry.about,
        source=entry.trust,
        by=entry.speaker,
        since=iso(entry.created_at) or "",
    )
