"""What an API token may do, by its scopes."""

import pytest

from gatepost.access.operation_rights import MOST_SCOPES, check_scopes, includes
from gatepost.core.errors import Invalid

RIGHTS = ("tasks.read", "tasks.write", "panic", "api_tokens.write")


@pytest.mark.parametrize(
    ("scopes", "right", "may"),
    [
        (("tasks.read",), "tasks.read", True),
        (("tasks.read",), "tasks.write", False),
        (("*.read",), "ledger.read", True),
        (("*.read",), "panic", False),
        (("tasks.*",), "tasks.write", True),
        (("*",), "panic", True),
        (("panic", "*.read"), "tasks.read", True),
        (("tasks",), "tasks.read", False),
        (("*",), "api_tokens.write", False),
        (("api_tokens.*",), "api_tokens.read", False),
        ((), "tasks.read", False),
    ],
)
def test_a_scope_is_a_right_in_which_a_part_may_be_any(scopes: tuple[str, ...], right: str, may: bool) -> None:
    assert includes(scopes, right) is may


@pytest.mark.parametrize("scopes", [(), ("task.read",), ("tasks.*.x",), ("",), ("api_tokens.write",), ("*",) * 99])
def test_scopes_that_mean_nothing_are_refused(scopes: tuple[str, ...]) -> None:
    with pytest.raises(Invalid, match="scopes"):
        check_scopes(scopes, RIGHTS)
    assert len(scopes) < 2 * MOST_SCOPES


def test_scopes_are_kept_once() -> None:
    assert check_scopes(("tasks.read", "*.read", "tasks.read"), RIGHTS) == ("tasks.read", "*.read")
