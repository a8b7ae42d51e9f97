"""The agents as parameters of a test."""

from typing import Any

import pytest

from gatepost_testing.agent_profiles import AGENTS


def every(*names: str, later: tuple[str, ...] = ()) -> list[Any]:
    """Those of these names, or all: skipped with the reason, slow where it is. `later`: slow, too, because another test
    of every day shows the same with them."""
    return [
        pytest.param(
            each,
            id=each.provider,
            marks=[
                pytest.mark.skipif(bool(each.missing), reason=each.missing or "it is there"),
                *([pytest.mark.slow] if each.slow or each.provider in later else []),
            ],
        )
        for each in AGENTS.values()
        if not names or each.provider in names
    ]
