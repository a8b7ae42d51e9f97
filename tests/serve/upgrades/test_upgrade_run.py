"""What makes a new version worse than the old one."""

import pytest

from gatepost.serve.upgrades.upgrade_run import Health, compare_health

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
