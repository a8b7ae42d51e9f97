"""An answer to what an agent may do is written among its rules, which keep their order, number and givers."""

import asyncio

import pytest

from gatepost.access.choices import Permission
from gatepost.access.subjects import Subject
from gatepost.core.errors import Invalid, NotFound
from gatepost.flow import grant_changes
from gatepost.flow.grant_changes import MOST_REWRITTEN
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.port import Db, Store
from gatepost.store.rights import acl
from gatepost.store.sessions import groups


def add_rules(db: Db, *texts: str) -> None:
    groups.add(db, "acme", "Acme", "", 1)
    for at, text in enumerate(texts):
        acl.add_rule(db, "acme", text, f"giver {at}", at)


def choose(db: Db, permission: Permission, folder: str = "acme") -> list[tuple[str, str]]:
    grant_changes.set_permission(db, folder, Subject.SPEAK, permission, "ann", 9)
    return [(each.text, each.added_by) for each in acl.list_rules(db, folder)]


async def test_a_rule_that_stands_there_twice_does_so_afterwards(store: SqliteStore) -> None:
    await store.write(add_rules, "!send", "send", "!send")
    assert await store.write(choose, Permission.ASK) == [
        ("hold speak", "ann"),
        ("!send", "giver 0"),
        ("send", "giver 1"),
        ("!send", "giver 2"),
    ]


async def give(store: Store, text: str) -> bool:
    _, new = await store.write(grant_changes.add_rule, "acme", text, "ann", 9)
    return new


async def list_texts(store: Store) -> list[str]:
    return [each.text for each in await store.read(acl.list_rules, "acme")]


@pytest.mark.parametrize(
    ("again", "behind"),
    [("send", "!edit"), ("!send", "like"), ("hold send", "hold speak"), ("hold[2] speak(jid=web:*)", "hold[2] send")],
)
async def test_a_rule_that_is_given_twice_stands_there_once(store: Store, again: str, behind: str) -> None:
    await store.write(add_rules, "!like")
    assert await give(store, again) and not await give(store, again)
    assert await give(store, behind) and not await give(store, again)
    assert await list_texts(store) == ["!like", again, behind]


async def test_a_rule_that_is_given_by_many_at_once_stands_there_once(store: Store) -> None:
    await store.write(add_rules)

    async def call(caller: int) -> int:
        given = [("acme", f"hold tool{number}", "ann", 9) for number in range(30)]
        return sum([(await store.write(grant_changes.add_rule, *each, lane=f"caller {caller}"))[1] for each in given])

    news = await asyncio.gather(*map(call, range(4)))
    assert sum(news) == 30 and len(set(await list_texts(store))) == len(await list_texts(store)) == 30


async def test_a_rule_that_is_written_otherwise_is_the_same_rule(store: Store) -> None:
    await store.write(add_rules, "hold[2] send(chatJid=x, !topic)")
    assert not await give(store, "hold[2] send(!topic,chatJid=x)")
    assert await give(store, "hold[3] send(chatJid=x, !topic)")
    assert not await give(store, "hold[3] send(chatJid=x, !topic)")


@pytest.mark.parametrize("behind", ["send", "s*", "speak(jid=web:1)", "hold send", "hold[2] *"])
async def test_a_rule_that_another_outweighs_holds_again_when_it_is_given_again(store: Store, behind: str) -> None:
    await store.write(add_rules, "!send", behind)
    assert await give(store, "!send")
    assert await list_texts(store) == [behind, "!send"]


async def test_an_answer_takes_the_place_of_the_earlier_one(store: SqliteStore) -> None:
    await store.write(add_rules, "like", "hold speak", "hold send")
    assert await store.write(choose, Permission.NO) == [
        ("like", "giver 0"),
        ("!speak", "ann"),
        ("hold send", "giver 2"),
    ]
    assert await store.write(choose, Permission.YES) == [("like", "giver 0"), ("hold send", "giver 2")]


async def test_what_cannot_be_answered_changes_nothing_and_says_why(store: SqliteStore) -> None:
    await store.write(add_rules, "hold *")
    with pytest.raises(Invalid, match=r"the rule `hold \*` is about everything"):
        await store.write(choose, Permission.YES)
    with pytest.raises(NotFound, match="nowhere"):
        await store.write(choose, Permission.NO, "nowhere")
    assert [each.text for each in await store.read(acl.list_rules, "acme")] == ["hold *"]


async def test_very_many_rules_are_not_written_anew_in_one_go(store: SqliteStore) -> None:
    await store.write(add_rules, *(f"!tool{number}" for number in range(MOST_REWRITTEN + 1)))
    with pytest.raises(Invalid, match=f"more than {MOST_REWRITTEN} rules"):
        await store.write(choose, Permission.NO)


async def test_an_answer_for_one_room_is_behind_all_others(store: SqliteStore) -> None:
    await store.write(add_rules, "hold speak", "like")
    given = ("acme", Subject.SPEAK, Permission.YES, "ann", 9, "web:room/1")
    assert await store.write(grant_changes.set_permission, *given) == ["hold speak", "speak(jid=web:room/1)"]


@pytest.mark.parametrize("room", ["web:*", "web:a)", "web:a,b", "web:a b", "nowhere"])
async def test_a_room_that_would_say_more_than_one_room_is_refused(store: SqliteStore, room: str) -> None:
    await store.write(add_rules)
    with pytest.raises(Invalid, match=r"^room: "):
        await store.write(grant_changes.set_permission, "acme", Subject.SPEAK, Permission.NO, "ann", 9, room)


async def test_what_has_no_room_is_not_ruled_for_one(store: SqliteStore) -> None:
    await store.write(add_rules)
    with pytest.raises(Invalid, match="only what it writes or sends has a room"):
        await store.write(grant_changes.set_permission, "acme", Subject.REACH, Permission.NO, "ann", 9, "web:room/1")
