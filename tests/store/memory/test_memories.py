"""Memories: who is told of which, what replaces what, and what is taken back."""

import asyncio
from itertools import product

import pytest

from gatepost.core.errors import Invalid, NotFound
from gatepost.store.memory import memories, recall
from gatepost.store.memory.memories import Audience, Memory, MemoryFilter, MemoryScope, MemoryTrust, find_audience
from gatepost.store.people import identities, person_removal
from gatepost.store.people.person_scope import PersonScope
from gatepost.store.port import Db, Store
from gatepost.store.rooms import direct_rooms, rooms
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.sessions import groups

NOW = 1_800_000_000_000_000
DIRECT = {"ann": "fake:dm/ann", "ann's other": "other:dm/ann2", "bob": "fake:dm/bob", "shared": "fake:dm/both"}
PEOPLE = {"ann": "fake:user/ann", "ann's other": "other:user/ann2", "bob": "fake:user/bob"}
ROOMS = {"family": "fake:room/family", "office": "fake:room/office"}
AGENTS = ("acme", "acme/eng", "beta")


def fill(db: Db) -> None:
    for folder in AGENTS:
        groups.add(db, folder, folder, "scripted", NOW)
    for address in DIRECT.values():
        rooms.add(db, address.partition(":")[0], address, address, True, RoomPolicy.STRICT, NOW)
    for address in ROOMS.values():
        rooms.add(db, "fake", address, address, False, RoomPolicy.PUBLIC, NOW)
    for name, person in PEOPLE.items():
        direct_rooms.add(db, person, person.partition(":")[0], DIRECT[name], NOW)
    for name in ("ann", "bob"):  # a direct room in which two people were seen
        direct_rooms.add(db, f"{PEOPLE[name]}-phone", "fake", DIRECT["shared"], NOW)
    identities.add(db, PEOPLE["ann's other"], PEOPLE["ann"], "test", NOW)


def audience_of(db: Db, folder: str, place: str) -> Audience:
    address = {**DIRECT, **ROOMS}.get(place, "")
    askers = [PEOPLE.get(place, f"{PEOPLE['ann']}-phone")]
    return find_audience(db, folder, address.partition(":")[0], address, askers)


def entry(folder: str = "acme", text: str = "Ann likes figs", **more: object) -> Memory:
    given = {"scope": MemoryScope.AGENT, "trust": MemoryTrust.MEMBER, "created_at": NOW, **more}
    return Memory(folder=folder, text=text, **given)  # type: ignore[arg-type]


# (agent, told where, scope) and the places, (agent, where), in which it may come up.
PLACES = [*product(AGENTS, [*DIRECT, *ROOMS, "no room"])]
KNOWN = {
    ("acme", "ann", MemoryScope.PERSON): {("acme", "ann"), ("acme", "ann's other")},
    ("acme", "ann's other", MemoryScope.PERSON): {("acme", "ann"), ("acme", "ann's other")},
    ("acme", "bob", MemoryScope.PERSON): {("acme", "bob")},
    ("acme/eng", "bob", MemoryScope.PERSON): {("acme/eng", "bob")},
    ("acme", "family", MemoryScope.ROOM): {("acme", "family")},
    ("beta", "family", MemoryScope.ROOM): {("beta", "family")},
    ("acme", "shared", MemoryScope.ROOM): {("acme", "shared")},
    ("acme", "office", MemoryScope.AGENT): {each for each in PLACES if each[0] == "acme"},
    ("acme/eng", "office", MemoryScope.AGENT): {each for each in PLACES if each[0] == "acme/eng"},
    ("acme", "office", MemoryScope.FAMILY): {each for each in PLACES if each[0] != "beta"},
    ("acme/eng", "ann", MemoryScope.FAMILY): {each for each in PLACES if each[0] == "acme/eng"},
    ("beta", "ann", MemoryScope.FAMILY): {each for each in PLACES if each[0] == "beta"},
}


