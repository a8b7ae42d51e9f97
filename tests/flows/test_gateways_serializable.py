"""Two whole gateways at SERIALIZABLE: PostgreSQL says which units decide by what they do not have to themselves."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatepost_testing.channel import FakeChannel
from gatepost_testing.empty_database import EmptyDatabase
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.serializable import list_unexplained, make_serializable, watch_conflicts

ROOMS, MESSAGES = 8, 80


@pytest.mark.alone
async def test_no_unit_of_two_gateways_decides_by_what_another_changes(
    tmp_path: Path, emptied: EmptyDatabase, figures: Callable[[str], None]
) -> None:
    first, second = FakeChannel(), FakeChannel()
    shared: dict[str, Any] = {"store__url": make_serializable(emptied.url), "store__unsafe": True}
    with watch_conflicts() as conflicts:
        async with (
            running_gateway(tmp_path / "a", {"one": (first.kind, first)}, gateway__name="a", **shared) as a,
            running_gateway(tmp_path / "b", {"two": (second.kind, second)}, gateway__name="b", **shared) as b,
        ):
            for room in range(ROOMS):
                for gateway, instance in ((a, "one"), (b, "two")):
                    await open_room(gateway, instance, f"fake:room/{room}")
            for number in range(MESSAGES):
                for channel in (first, second):
                    await channel.say(f"m{number}", address=f"fake:room/{number % ROOMS}", sender="fake:user/1")
            await first.wait_for(MESSAGES)
            await second.wait_for(MESSAGES)
            account = await wait_until_settled(a)
    figures(f"refused at SERIALIZABLE: {dict(conflicts)}")
    assert account.unaccounted == 0
    assert list_unexplained(conflicts) == []
