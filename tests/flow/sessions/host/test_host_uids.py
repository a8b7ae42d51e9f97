"""Which host uid a group's sandboxes run as."""

import os

import pytest

from gatepost.core.clock import SystemClock
from gatepost.core.errors import SetupError
from gatepost.core.settings import Config
from gatepost.flow.sessions.host.host_uids import find_sandbox_uid, group_uid, uid_range
from gatepost.store.engine.sqlite_store import SqliteStore

PINNED = Config().with_values({"sandbox.uid": 64123}, "a file")


def test_a_uid_that_is_set_holds_for_all() -> None:
    assert uid_range(Config()) == (70000, 99999)
    assert uid_range(PINNED) is None


@pytest.mark.parametrize("wrong", ["x", "5", "0-9", "9-5", "1-99999999999"])
def test_a_range_that_is_none_is_said(wrong: str) -> None:
    with pytest.raises(SetupError, match=r"sandbox\.uids"):
        uid_range(Config({"sandbox.uids": wrong}))


@pytest.mark.skipif(os.geteuid() != 0, reason="the gateway as root")
async def test_stranger_08_worlds_differ_and_what_has_no_walls_is_the_daemons(store: SqliteStore) -> None:
    clock = SystemClock()
    acme, eng, beta = [await group_uid(store, Config(), clock, each) for each in ("acme", "acme/eng", "beta")]

    assert acme == eng != beta
    assert await group_uid(store, PINNED, clock, "acme") == 64123
    assert await find_sandbox_uid(store, Config(), clock, "acme", isolated=False) == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="the gateway as an ordinary user")
async def test_an_ordinary_user_has_one_uid(store: SqliteStore) -> None:
    assert await group_uid(store, Config(), SystemClock(), "acme") is None