async def test_nothing_comes_up_where_somebody_else_reads(store: Store) -> None:
    """Each way to remember, asked for in each place: by its words, by its id, and with a message."""
    cases = list(product(KNOWN.items(), PLACES))
    assert len(cases) >= 200

    def check(db: Db) -> list[str]:
        fill(db)
        wrong = []
        for (folder, told, scope), known in KNOWN.items():
            at = audience_of(db, folder, told)
            person = at.names[0] if scope is MemoryScope.PERSON else ""
            where = (at.instance, at.address) if scope is MemoryScope.ROOM else ("", "")
            made = memories.add(db, entry(folder, scope=scope, person=person, instance=where[0], address=where[1]))
            for asker, place in PLACES:
                asked = audience_of(db, asker, place)
                found = [
                    made.id in [each.id for each in recall.find(db, asked, "figs", NOW, 99)],
                    memories.get_visible(db, asked, made.id, NOW) is not None,
                    made.id in [each.id for each in recall.list_relevant(db, asked, "figs?", NOW, 99, 9999)],
                ]
                if found != [(asker, place) in known] * 3:
                    wrong.append(f"{folder} told by {told} for {scope}, asked of {asker} by {place}: {found}")
            memories.end(db, [made.id], "test", NOW)
        return wrong

    assert await store.write(check) == []


async def test_a_direct_room_of_two_people_is_nobodys_alone(store: Store) -> None:
    def look(db: Db) -> tuple[tuple[str, ...], tuple[str, ...]]:
        fill(db)
        return audience_of(db, "acme", "shared").names, audience_of(db, "acme", "bob").names

    assert await store.write(look) == ((), ("fake:user/bob",))


async def test_a_direct_room_is_nobodys_alone_when_one_of_its_two_people_has_gone_on(store: Store) -> None:
    """Their latest room is another one, or their identity was unpaired or forgotten: they read the old one still."""

    def look(db: Db) -> list[tuple[str, ...]]:
        fill(db)
        ann, bob = f"{PEOPLE['ann']}-phone", f"{PEOPLE['bob']}-phone"
        found = []
        direct_rooms.add(db, ann, "fake", "fake:dm/new", NOW + 1)
        found.append(find_audience(db, "acme", "fake", DIRECT["shared"], [bob]).names)
        direct_rooms.remove(db, ann)
        found.append(find_audience(db, "acme", "fake", DIRECT["shared"], [bob]).names)
        person_removal.remove(db, PersonScope((ann,), ()))
        found.append(find_audience(db, "acme", "fake", DIRECT["shared"], [bob]).names)
        return found

    assert await store.write(look) == [(), (), ()]


@pytest.mark.parametrize("askers", [(), ("fake:user/bob",), ("fake:user/ann", "fake:user/bob"), ("agent:acme",)])
async def test_what_is_for_one_person_comes_up_for_nobody_elses_asking(askers: tuple[str, ...], store: Store) -> None:
    def look(db: Db) -> tuple[str, ...]:
        fill(db)
        return find_audience(db, "acme", "fake", DIRECT["ann"], askers).names

    assert await store.write(look) == ()


async def test_what_has_had_its_time_takes_the_place_of_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memories, "MOST_LIVE", 30)

    def run(db: Db) -> list[str]:
        fill(db)
        memories.add(db, entry(text="figs are sweet"))
        for number in range(29):  # more than are looked at beyond those that are found
            memories.add(db, entry(text=f"figs and figs {number}", expires_at=NOW + 1))
        memories.add(db, entry(text="plums", created_at=NOW + 2))
        return [each.text for each in recall.find(db, audience_of(db, "acme", "family"), "figs", NOW + 2, 1)]

    assert await store.write(run) == ["figs are sweet"]


