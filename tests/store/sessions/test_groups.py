"""Host uids of worlds: one each, never the same twice."""

import pytest

from gatepost.core.errors import SetupError
from gatepost.store.port import Db
from gatepost.store.sessions import groups


def test_stranger_08_a_world_keeps_its_uid_and_no_other_gets_it(db: Db) -> None:
    assert groups.get_uid(db, "acme") is None
    assert [groups.assign_uid(db, world, 70000, 70009, 1) for world in ("acme", "beta", "acme")] == [
        70000,
        70001,
        70000,
    ]


def test_a_uid_outside_the_range_is_replaced_and_a_full_range_is_said(db: Db) -> None:
    assert groups.assign_uid(db, "acme", 70000, 70001, 1) == 70000
    assert groups.assign_uid(db, "acme", 80000, 80000, 2) == 80000
    with pytest.raises(SetupError, match="80000-80000"):
        groups.assign_uid(db, "beta", 80000, 80000, 3)
