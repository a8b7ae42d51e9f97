"""An answer to what an agent may do is written among its rules, which keep their order, number and givers."""

import pytest

from gatepost.access.choices import Permission
from gatepost.access.subjects import Subject
from gatepost.core.errors import Invalid, NotFound
from gatepost.flow import grant_changes
from gatepost.flow.grant_changes import MOST_REWRITTEN
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.port import Db
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