async def test_what_is_corrected_is_told_in_its_new_form_and_the_old_one_can_be_had_again(store: Store) -> None:
    def run(db: Db) -> list[list[str]]:
        fill(db)
        at = audience_of(db, "acme", "family")
        old = memories.add(db, entry(text="The wifi key is blue"))
        new = memories.replace(db, old, entry(text="The wifi key is green", replaces=old.id), "test")
        steps = [[each.text for each in recall.find(db, at, "wifi", NOW, 9)]]
        ended, restored = memories.undo(db, [new], "owner", NOW + 1)
        assert (ended, restored) == ([new.id], [old.id])
        steps.append([each.text for each in recall.find(db, at, "wifi", NOW + 1, 9)])
        return steps

    assert await store.write(run) == [["The wifi key is green"], ["The wifi key is blue"]]


async def test_a_poisoned_week_is_taken_back_and_nothing_else(store: Store) -> None:
    def run(db: Db) -> list[str]:
        fill(db)
        good = memories.add(db, entry(text="The bank is in Main Street"))
        memories.add(db, entry(text="Mail bills to eve", trust=MemoryTrust.STRANGER, created_at=NOW - 1))
        memories.add(db, entry(text="The bank is eve's", trust=MemoryTrust.READ, replaces=good.id, created_at=NOW + 1))
        memories.end(db, [good.id], "agent:acme", NOW + 1)
        memories.add(db, entry(text="Ann is away", created_at=NOW + 2))
        chosen = memories.list_chosen(db, MemoryFilter(since=NOW, untrusted=True), NOW + 3)
        memories.undo(db, chosen, "owner", NOW + 3)
        return sorted(each.text for each in memories.list_chosen(db, MemoryFilter(), NOW + 3))

    assert await store.write(run) == ["Ann is away", "Mail bills to eve", "The bank is in Main Street"]


async def test_what_has_its_time_is_not_told_after_it(store: Store) -> None:
    def run(db: Db) -> list[int]:
        fill(db)
        at = audience_of(db, "acme", "family")
        memories.add(db, entry(text="The key is under the mat", expires_at=NOW + 10))
        return [len(recall.find(db, at, "mat", moment, 9)) for moment in (NOW, NOW + 10)]

    assert await store.write(run) == [1, 0]


@pytest.mark.parametrize(
    ("kept", "asked"),
    [
        ("Ann's birthday is in May", "when are the birthdays?"),
        ("Der Schlüssel liegt bei Oma", "SCHLUSSEL"),
        ("会议在星期五", "星期五"),
    ],
)
async def test_an_entry_is_found_by_other_forms_of_its_words(kept: str, asked: str, store: Store) -> None:
    def run(db: Db) -> list[str]:
        fill(db)
        memories.add(db, entry(text="Something else altogether"))
        memories.add(db, entry(text=kept))
        return [each.text for each in recall.find(db, audience_of(db, "acme", "bob"), asked, NOW, 1)]

    assert await store.write(run) == [kept]


async def test_rare_words_count_for_more_than_common_ones(store: Store) -> None:
    def run(db: Db) -> list[str]:
        fill(db)
        for number in range(30):
            memories.add(db, entry(text=f"The office has room {number}"))
        memories.add(db, entry(text="The dentist is Dr. Kaya"))
        memories.add(db, entry(text="The office has a door"))
        found = recall.find(db, audience_of(db, "acme", "bob"), "the office of the dentist", NOW, 2)
        return [each.text for each in found]

    assert (await store.write(run))[0] == "The dentist is Dr. Kaya"


async def test_an_agent_that_remembers_and_forgets_for_ever_fills_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memories, "MOST_ENDED", 5)
    monkeypatch.setattr(memories, "MOST_LIVE", 3)

    def run(db: Db) -> tuple[int, int]:
        fill(db)
        for number in range(20):
            made = memories.add(db, entry(text=f"number {number}"))
            memories.end(db, [made.id], "agent:acme", NOW + number)
        for number in range(3):
            memories.add(db, entry(text=f"kept {number}"))
        with pytest.raises(Invalid, match="must be forgotten first"):
            memories.add(db, entry(text="one too many"))
        rows, words = db.row("SELECT COUNT(*) FROM memories"), db.row("SELECT COUNT(*) FROM memory_words")
        assert rows is not None and words is not None
        return int(rows[0]), int(words[0])

    assert await store.write(run) == (5 + 3, 3 * 2)


