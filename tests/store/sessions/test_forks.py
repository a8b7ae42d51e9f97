"""Forks that people want: who is next."""

from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.port import Db
from gatepost.store.sessions import forks, groups, sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.arrivals import add_arrival

ROOM = "fake:room/1"


def _want(db: Db, parent_id: str, number: int) -> int:
    message_id = add_arrival(
        db, number, address=ROOM, platform_id=f"m{number}", sender="fake:user/ann", text="/fork side"
    )
    forks.add_wanted(db, message_id, parent_id, f"topic {number}")
    return message_id


async def test_forks_that_one_group_wants_do_not_stand_before_those_of_others(store: SqliteStore) -> None:
    def want(db: Db) -> tuple[list[int], int, int]:
        for folder in ("acme", "beta"):
            groups.add(db, folder, folder, "", 1)
        busy, other = (
            sessions.find_or_add(db, SessionMode.SHARED, each, "fake", ROOM, "", 1).id for each in ("acme", "beta")
        )
        first = [_want(db, busy, number) for number in range(30)]
        return first, _want(db, other, 30), _want(db, "s-gone", 31)

    first, other, gone = await store.write(want)
    assert await store.read(forks.list_wanted, 20) == [first[0], other, gone]
    assert await store.write(forks.remove_wanted, first[0])
    assert await store.read(forks.list_wanted, 2) == [first[1], other]
