"""What makes a new version worse than the old one, and where nobody could go back."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.serve.upgrades.upgrade_run import Health, UpgradeState, check_way_back, compare_health
from gatepost.store.engine.place import StorePlace

VOLUME = Path("/dev/shm")
FINE = Health(unaccounted=0, errors=3)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (FINE, Health(0, 3), ""),
        (FINE, Health(0, 8), ""),
        (FINE, Health(0, 9), "6 new errors"),
        (FINE, Health(2, 3), "does not account for 2"),
        (Health(2, 3), Health(2, 3), ""),
        (FINE, Health(-1, 3), "cannot be checked"),
        (None, Health(0, 0), ""),
    ],
)
def test_a_version_is_worse_by_its_ledger_and_its_errors(before: Health | None, after: Health, said: str) -> None:
    found = compare_health(before, after)
    assert said in found and bool(found) == bool(said)


@pytest.mark.parametrize(
    ("url", "new", "refused"), [("", 76, False), ("postgresql://x", 75, False), ("postgresql://x", 76, True)]
)
def test_a_new_schema_on_a_database_that_others_may_share_is_refused_before_anything_is_changed(
    tmp_path: Path, url: str, new: int, refused: bool
) -> None:
    state = UpgradeState(
        place="p", old="o", new="n", old_version="0.2", new_version="0.3", old_schema=75, new_schema=new
    )
    with pytest.raises(SetupError, match="no way back by itself") if refused else nullcontext():
        check_way_back(state, StorePlace(Path("gatepost.db"), url), Home(tmp_path / "home"))


@pytest.mark.skipif(not VOLUME.is_mount(), reason="it stands for a volume")
@pytest.mark.parametrize(("new", "refused"), [(75, False), (76, True)])
def test_a_new_schema_in_a_home_that_is_a_volume_is_refused_before_anything_is_changed(new: int, refused: bool) -> None:
    """The home of then could not take its place."""
    state = UpgradeState(
        place="p", old="o", new="n", old_version="0.2", new_version="0.3", old_schema=75, new_schema=new
    )
    with pytest.raises(SetupError, match="is mounted") if refused else nullcontext():
        check_way_back(state, StorePlace(Path("gatepost.db"), ""), Home(VOLUME))