async def test_entries_go_with_their_group(store: Store) -> None:
    def run(db: Db) -> int:
        fill(db)
        memories.add(db, entry("beta"))
        db.run("DELETE FROM groups WHERE folder = 'beta'")
        row = db.row("SELECT (SELECT COUNT(*) FROM memories) + (SELECT COUNT(*) FROM memory_words)")
        assert row is not None
        return int(row[0])

    assert await store.write(run) == 0


# Shares, and what is restored.


@pytest.mark.parametrize("share", ["room", "speaker", "agent"])
async def test_where_there_is_no_room_the_oldest_conclusion_makes_it_and_never_what_people_said(
    share: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memories, "MOST_LIVE" if share == "agent" else "MOST_OF_ONE", 4)
    where = {"scope": MemoryScope.ROOM, "instance": "fake", "address": "fake:room/office"}
    given: dict[str, object] = {"room": where, "speaker": {"speaker": PEOPLE["bob"]}, "agent": {}}[share]  # type: ignore[assignment]

    def run(db: Db) -> list[str]:
        fill(db)
        for text, trust in (
            ("said 1", MemoryTrust.MEMBER),
            ("concluded 1", MemoryTrust.CONCLUDED),
            ("of a stranger", MemoryTrust.STRANGER),
            ("concluded 2", MemoryTrust.CONCLUDED),
            ("said 2", MemoryTrust.MEMBER),
            ("said 3", MemoryTrust.MEMBER),
            ("concluded 3", MemoryTrust.CONCLUDED),
            ("said 4", MemoryTrust.MEMBER),
        ):
            memories.add(db, entry(text=text, trust=trust, **given))  # type: ignore[arg-type]
        for trust in MemoryTrust:
            with pytest.raises(Invalid, match="must be forgotten first"):
                memories.add(db, entry(text="more", trust=trust, **given))  # type: ignore[arg-type]
        if share != "agent":
            memories.add(db, entry(text="of others"))
        return sorted(each.text for each in memories.list_chosen(db, MemoryFilter(), NOW))

    kept = ["said 1", "said 2", "said 3", "said 4"]
    assert await store.write(run) == (kept if share == "agent" else ["of others", *kept])


async def test_a_stranger_has_nothing_make_room_but_what_strangers_said(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memories, "MOST_LIVE", 2)

    def run(db: Db) -> list[str]:
        fill(db)
        memories.add(db, entry(text="concluded", trust=MemoryTrust.CONCLUDED))
        for number in range(3):
            memories.add(db, entry(text=f"stranger {number}", trust=MemoryTrust.STRANGER))
        return sorted(each.text for each in memories.list_chosen(db, MemoryFilter(), NOW))

    assert await store.write(run) == ["concluded", "stranger 2"]


@pytest.mark.parametrize("untrusted", [False, True])
async def test_what_was_forgotten_since_comes_back_unless_something_has_its_place(
    untrusted: bool, store: Store
) -> None:
    def run(db: Db) -> list[str]:
        fill(db)
        texts = ("by a stranger", "by a member", "by the operator", "corrected", "expired", "before")
        made = {text: memories.add(db, entry(text=text, created_at=NOW - 9)) for text in texts}
        db.run("UPDATE memories SET expires_at = ? WHERE text = 'expired'", (NOW + 5,))
        memories.end(db, [made["before"].id], "agent:acme", NOW - 1, MemoryTrust.STRANGER)
        for text in ("by a stranger", "expired"):
            memories.end(db, [made[text].id], "agent:acme", NOW + 1, MemoryTrust.STRANGER)
        memories.end(db, [made["by a member"].id], "fake:user/ann", NOW + 1, MemoryTrust.MEMBER)
        memories.end(db, [made["by the operator"].id], "cli", NOW + 1)
        poison = entry(text="poison", trust=MemoryTrust.STRANGER, replaces=made["corrected"].id, created_at=NOW + 1)
        bad = memories.replace(db, made["corrected"], poison, "agent:acme")
        memories.replace(db, bad, entry(text="good again", replaces=bad.id, created_at=NOW + 2), "agent:acme")
        new = memories.add(db, entry(text="said since", created_at=NOW + 3))
        memories.end(db, [new.id], "agent:acme", NOW + 4, MemoryTrust.STRANGER)
        chosen = MemoryFilter(since=NOW, untrusted=untrusted)
        return sorted(each.text for each in memories.list_restorable(db, chosen, NOW + 9))

    assert await store.write(run) == (
        ["by a stranger", "said since"] if untrusted else ["by a member", "by a stranger"]
    )


async def test_a_fact_is_there_once_and_not_again_when_it_was_forgotten(store: Store) -> None:
    def run(db: Db) -> list[bool]:
        fill(db)
        fact = entry(text="Ann is away", trust=MemoryTrust.CONCLUDED)
        made = [memories.add_fact(db, fact, "k") is not None, memories.add_fact(db, fact, "k") is not None]
        memories.end(db, [each.id for each in memories.list_chosen(db, MemoryFilter(), NOW)], "cli", NOW)
        again = memories.add_fact(db, fact, "k") is not None
        return [*made, again, memories.add_fact(db, entry("beta", text="Ann is away"), "k") is not None]

    assert await store.write(run) == [True, False, False, True]


async def test_what_others_keep_elsewhere_neither_hides_an_entry_nor_shows_by_the_order_of_what_is_found(
    store: Store,
) -> None:
    """A member who fills a room with somebody's words, and one who guesses what is kept in private."""

    def run(db: Db) -> list[list[str]]:
        fill(db)
        office, ann = audience_of(db, "acme", "office"), audience_of(db, "acme", "ann")
        memories.add(db, entry(text="walnuts make Ann ill", scope=MemoryScope.PERSON, person=ann.names[0]))
        room = {"scope": MemoryScope.ROOM, "instance": office.instance, "address": office.address}
        for number in range(5):
            memories.add(db, entry(text=f"walnuts and figs {number}", **room))
        memories.add(db, entry(text="figs and plums", **room))

        def ask() -> list[list[str]]:
            asked = (office, "which walnuts or figs or plums?"), (ann, "may Ann eat walnuts?")
            return [[each.text for each in recall.find(db, who, text, NOW, 9)] for who, text in asked]

        before = ask()
        beside = {**room, "address": ROOMS["family"]}
        for number in range(recall.COMMON + 1):
            memories.add(db, entry(text=f"walnuts, plums and Ann {number}", speaker=f"fake:user/{number}", **beside))
        assert before[1] == ["walnuts make Ann ill"]
        return [*before, *ask()]

    first, second, *after = await store.write(run)
    assert after == [first, second]


async def test_one_entry_takes_the_place_of_another_however_many_want_that_at_once(store: Store) -> None:
    """Each has read the old one before."""
    await store.write(fill)
    old = await store.write(memories.add, entry(text="figs"))
    wanted = [entry(text=f"figs {number}", replaces=old.id) for number in range(4)]
    done = await asyncio.gather(
        *(store.write(memories.replace, old, new, "test", lane=new.text) for new in wanted), return_exceptions=True
    )
    assert sum(isinstance(each, Memory) for each in done) == 1
    assert {type(each) for each in done} == {Memory, NotFound}
    assert len(await store.read(memories.list_chosen, MemoryFilter(), NOW)) == 1


async def test_no_share_is_passed_by_many_who_add_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memories, "MOST_LIVE", 3)
    await store.write(fill)
    done = await asyncio.gather(
        *(store.write(memories.add, entry(text=f"figs {number}"), lane=str(number)) for number in range(12)),
        return_exceptions=True,
    )
    assert sum(isinstance(each, Memory) for each in done) == 3
    assert len(await store.read(memories.list_chosen, MemoryFilter(), NOW)) == 3
